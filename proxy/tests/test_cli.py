"""The server commands as processes: what they print, how they end, what they say on failure."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lanemq.proxy.cli._group import lanemq
from lanemq.testkit.servers import free_port
from lanemq.wire.frame import Connection, Frame, request

pytestmark = pytest.mark.slow  # every test starts Python again

RUN = [sys.executable, "-c", "from lanemq.proxy.cli import main; main()"]
READY_S = 300.0
"""Far more than a start takes: the machine may be busy."""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """``start("serve", ...)``: a process in an empty directory, killed at the end."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*RUN, *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The facts a server prints with ``--json``."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    facts: dict[str, Any] = json.loads(line)
    return facts


def failure(*arguments: str, cwd: Path) -> str:
    """The stderr of a command that fails; its exit status must be 1."""
    done = subprocess.run(
        [*RUN, *arguments], cwd=cwd, capture_output=True, text=True, timeout=READY_S, check=False
    )
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1
    assert done.stderr.splitlines()[-1] == lines[0]
    return lines[0].removeprefix("Error: ")


def call(address: str, frame: Frame) -> Frame:
    """One request over a connection of its own."""
    host, _, port = address.rpartition(":")
    protocol = Connection()
    with socket.create_connection((host, int(port)), timeout=READY_S) as opened:
        opened.sendall(protocol.send(frame))
        while not isinstance(event := protocol.next_event(), Frame):
            protocol.receive_data(opened.recv(65536))
    return event


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_serve_runs_both_and_stops_cleanly(start: Start, tmp_path: Path) -> None:
    process = start("serve", "--port", "0", "--json")
    facts = ready(process)
    assert facts["data"] == "lanemq-data"
    assert facts["vip_port"] == port_of(facts["broker"]) - 2
    route = call(facts["namesrv"], request(105, {"topic": "TBW102"}))
    assert route.code == 0, "the broker has registered before it is said to be ready"
    assert facts["broker"].encode() in route.body
    for port in (port_of(facts["broker"]), facts["vip_port"]):
        assert call(f"127.0.0.1:{port}", request(28)).code == 0
    assert (tmp_path / "lanemq-data" / "abort").exists()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=READY_S)
    assert process.returncode == 0
    assert out == ""
    assert "has unregistered" in err
    assert "Traceback" not in err
    assert not (tmp_path / "lanemq-data" / "abort").exists()


def test_serve_tells_people_what_is_ready(start: Start) -> None:
    process = start("serve", "--port", "0", "--data", "d", "--log-level", "error")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(4)]
    assert lines[0].startswith("name server 127.0.0.1:")
    assert lines[1].startswith("broker ")
    assert lines[2].startswith("http 127.0.0.1:")
    assert lines[3] == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=READY_S)
    assert (process.returncode, out, err) == (0, "", "")


def test_name_server_and_broker_run_apart(start: Start, tmp_path: Path) -> None:
    namesrv = ready(start("namesrv", "--host", "127.0.0.1", "--port", "0", "--json"))["namesrv"]
    text = "brokerName=b1\nbrokerClusterName=c1\nautoCreateTopicEnable=false\n"
    (tmp_path / "broker.conf").write_text(text)
    process = start(
        *("broker", "-c", "broker.conf", "-n", namesrv, "--host", "127.0.0.1"),
        *("--port", "0", "--data", "d", "--json"),
    )
    facts = ready(process)
    assert facts["broker_name"] == "b1"
    cluster = call(namesrv, request(106))
    assert f'0:"{facts["broker"]}"'.encode() in cluster.body
    assert b'"clusterAddrTable":{"c1":["b1"]}' in cluster.body
    assert call(namesrv, request(105, {"topic": "TBW102"})).code == 17
    process.send_signal(signal.SIGTERM)
    assert process.wait(READY_S) == 0
    assert b'"brokerAddrTable":{}' in call(namesrv, request(106)).body


def test_what_was_put_and_changed_survives_a_restart_of_the_name_server(start: Start) -> None:
    entry = {"namespace": "N", "key": "k", "value": "v"}
    arguments = ("namesrv", "--host", "127.0.0.1", "--port", "0", "--data", "d", "--json")
    first = start(*arguments)
    address = ready(first)["namesrv"]
    assert call(address, request(100, entry)).code == 0
    assert call(address, request(318, body=b"orderMessageEnable=true")).code == 0
    first.send_signal(signal.SIGTERM)
    assert first.wait(READY_S) == 0
    again = ready(start(*arguments))["namesrv"]
    assert call(again, request(101, entry)).fields == {"value": "v"}
    assert b"orderMessageEnable=true\n" in call(again, request(319)).body


def test_a_taken_port_is_one_line_that_names_the_way_to_another(tmp_path: Path) -> None:
    port = free_port(-2) - 2  # that of a broker's clients of old; its main one is free
    with socket.create_server(("127.0.0.1", port)):
        name_server = ("namesrv", "--host", "127.0.0.1", "--port", str(port))
        broker = ("broker", "--host", "127.0.0.1", "--port")
        serve = ("serve", "--port", "0", "--broker-port")
        (tmp_path / "logical.conf").write_text(f"logicalListenPort={port}\n")
        for command, ways_on in (
            (name_server, ("--port N", "listenPort in the file")),
            (("serve", "--port", str(port)), ("--port N",)),
            ((*serve, str(port)), ("--broker-port N", " listenPort in the broker's file")),
            ((*serve, str(port + 2)), ("--broker-port N", " listenPort in the broker's file")),
            ((*broker, str(port)), (" --port N", " listenPort in the broker's file")),
            ((*broker, "0", "-c", "logical.conf"), ("logicalListenPort in the broker's file",)),
        ):
            message = failure(*command, cwd=tmp_path)
            assert message.startswith(f"cannot listen on 127.0.0.1:{port}: Address already in use")
            assert [way for way in ways_on if way in message] == list(ways_on)


def test_a_data_directory_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "file" in failure("serve", "--port", "0", "--data", "file/store", cwd=tmp_path)
    assert "file" in failure("broker", "--port", "0", "--data", "file", cwd=tmp_path)


def test_tls_without_a_certificate_is_one_line_with_the_command_that_makes_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "tls.conf").write_text("tls.server.mode=enforcing\n")
    line = failure("broker", "-c", "tls.conf", "--port", "0", "--data", "d", cwd=tmp_path)
    assert line.startswith("tls.conf: tls.server.mode is enforcing")
    assert line.endswith("`lanemq serve --tls` makes them for trying it out")


def test_a_store_that_cannot_be_opened_is_one_line_with_the_command_that_helps(
    tmp_path: Path,
) -> None:
    (tmp_path / "d/commitlog").mkdir(parents=True)
    (tmp_path / "d/commitlog/00000000000000000000").write_bytes(b"x")
    line = failure("broker", "--port", "0", "--data", "d", cwd=tmp_path)
    assert line.endswith("are made again by `lanemq store repair d`")


def test_a_locked_store_is_one_line(start: Start, tmp_path: Path) -> None:
    running = start("serve", "--port", "0", "--data", "d", "--json")
    ready(running)
    for command in ("serve", "broker"):
        message = failure(command, "--port", "0", "--data", "d", cwd=tmp_path)
        assert message == (
            f"the store in d is in use: process {running.pid} holds d/lock. Stop that broker or"
            " tool first, or name another directory: --data DIR, or storePathRootDir in the"
            " broker's file"
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("brokerNme=x", "broker.conf: unknown key 'brokerNme'; did you mean 'brokerName'?"),
        ("listenPort=x", "broker.conf: listenPort: must be a number, not 'x'"),
        ("brokerRole=SLAVE", "broker.conf: lanemq does not replicate"),
    ],
)
def test_a_configuration_mistake_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "broker.conf").write_text(text)
    for command in (("serve", "--port", "0"), ("broker",)):
        said = failure(*command, "-c", "broker.conf", cwd=tmp_path)
        assert said.startswith(message)
    assert not (tmp_path / "lanemq-data").exists()


def test_a_configuration_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    said = failure("namesrv", "-c", "none.conf", cwd=tmp_path)
    assert said == "cannot read none.conf: No such file or directory"


def test_a_signal_during_the_start_ends_it(start: Start) -> None:
    process = start("serve", "--port", "0", "--data", "d", "--log-level", "error")
    assert process.stdout is not None
    process.stdout.readline()  # the first of three lines: still starting, or just started
    process.send_signal(signal.SIGTERM)
    assert process.wait(READY_S) == 0


def test_without_click_the_command_says_what_to_install(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['click'] = None; from lanemq.proxy.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hide],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "lanemq: the command line is not installed; pip install 'lanemq[server]'\n"
    )


def test_an_interruption_while_a_command_is_loaded_is_no_problem_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit status 1 of click's own would say that a store has problems."""

    def load(entry: EntryPoint) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(EntryPoint, "load", load)
    result = CliRunner().invoke(lanemq, ["store", "verify", "somewhere"])
    assert result.exit_code == 2
    assert result.stderr == "Error: interrupted, before anything was begun\n"


def test_the_help_of_every_server_command_names_its_options() -> None:
    for command in ("serve", "namesrv", "broker"):
        done = subprocess.run(
            [*RUN, command, "--help"], capture_output=True, text=True, timeout=READY_S, check=True
        )
        assert "--json" in done.stdout
        assert "--port" in done.stdout
