"""A broker that is killed in the middle of transactions ends each of them, and once."""

import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
import trio

from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.kills import use_until_it_dies
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.proxy.processes import server_process
from lanemq.wire import HostAddress, RequestCode
from lanemq.wire.headers import CheckTransactionState, EndTransaction
from lanemq.wire.message import decode_message, decode_offset_id

KILLS: Final = 15
SENDERS: Final = 2
LEAST_ACKNOWLEDGED: Final = 16
"""Transactions that are acknowledged before each kill; a quarter of them is left to checks."""
COMMIT, ROLLBACK = 8, 12
QUIET_S: Final = 3.0
"""Many rounds of checks, in which whatever is delivered twice would be."""
PATIENCE_S: Final = 120.0
"""Far more than the checks of all transactions take: the machine may be busy."""

CONFIG = """
transactionTimeOut = 200
transactionCheckInterval = 150
transactionCheckMax = 1000
flushConsumerOffsetInterval = 300
mappedFileSizeCommitLog = 1048576
mappedFileSizeConsumeQueue = 20000
maxHashSlotNum = 1000
maxIndexNum = 4000
"""


def fate(number: int) -> int:
    """The end that the transaction of a message has."""
    return ROLLBACK if number % 3 == 1 else COMMIT


def is_left_to_checks(number: int) -> bool:
    return number % 4 == 0


class Ledger:
    """Transactions, of which those that were acknowledged have to end as their producer says."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.asked = 0

    async def produce(self, address: HostAddress) -> None:
        """Send halves, end some of them, answer for the others, until the broker dies."""

        async def send(client: Client) -> None:
            await client.heartbeat(f"producer-{self._rng.random()}", producers=("pg",))
            while True:
                await self._transaction(client)

        await use_until_it_dies(address, send)

    async def _transaction(self, client: Client) -> None:
        self.sent += 1
        number = self.sent
        properties = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": f"U{number}"}
        answer = await client.send(
            "T", b"%d" % number, properties, sys_flag=4, born_timestamp=born_ms()
        )
        assert answer.code == 0, answer
        self.acknowledged.add(number)
        await self.answer_checks(client)
        if not is_left_to_checks(number):
            offset = int(answer.fields["queueOffset"])
            _, position = decode_offset_id(answer.fields["msgId"])
            await self._end(client, offset, position, number)

    async def answer_checks(self, client: Client) -> None:
        for frame in client.pushed:
            assert frame.code == RequestCode.CHECK_TRANSACTION_STATE
            self.asked += 1
            header = CheckTransactionState.from_fields(frame.fields)
            number = int(decode_message(frame.body).body)
            place = header.tran_state_table_offset, header.commit_log_offset
            await self._end(client, *place, number)
        client.pushed.clear()

    async def _end(self, client: Client, offset: int, position: int, number: int) -> None:
        header = EndTransaction("pg", offset, position, fate(number), f"U{number}")
        frame = client.frame(RequestCode.END_TRANSACTION, header.to_fields(), oneway=True)
        await client.peer.send(frame)

    @property
    def committed(self) -> set[int]:
        return {number for number in self.acknowledged if fate(number) == COMMIT}

    async def until_decided(self, client: Client) -> None:
        """Answer until everything is committed that has to be, and nobody asks any more."""
        await client.heartbeat("last", producers=("pg",))
        with trio.move_on_after(PATIENCE_S):
            while not self.committed <= set(await delivered(client)):
                await self.until_quiet(client, for_s=0.5)
        await self.until_quiet(client, for_s=QUIET_S)

    async def until_quiet(self, client: Client, *, for_s: float) -> None:
        """Answer until nobody has asked for some time."""
        await self.answer_checks(client)
        while True:
            with trio.move_on_after(for_s) as silence:
                client.pushed.append(await client.peer.receive())
            await self.answer_checks(client)
            if silence.cancelled_caught:
                return


def born_ms() -> int:
    return time.time_ns() // 1_000_000


async def delivered(client: Client) -> Counter[int]:
    return Counter(int(message.body) for message in await client.all_messages())


@pytest.mark.slow
async def test_every_transaction_ends_once_over_many_kills(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(CONFIG)
    command = ["serve", "--port", "0", "-c", "broker.conf", "--data", "store"]
    rng = random.Random(5)
    ledger = Ledger(rng)
    for _ in range(KILLS):
        async with (
            server_process(command, directory=tmp_path) as server,
            trio.open_nursery() as nursery,
        ):
            for _ in range(SENDERS):
                nursery.start_soon(ledger.produce, server.address())
            enough = len(ledger.acknowledged) + LEAST_ACKNOWLEDGED
            with trio.fail_after(60):
                while len(ledger.acknowledged) < enough:  # noqa: ASYNC110 - nobody is told
                    await trio.sleep(0.01)
            await trio.sleep(rng.uniform(0.2, 1.0))
            server.process.send_signal(signal.SIGKILL)
    async with server_process(command, directory=tmp_path) as server:
        client = Client(Peer(await server.connect()))
        await ledger.until_decided(client)
        found = await delivered(client)
        halves = await client.call(
            RequestCode.GET_MAX_OFFSET, {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": "0"}
        )
    assert ledger.committed <= set(found), "nothing committed is lost"
    assert {fate(number) for number in found} == {COMMIT}, "nothing rolled back is delivered"
    assert set(found.values()) == {1}, "and nothing comes twice"
    assert ledger.asked > KILLS
    assert int(halves.fields["offset"]) > len(ledger.acknowledged), "checks have made copies"
