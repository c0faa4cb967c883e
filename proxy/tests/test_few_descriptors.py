"""A real broker with few file descriptors: more peers than those never stop its writes."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.proxy.processes import server_process

pytestmark = pytest.mark.slow


def limited(soft: int, hard: int) -> Callable[[], None]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    return limit


@pytest.mark.parametrize(("soft", "hard", "served"), [(128, 600, 300), (300, 300, 150)])
async def test_writes_go_on_with_more_peers_than_descriptors(
    tmp_path: Path, soft: int, hard: int, served: int
) -> None:
    (tmp_path / "broker.conf").write_text(
        "flushDiskType = SYNC_FLUSH\nmappedFileSizeCommitLog = 65536\n"
        "mappedFileSizeConsumeQueue = 20000\nmaxHashSlotNum = 1000\nmaxIndexNum = 4000\n"
        "serverChannelMaxIdleTimeSeconds = 3600\n"  # or a slow run gives places of idle peers away
    )
    command = ["broker", "--host", "127.0.0.1", "--port", "0", "--name", "b", "--data", "store"]
    async with server_process(
        [*command, "-c", "broker.conf"], directory=tmp_path, before=limited(soft, hard)
    ) as broker:
        sender = Client(Peer(await broker.connect()))
        assert (await sender.send("T")).code == 0
        peers = [  # of many hosts, as one has three quarters of the places at most
            Client(Peer(await broker.connect(origin=f"127.0.0.{2 + number % 250}")))
            for number in range(700)
        ]
        answered = 0
        for number, peer in enumerate(peers):
            try:
                with trio.fail_after(60):
                    answered += (await peer.send(f"T{number % 50}", bytes(2000))).code == 0
            except (EOFError, trio.BrokenResourceError):
                continue
        assert answered == served - 1
        for number in range(100):
            assert (await sender.send(f"T{number}", bytes(2000))).code == 0
        assert "descriptors" in broker.log_text
        assert "cannot be written" not in broker.log_text
        assert "Traceback" not in broker.log_text
