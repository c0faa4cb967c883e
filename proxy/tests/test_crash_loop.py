"""A broker that is killed under load, again and again, keeps every message it acknowledged."""

import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from lanemq.testkit.proxy.brokers import Client, pull_header, send_header
from lanemq.testkit.proxy.kills import use_until_it_dies
from lanemq.testkit.proxy.peers import Peer
from lanemq.wire import HostAddress, RequestCode
from lanemq.wire.message import decode_messages

KILLS = 50
SENDERS = 3
PIPELINED = 16
LEAST_ANSWERED = 51
"""Sends that are acknowledged before each kill."""
QUEUES = 4
START = "from lanemq.proxy.cli import main; main()"

# Files so small, and checkpoints so frequent, that kills meet their edges as well.
CONFIG = """
flushIntervalConsumeQueue = 100
flushConsumeQueueThoroughInterval = 100
mappedFileSizeCommitLog = 1048576
mappedFileSizeConsumeQueue = 20000
maxHashSlotNum = 1000
maxIndexNum = 4000
"""


@asynccontextmanager
async def running(root: Path) -> AsyncIterator[tuple[trio.Process, HostAddress]]:
    """A broker over the store in ``root``, as a process of its own; killed at the end."""
    process: trio.Process = await trio.lowlevel.open_process(
        [
            *(sys.executable, "-c", START, "serve", "--port", "0", "--json"),
            *("-c", str(root / "broker.conf"), "--data", str(root / "store")),
            *("--log-level", "warning"),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = b""
        with trio.fail_after(60):
            while not line.endswith(b"\n"):
                data = await process.stdout.receive_some()
                assert data, "the broker did not start; see its stderr"
                line += data
        facts: dict[str, Any] = msgspec.json.decode(line)
        yield process, HostAddress.parse(facts["broker"])
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if process.stdout is not None:
            await process.stdout.aclose()


class Ledger:
    """Acknowledged messages, their places by the broker's word, and how far they were checked."""

    def __init__(self, rng: random.Random) -> None:
        self.sent = 0
        self.answered = 0
        self._rng = rng
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.checked = dict.fromkeys(range(QUEUES), 0)

    async def send(self, address: HostAddress) -> None:
        """Send as fast as the broker answers, until it dies."""

        async def send(client: Client) -> None:
            while True:
                await self._send_some(client)

        # What is not acknowledged then may be there or not.
        await use_until_it_dies(address, send)

    async def _send_some(self, client: Client) -> None:
        waiting: dict[int, bytes] = {}
        frames = []
        for _ in range(PIPELINED):
            self.sent += 1
            body = b"%d:" % self.sent + bytes(self._rng.randrange(700))
            header = send_header("T", queue_id=self.sent % QUEUES)
            frame = client.frame(RequestCode.SEND_MESSAGE_V2, header.to_letters(), body)
            waiting[frame.opaque] = body
            frames.append(frame)
        await client.peer.send(*frames)
        while waiting:
            answer = await client.peer.receive()
            assert answer.code == 0, answer
            place = int(answer.fields["queueId"]), int(answer.fields["queueOffset"])
            assert place not in self.acknowledged, "one place given out twice"
            self.acknowledged[place] = waiting.pop(answer.opaque)
            self.answered += 1

    async def check(self, address: HostAddress) -> None:
        """Read what is new since the last check; every acknowledged message is in its place."""
        async with await trio.open_tcp_stream(address.host, address.port) as stream:
            client = Client(Peer(stream))
            for queue_id, offset in self.checked.items():
                while True:
                    header = pull_header("T", queue_id, offset)
                    answer = await client.call(RequestCode.PULL_MESSAGE, header.to_fields())
                    if answer.code != 0:
                        break
                    for message in decode_messages(answer.body, check_crc=True):
                        assert message.queue_offset == offset, "offsets have no gap"
                        expected = self.acknowledged.pop((queue_id, offset), None)
                        assert expected is None or message.body == expected
                        offset += 1
                self.checked[queue_id] = offset
        assert not self.acknowledged, f"{len(self.acknowledged)} acknowledged messages are lost"


@pytest.mark.slow
async def test_no_acknowledged_message_is_lost_over_fifty_kills(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(CONFIG)
    rng = random.Random(5)
    ledger = Ledger(rng)
    for _ in range(KILLS):
        async with running(tmp_path) as (process, address), trio.open_nursery() as nursery:
            if ledger.sent:
                await ledger.check(address)
            for _ in range(SENDERS):
                nursery.start_soon(ledger.send, address)
            enough = ledger.answered + LEAST_ANSWERED
            with trio.fail_after(60):
                while ledger.answered < enough:  # noqa: ASYNC110 - the senders tell nobody
                    await trio.sleep(0.01)
            await trio.sleep(rng.uniform(0, 0.45))
            process.send_signal(signal.SIGKILL)
    async with running(tmp_path) as (process, address):
        await ledger.check(address)
        process.terminate()
        with trio.fail_after(60):
            assert await process.wait() == 0
    assert sum(ledger.checked.values()) >= LEAST_ANSWERED * KILLS
