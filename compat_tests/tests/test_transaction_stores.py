"""Brokers of either maker take a store over in the middle of transactions, and back."""

import time
from functools import partial
from pathlib import Path

import pytest
import trio

from lanemq.compat import APACHE_VERSIONS
from lanemq.compat.servers._apache import TEST_STORE
from lanemq.compat.servers._clusters import SHORT_TRANSACTIONS
from lanemq.compat.servers._waiting import until
from lanemq.compat.stores._stand import StoreStand
from lanemq.storage import Stage
from lanemq.testkit.proxy.brokers import Client, connected
from lanemq.wire import RequestCode, SystemGroup, SystemTopic
from lanemq.wire.frame import Frame
from lanemq.wire.headers import CheckTransactionState, EndTransaction
from lanemq.wire.message import decode_message, decode_offset_id

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

COMMIT, ROLLBACK = 8, 12
STATES = {b"yes": COMMIT, b"no": ROLLBACK, b"late": COMMIT, b"late no": ROLLBACK}
LATE = {b"late", b"late no"}
"""Those that end when a broker asks. About others it may ask where their end came late."""
SETTINGS = {
    **TEST_STORE,
    **SHORT_TRANSACTIONS,
    "transactionCheckMax": "1000",
    "transactionOpBatchInterval": "100",
}
ROUNDS_S = 4.0
"""Time for several rounds of checks."""


async def send_half(client: Client, key: str) -> Frame:
    properties = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": key}
    born_ms = time.time_ns() // 1_000_000
    answer = await client.send(
        "T", key.encode(), properties, sys_flag=4, queue_id=0, born_timestamp=born_ms
    )
    assert answer.code == 0, answer.remark
    return answer


async def end(client: Client, offset: int, position: int, state: int, *, asked: bool) -> None:
    header = EndTransaction("pg", offset, position, state, "id", from_transaction_check=asked)
    answer = await client.call(RequestCode.END_TRANSACTION, header.to_fields())
    # To lanemq an answer about a copy of a message that has ended says nothing new.
    assert answer.code == 0 or (asked and "ended already" in (answer.remark or "")), answer.remark


async def answer_checks(client: Client, asked: list[bytes]) -> None:
    """Answer whatever is asked, and note what it was about, in order.

    A broker whose next round begins before it knows of an answer stores the half message once
    more, and asks about that copy, too: one answer for each transaction would not do.
    """
    await client.heartbeat("producer", producers=("pg",))
    while True:
        frame = client.pushed.pop(0) if client.pushed else await client.peer.receive()
        if frame.code != RequestCode.CHECK_TRANSACTION_STATE:
            continue
        header = CheckTransactionState.from_fields(frame.fields)
        body = decode_message(frame.body).body
        place = (header.tran_state_table_offset, header.commit_log_offset)
        await end(client, *place, STATES[body], asked=True)
        asked.append(body)


async def answer_until_decided(stand: StoreStand) -> None:
    """Answer until the broker asked about all that is ``LATE`` and is through with it."""
    asked: list[bytes] = []

    async def asked_about_all() -> bool:
        return set(asked) >= LATE

    async with connected(stand.port) as client, trio.open_nursery() as nursery:
        nursery.start_soon(answer_checks, client, asked)
        await until(asked_about_all, within_s=120)
        await until_all_are_passed(stand)
        nursery.cancel_scope.cancel()


async def until_all_are_passed(stand: StoreStand) -> None:
    """Wait until the broker is through with every half message, and knows that it is."""

    async def passed() -> bool:
        fields = {"topic": SystemTopic.TRANSACTION_HALF, "queueId": "0"}
        reply = await stand.ask(RequestCode.GET_MAX_OFFSET, fields)
        group = (SystemGroup.TRANSACTION, SystemTopic.TRANSACTION_HALF)
        committed = (await stand.committed()).get(group, {})
        return committed.get(0) == int(reply.fields["offset"])

    await until(passed)


async def bodies(client: Client, *, at_least: int) -> list[bytes]:
    with trio.fail_after(60):
        # Apache's queues are a bit behind, and nobody is told.
        while len(messages := await client.messages("T", 0)) < at_least:  # noqa: ASYNC110
            await trio.sleep(0.1)
    return sorted(message.body for message in messages)


async def change_hands(folder: Path, *, first: str, second: str, killed: bool) -> None:
    """Let a store go from ``first`` to ``second`` and back in the middle of transactions."""
    await trio.Path(folder).mkdir()
    stand = StoreStand(folder, SETTINGS)
    async with stand.run(first, Stage.FILES, killed=killed), connected(stand.port) as client:
        for body, state in STATES.items():
            half = await send_half(client, body.decode())
            if body not in LATE:
                _, position = decode_offset_id(half.fields["msgId"])
                offset = int(half.fields["queueOffset"])
                await end(client, offset, position, state, asked=False)
        await trio.sleep(ROUNDS_S)  # checks that nobody hears
    async with stand.run(second, Stage.FILES, killed=killed), connected(stand.port) as client:
        await answer_until_decided(stand)
        await trio.sleep(ROUNDS_S)
        assert set(await bodies(client, at_least=2)) == {b"yes", b"late"}
    async with stand.run(first, Stage.FILES), connected(stand.port) as client:
        asked: list[bytes] = []
        # On a connection of its own: what is given up may leave an answer behind.
        async with connected(stand.port) as answering:
            with trio.move_on_after(ROUNDS_S):
                await answer_checks(answering, asked)
        # Apache's brokers know what is decided by an offset that they, and lanemq, write now and
        # then; lanemq's sees it in the messages.
        assert asked == [] or (killed and first != "lanemq"), "all of them are decided"
        assert set(await bodies(client, at_least=2)) == {b"yes", b"late"}


@pytest.mark.parametrize("apache", [f"apache-{version}" for version in APACHE_VERSIONS])
async def test_a_store_changes_hands_in_the_middle_of_transactions(
    apache: str, tmp_path: Path
) -> None:
    """Four stores at the same time, two of them at Apache's brokers: checks are waited for."""
    async with trio.open_nursery() as nursery:
        for first, second in (("lanemq", apache), (apache, "lanemq")):
            for killed in (False, True):
                folder = tmp_path / f"{first}-{'killed' if killed else 'stopped'}"
                run = partial(change_hands, folder, first=first, second=second, killed=killed)
                nursery.start_soon(run)
