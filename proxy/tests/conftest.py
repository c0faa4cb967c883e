"""Peers of servers over memory streams, and captures of real software."""

import gzip
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from lanemq.proxy.net._server import Server
from lanemq.storage import system_clock_ms
from lanemq.testkit.logical.cluster import LogicalCluster
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.testkit.logs import every_line_logged
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.testkit.proxy.peers import Connect, Dial, Peer, Recorded
from lanemq.testkit.proxy.turns import Turns, turns_measured_by
from lanemq.wire import HostAddress

FRAMES = Path(__file__).parents[2] / "compat_tests" / "vectors" / "frames"
TEN_MESSAGES = pytest.mark.mapped_cluster(messages=10).mark


@pytest.fixture(autouse=True)
def turns() -> Iterator[Turns]:
    """Turns of the loop take no time, however busy the machine is, unless a test says so."""
    clock = Turns()
    with turns_measured_by(clock.now_s):
        yield clock


@pytest.fixture(autouse=True)
def every_line() -> Iterator[None]:
    """Lines that peers cause are all logged, whatever other tests have logged before."""
    with every_line_logged():
        yield


@pytest.fixture
def clock() -> Callable[[], int]:
    """The time of day of ``broker``; files whose tests move it have a clock of their own."""
    return system_clock_ms


@pytest.fixture
async def broker(tmp_path: Path, clock: Callable[[], int]) -> AsyncIterator[TestBroker]:
    """A broker with the settings it has by itself."""
    async with open_test_broker(tmp_path, now_ms=clock) as opened:
        yield opened


@pytest.fixture
def client(broker: TestBroker) -> Client:
    """A connection to ``broker``."""
    return broker.connect()


@pytest.fixture
async def cluster(
    request: pytest.FixtureRequest, autojump_clock: MockClock
) -> AsyncIterator[LogicalCluster]:
    """Two brokers with one queue each; logical queue 0 has 10 messages.

    Tests with the mark ``mapped_cluster`` have another one: its arguments are that function's.
    """
    mark = request.node.get_closest_marker("mapped_cluster") or TEN_MESSAGES
    async with mapped_cluster(*mark.args, **mark.kwargs) as opened:
        yield opened


@pytest.fixture
def connect(nursery: trio.Nursery) -> Connect:
    """``connect(server)``: a new peer of ``server`` over a memory stream."""

    def connect(server: Server, *, host: str = "10.1.2.3", port: int = 40001) -> Peer:
        ours, theirs = memory_stream_pair()
        nursery.start_soon(partial(server.serve_stream, theirs, peer=HostAddress(host, port)))
        return Peer(ours)

    return connect


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """``await dial(port)``: a peer over a real socket, closed at the end of the test."""
    async with AsyncExitStack() as stack:

        async def dial(port: int) -> Peer:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            return Peer(await stack.enter_async_context(stream))

        yield dial


@pytest.fixture
def recorded() -> Callable[[str], Iterator[Recorded]]:
    """``recorded(name)``: the frames of a capture of real software, in order."""

    def read(name: str) -> Iterator[Recorded]:
        with gzip.open(FRAMES / f"{name}.jsonl.gz", "rt") as lines:
            for line in lines:
                entry: dict[str, Any] = json.loads(line)
                data = b64decode(entry["frame"])
                yield Recorded(entry["conn"], entry["dir"] == "c2s", entry["peer"], data)

    return read
