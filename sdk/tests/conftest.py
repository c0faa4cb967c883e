"""A cluster in memory for every test that wants one; a real server for the few that need it."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from lanemq.sdk.consumer import _consumer_core
from lanemq.testkit.sdk.cluster import FakeCluster, small_cluster
from lanemq.testkit.sdk.kv import KvCluster

SERVE = "from lanemq.proxy.cli import main; main()"


@pytest.fixture(scope="session", autouse=True)
def _interruptions_arrive() -> None:
    """A shell starts what runs behind its back deaf to SIGINT; tests of it could not but fail."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def cluster(nursery: trio.Nursery) -> FakeCluster:
    """One name server, one broker, and a network that can be broken."""
    return small_cluster(nursery)


@pytest.fixture
def kv(nursery: trio.Nursery) -> KvCluster:
    """Two brokers with keys."""
    return KvCluster(nursery, brokers=2)


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The time zone of what was recorded, for a test's time."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def patient_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that are closed wait for the answers to their reports, as long as it takes."""
    monkeypatch.setattr(_consumer_core, "PERSIST_TIMEOUT_S", 60.0)


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """The address of a `lanemq serve` of its own."""
    command = [sys.executable, "-c", SERVE, "serve", "--port", "0", "--json", *options]
    with (
        (folder / "stderr").open("wb") as errors,
        subprocess.Popen(
            [*command, "--data", str(folder / "data")], stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (folder / "stderr").read_text()
        try:
            yield msgspec.json.decode(line)["namesrv"]
        finally:
            process.terminate()
            assert process.wait(300) == 0, (folder / "stderr").read_text()


@pytest.fixture(scope="session")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server as it comes."""
    with serving(tmp_path_factory.mktemp("serve")) as address:
        yield address


@pytest.fixture(scope="session")
def quick_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with delays of a second at most: messages that are retried come soon."""
    folder = tmp_path_factory.mktemp("quick")
    configuration = folder / "broker.conf"
    configuration.write_text("messageDelayLevel=" + "1s " * 17 + "1s\n")
    with serving(folder, "-c", str(configuration)) as address:
        yield address


@pytest.fixture
def no_transactions_server(tmp_path: Path) -> Iterator[str]:
    """A server that refuses half messages."""
    configuration = tmp_path / "broker.conf"
    configuration.write_text("rejectTransactionMessage=true\n")
    with serving(tmp_path, "-c", str(configuration)) as address:
        yield address
