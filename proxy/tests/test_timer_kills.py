"""A broker that is killed while messages wait for their time delivers each, and none too early."""

import random
import signal
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
import trio

from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.kills import use_until_it_dies
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.proxy.processes import server_process
from lanemq.testkit.servers import now_ms
from lanemq.wire import HostAddress, RequestCode

KILLS: Final = 8
LEAST_ACKNOWLEDGED: Final = 30
"""Messages that are acknowledged before each kill."""
LONGEST_MS: Final = 6000
FLUSH_MS: Final = 200
PATIENCE_S: Final = 120.0
"""Far more than it takes: the machine may be busy."""

CONFIG = f"""
timerFlushIntervalMs = {FLUSH_MS}
timerRollWindowSlot = 3
mappedFileSizeTimerLog = 8192
mappedFileSizeCommitLog = 1048576
mappedFileSizeConsumeQueue = 20000
maxHashSlotNum = 1000
maxIndexNum = 4000
"""


class Ledger:
    """Messages with a timer; those that are acknowledged have to come, unless recalled."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.recalled: set[int] = set()

    async def produce(self, address: HostAddress) -> None:
        """Send until the broker dies."""

        async def send(client: Client) -> None:
            while True:
                await self._send(client)

        await use_until_it_dies(address, send)

    async def _send(self, client: Client) -> None:
        self.sent += 1
        number = self.sent
        wait_ms = self._rng.randint(1, LONGEST_MS)
        is_recalled = number % 10 == 0
        if is_recalled:
            wait_ms += 2 * LONGEST_MS
        properties = {"TIMER_DELIVER_MS": str(now_ms() + wait_ms), "UNIQ_KEY": f"U{number}"}
        answer = await client.send("T", b"%d" % number, properties, born_timestamp=now_ms())
        assert answer.code == 0, answer.remark
        if not is_recalled:
            self.acknowledged.add(number)
        elif handle := answer.fields.get("recallHandle"):
            fields = {"topic": "T", "recallHandle": handle}
            recalled = await client.call(RequestCode.RECALL_MESSAGE, fields)
            if recalled.code == 0:
                self.recalled.add(number)


@pytest.mark.slow
async def test_every_message_comes_and_none_before_its_time_over_many_kills(
    tmp_path: Path,
) -> None:
    (tmp_path / "broker.conf").write_text(CONFIG)
    command = ["serve", "--port", "0", "-c", "broker.conf", "--data", "store"]
    rng = random.Random(5)
    ledger = Ledger(rng)
    for _ in range(KILLS):
        async with (
            server_process(command, directory=tmp_path) as server,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(ledger.produce, server.address())
            enough = len(ledger.acknowledged) + LEAST_ACKNOWLEDGED
            with trio.fail_after(PATIENCE_S):
                while len(ledger.acknowledged) < enough:  # noqa: ASYNC110 - nobody is told
                    await trio.sleep(0.01)
            await trio.sleep(rng.uniform(0.2, 1.5))
            server.process.send_signal(signal.SIGKILL)
    async with server_process(command, directory=tmp_path) as server:
        client = Client(Peer(await server.connect()))
        with trio.fail_after(PATIENCE_S):
            last = {"TIMER_DELAY_MS": str(3 * LONGEST_MS), "UNIQ_KEY": "last"}
            await client.send("T", b"0", last)
            while True:
                messages = await client.all_messages()
                counts = Counter(int(message.body) for message in messages)
                if 0 in counts and ledger.acknowledged <= set(counts):
                    break
                await trio.sleep(0.2)
    for message in messages:
        due_ms = int(message.properties.get("TIMER_DELIVER_MS", "0"))
        assert message.store_timestamp_ms >= due_ms, "nothing comes before its time"
    assert ledger.recalled, "some were recalled"
    assert not ledger.recalled & set(counts), "and these do not come"
    assert any("TIMER_ROLL_TIMES" in message.properties for message in messages)
