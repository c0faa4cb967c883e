"""Server processes: started, found ready, stopped, killed, started again."""

import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lanemq.compat import Cluster, Daemon, ServerFailed, running
from lanemq.compat.servers import _daemon, _ports
from lanemq.compat.servers._ports import HIGHEST, LOWEST, Ports, free_port, ports_below

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow  # processes, and their deadlines

# Ready when its file is there; ends in an orderly way when asked to.
GOOD = """
import pathlib, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
print("hello", flush=True)
pathlib.Path("ready").touch()
signal.sigwait([signal.SIGTERM])
print("bye")
"""
BAD = "print('no such key'); raise SystemExit(2)"
STUBBORN = GOOD.replace("sigwait([signal.SIGTERM])", "sigwait([signal.SIGUSR1])")


def daemon(folder: Path, script: str, *, start_s: float = 120.0) -> Daemon:
    async def ready() -> bool:
        return (folder / "ready").exists()

    command = [sys.executable, "-c", script]
    return Daemon("server", command, folder=folder, ready=ready, start_s=start_s)


async def test_a_daemon_starts_stops_and_starts_again_with_one_log(tmp_path: Path) -> None:
    server = daemon(tmp_path, GOOD)
    for _ in range(2):
        await server.start()
        assert server.pid > 0
        assert server.ready_after_s > 0
        assert await server.stop() == 0
        assert not server.is_running
        (tmp_path / "ready").unlink()
    assert server.log.read_text().split() == ["hello", "bye", "hello", "bye"]


async def test_a_killed_daemon_is_gone_at_once(tmp_path: Path) -> None:
    server = daemon(tmp_path, GOOD)
    await server.start()
    await server.kill()
    assert not server.is_running
    assert await server.stop() == -signal.SIGKILL
    assert "bye" not in server.log.read_text()


async def test_a_daemon_that_ends_while_starting_shows_its_log(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match=r"ended while starting(.|\n)*no such key"):
        await daemon(tmp_path, BAD).start()


TAKEN_ONCE = (
    """
import pathlib
if not pathlib.Path("tried").exists():
    pathlib.Path("tried").touch()
    raise OSError("Address already in use")
"""
    + GOOD
)


async def test_a_daemon_whose_port_is_taken_for_a_moment_is_started_again(tmp_path: Path) -> None:
    server = daemon(tmp_path, TAKEN_ONCE)
    await server.start()
    assert server.is_running
    assert server.log.read_bytes().count(b"Address already in use") == 1
    await server.stop()


async def test_a_daemon_whose_port_stays_taken_fails_with_its_log(tmp_path: Path) -> None:
    server = daemon(tmp_path, "raise OSError('Address already in use')")
    with pytest.raises(ServerFailed, match="ended while starting"):
        await server.start()
    assert server.log.read_bytes().count(b"Address already in use") == _daemon.STARTS


async def test_a_daemon_that_is_never_ready_is_killed(tmp_path: Path) -> None:
    server = daemon(tmp_path, GOOD.replace('"ready"', '"other"'), start_s=1.0)
    with pytest.raises(ServerFailed, match="not ready after 1 s"):
        await server.start()
    assert not server.is_running


async def test_a_daemon_that_ignores_its_end_is_killed_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lanemq.compat.servers._daemon.STOP_S", 0.5)
    server = daemon(tmp_path, STUBBORN)
    await server.start()
    with pytest.raises(ServerFailed, match="did not stop"):
        await server.stop()
    assert not server.is_running


async def test_a_cluster_keeps_its_logs_when_something_went_wrong(tmp_path: Path) -> None:
    server = daemon(tmp_path / "run", GOOD)
    cluster = Cluster("some", "127.0.0.1:1", tmp_path / "run", [server])
    with pytest.raises(ZeroDivisionError):
        async with running(cluster, logs=tmp_path / "logs"):
            raise ZeroDivisionError
    assert not server.is_running
    assert (tmp_path / "logs" / "some" / "server.log").read_text().startswith("hello")


async def test_a_cluster_that_half_started_is_ended(tmp_path: Path) -> None:
    first, second = daemon(tmp_path / "one", GOOD), daemon(tmp_path / "two", BAD)
    cluster = Cluster("some", "127.0.0.1:1", tmp_path, [first, second])
    with pytest.raises(ServerFailed):
        await cluster.start()
    assert not first.is_running


def test_ports_are_out_of_the_way_of_outgoing_connections() -> None:
    for _ in range(20):
        assert LOWEST <= free_port(1, -2) < HIGHEST


@pytest.mark.parametrize(
    ("outgoing", "ours"),
    [
        (32_768, (21_000, 31_000)),
        (31_000, (21_000, 31_000)),
        (16_000, (6_000, 16_000)),
        (1_024, (21_000, 31_000)),  # there is no room below
    ],
)
def test_ports_are_below_those_that_the_system_gives_out(
    outgoing: int, ours: tuple[int, int]
) -> None:
    assert ports_below(outgoing) == ours


def test_no_page_has_a_port_that_a_test_may_be_given() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")]
    told = {
        int(port)
        for page in pages
        for port in re.findall(r"(?:port |localhost:|127\.0\.0\.1:)(\d{4,5})\b", page.read_text())
        if '"storeHost"' not in page.read_text()  # what a store has, which is no command
    }
    assert {20931, 20951, 9876} <= told
    assert [port for port in told if LOWEST - 16 <= port < HIGHEST] == []


def test_a_port_that_is_taken_at_another_address_is_not_free() -> None:
    ports = Ports()
    port = ports.take()
    with socket.socket() as other:
        other.bind(("127.0.0.2", port))
        other.listen()
        assert not _ports._is_free(port)
    assert _ports._is_free(port)
    ports._blocks[0].reservation.close()


def test_threads_are_given_ports_of_their_own() -> None:
    ports = Ports()
    with ThreadPoolExecutor(8) as threads:
        given = list(threads.map(lambda _: ports.take(), range(64)))
        given += threads.map(lambda _: ports.take(1), range(20))
    assert len(set(given)) == len(given)
    for block in ports._blocks:
        block.reservation.close()


def test_ports_are_given_out_once_though_nobody_listens_there_yet() -> None:
    given = [free_port(1, -2) for _ in range(50)]
    ports = {port + distance for port in given for distance in (0, 1, -2)}
    assert len(ports) == 3 * len(given)


def test_a_broker_has_its_logical_ports_to_itself() -> None:
    given = [free_port(1, -2) for _ in range(50)]
    ports = {port + distance for port in given for distance in (0, 1, -2, 10, 8)}
    assert len(ports) == 5 * len(given)


def test_a_proxy_has_the_ports_of_all_its_brokers_to_itself() -> None:
    distances = range(-2, 51)
    proxies = [free_port(-2, *range(10, 60, 10)) for _ in range(6)]
    others = [free_port(1, -2) for _ in range(30)]
    ports = {port + distance for port in proxies for distance in distances}
    assert len(ports) == len(proxies) * len(distances)
    assert ports.isdisjoint(port + distance for port in others for distance in range(-2, 14))


def test_no_other_process_is_given_the_ports_of_a_server_that_is_down() -> None:
    code = (
        "import sys; from lanemq.compat import free_port\n"
        "print(*(free_port(1, -2) for _ in range(40)), *(free_port() for _ in range(40)))\n"
        "sys.stdout.flush(); sys.stdin.read()"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        theirs = [int(port) for port in other.stdout.readline().split()]
        assert len(theirs) == 80
        whole = {port + distance for port in theirs[:40] for distance in (0, 1, -2, 10, 8)}
        ours = {free_port(1, -2) + distance for _ in range(80) for distance in (0, 1, -2, 10, 8)}
        ours |= {free_port() for _ in range(80)}
        assert ours & (whole | set(theirs)) == set()
        other.stdin.close()


def test_ports_that_are_given_out_singly_are_in_no_block_that_is_given_out_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_ports, "OWN_MAX", 3)
    ports = Ports()
    singles = {ports.take()}
    blocks = [ports.take(1, -2) for _ in range(6)]
    assert len(set(blocks)) == 2  # of three, the first is the one for single ports
    singles |= {ports.take() for _ in range(15)}
    assert len(singles) == 16
    assert singles.isdisjoint(port + distance for port in blocks for distance in range(-2, 14))
    for block in ports._blocks:
        block.reservation.close()


def test_a_process_with_many_proxies_has_no_more_ports_than_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_ports, "OWN_MAX", 9)
    ports = Ports()
    for _ in range(5):
        ports.take(1, 50)
        ports.take(1)
    assert len(ports._blocks) <= 9
    for block in ports._blocks:
        block.reservation.close()


def test_distances_beyond_a_block_are_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        free_port(1, 70)
