"""Store directories of one broker and of a fleet: neither is started as the other."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lanemq.proxy._settings import ConfigError
from lanemq.proxy.cli._store_kinds import refuse_fleet_stores, refuse_lone_store

RUN = [sys.executable, "-m", "lanemq.proxy.cli"]
READY_S = 300.0
"""Far more than a start takes: the machine may be busy."""
APART = 20
"""The distance between the ports of two brokers of a fleet."""
OTHER_DATA = "; --data DIR, or storePathRootDir in the broker's file, takes another directory"


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[dict[str, object]]:
    """Run ``lanemq serve`` on free ports and the store ``d``, ended by SIGTERM."""
    command = [*RUN, "serve", "--port", "0", "--data", "d", "--json", *options]
    with (
        (folder / "stderr").open("a") as errors,
        subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (folder / "stderr").read_text()
        yield json.loads(line)
        process.send_signal(signal.SIGTERM)
        assert process.wait(READY_S) == 0, (folder / "stderr").read_text()


def said(folder: Path, *arguments: str, status: int = 1) -> list[str]:
    """Return what a command says that fails with ``status``, line by line."""
    done = subprocess.run(
        [*RUN, *arguments], cwd=folder, capture_output=True, text=True, timeout=READY_S, check=False
    )
    assert done.returncode == status, done
    assert done.stdout == ""
    return done.stderr.splitlines()


def a_store(directory: Path) -> None:
    (directory / "consumequeue").mkdir(parents=True)


@pytest.mark.slow
def test_the_stores_of_a_fleet_are_not_passed_over_by_one_broker(tmp_path: Path) -> None:
    with serving(tmp_path, "--brokers", "2"):
        running = said(tmp_path, "serve", "--port", "0", "--data", "d")
    before = sorted((tmp_path / "d").iterdir())
    stopped = said(tmp_path, "serve", "--port", "0", "--data", "d", "--tls")
    assert (
        running
        == stopped
        == [
            (
                "Error: d has no store of its own, but those of a fleet (broker-1, broker-2): "
                f"--brokers 2 goes on with them{OTHER_DATA}"
            )
        ]
    )
    assert said(tmp_path, "broker", "--port", "0", "--data", "d") == [
        (
            "Error: d has no store of its own, but those of a fleet (broker-1, broker-2): `lanemq "
            "serve --brokers 2` goes on with them, and --data d/broker-1 with the first alone"
            f"{OTHER_DATA}"
        )
    ]
    assert sorted((tmp_path / "d").iterdir()) == before, "nothing was made"


@pytest.mark.slow
def test_the_store_of_one_broker_is_not_passed_over_by_a_fleet(tmp_path: Path) -> None:
    with serving(tmp_path):
        pass
    before = sorted((tmp_path / "d").iterdir())
    assert said(tmp_path, "serve", "--port", "0", "--data", "d", "--brokers", "3") == [
        (
            "Error: d has the store of one broker, and none of a fleet (broker-1 and so on): "
            f"leave --brokers 3 out to go on with it{OTHER_DATA}"
        )
    ]
    assert sorted((tmp_path / "d").iterdir()) == before, "nothing was made"


def test_a_directory_with_both_kinds_and_one_with_neither_start_as_either(tmp_path: Path) -> None:
    for names in ((), ("broker-1", "namesrv"), ("tls",)):
        for name in names:
            (tmp_path / name).mkdir(exist_ok=True)
        refuse_fleet_stores(tmp_path, keeps="")
        refuse_lone_store(tmp_path, 2)
    refuse_fleet_stores(tmp_path / "none", keeps="")
    refuse_lone_store(tmp_path / "none", 2)
    a_store(tmp_path)
    a_store(tmp_path / "broker-1")
    refuse_fleet_stores(tmp_path, keeps="")
    refuse_lone_store(tmp_path, 2)


def test_a_fleet_has_as_many_brokers_as_the_last_of_its_stores_says(tmp_path: Path) -> None:
    for number in (10, 2):
        a_store(tmp_path / f"broker-{number}")
    a_store(tmp_path / "broker-x")
    with pytest.raises(ConfigError) as caught:
        refuse_fleet_stores(tmp_path, keeps="--brokers {count}, or {first}")
    assert f"(broker-2, broker-10): --brokers 10, or {tmp_path}/broker-2;" in str(caught.value)


@pytest.mark.slow
def test_brokers_of_a_fleet_do_not_write_one_log(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("storePathCommitLog=log\n")
    assert said(tmp_path, "serve", "--port", "0", "--brokers", "2", "-c", "broker.conf")[-1] == (
        "Error: storePathCommitLog is log, which 2 brokers cannot share: leave it out, and each "
        "has its log in its own store"
    )
    assert not (tmp_path / "log").exists()


@pytest.mark.slow
def test_a_store_directory_without_a_name_is_refused(tmp_path: Path) -> None:
    for command in ("serve", "broker", "namesrv"):
        *_, last = said(tmp_path, command, "--port", "0", "--data", "", status=2)
        assert last == (
            "Error: Invalid value for '--data': it is empty: name a directory, or leave the "
            "option out"
        )
    (tmp_path / "broker.conf").write_text("storePathRootDir=\n")
    assert said(tmp_path, "broker", "--port", "0", "-c", "broker.conf") == [
        "Error: broker.conf: storePathRootDir: is empty, and must be a path"
    ]
    assert [entry.name for entry in tmp_path.iterdir()] == ["broker.conf"]


@pytest.mark.slow
def test_a_fleet_whose_stores_are_in_use_says_so_in_lines(tmp_path: Path) -> None:
    with serving(tmp_path, "--brokers", "2") as facts:
        lines = said(tmp_path, "serve", "--port", "0", "--data", "d", "--brokers", "2")
        assert isinstance(facts["brokers"], list)
        pids = [broker["pid"] for broker in facts["brokers"]]
    assert_failed(lines, "did not start (exit status 1)")
    assert any(
        f"Error: the store in d/broker-{number} is in use: process {pid} holds" in line
        for line in lines
        for number, pid in enumerate(pids, 1)
    )


@pytest.mark.slow
def test_a_fleet_whose_ports_are_taken_says_so_in_lines(tmp_path: Path) -> None:
    with a_taken_pair() as ports:
        first = ("--broker-port", str(ports[0]))
        lines = said(tmp_path, "serve", "--port", "0", "--brokers", "2", *first)
    assert_failed(lines, " did not start (exit status 1): the reason is above")
    found = re.search(r"-([12]) did not start", lines[-1])
    assert found is not None, lines
    start = f"Error: cannot listen on 127.0.0.1:{ports[int(found[1]) - 1]}: "
    (line,) = (line for line in lines if line.startswith(start))
    assert ": --broker-port N, or listenPort in the broker's file" in line


@contextmanager
def a_taken_pair() -> Iterator[tuple[int, int]]:
    """Listen where the first and the second broker of a fleet would: whichever fails first does so
    for a reason that is known."""
    for _ in range(100):
        with socket.create_server(("127.0.0.1", 0)) as first, ExitStack() as stack:
            port = first.getsockname()[1]
            try:
                stack.enter_context(socket.create_server(("127.0.0.1", port + APART)))
            except (OSError, OverflowError):
                continue
            yield port, port + APART
            return
    raise AssertionError("no two ports are free at that distance")


def assert_failed(lines: list[str], text: str) -> None:
    """Check that ``lines`` end with one about the brokers, and have no traceback."""
    assert lines[-1].startswith("Error: broker ")
    assert text in lines[-1]
    assert lines[-1].endswith(": the reason is above")
    assert not [line for line in lines if "Traceback" in line or "ExceptionGroup" in line]
