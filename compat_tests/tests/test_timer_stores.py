"""Brokers of either maker take a store over with messages that wait for their time, and back."""

from functools import partial
from pathlib import Path

import pytest
import trio

from lanemq.compat.servers._apache import TEST_STORE
from lanemq.compat.stores._stand import StoreStand
from lanemq.storage import Stage
from lanemq.testkit.proxy.brokers import Client, connected
from lanemq.testkit.servers import now_ms
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.message import StoredMessage

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

APACHE = "apache-5.3.3"
LANEMQ = "lanemq"
SETTINGS = {
    **TEST_STORE,
    "timerWheelEnable": "true",
    "recallMessageEnable": "true",
    "mappedFileSizeTimerLog": "1048576",
}
SLOT_MS = 1000
LATE_MS = 90_000
"""Time from the first send to the messages that the second broker delivers, and from those to the
ones that are left for the third: it is certainly up before these, to have one of them recalled."""


async def send(client: Client, key: str, at_ms: int) -> Frame:
    properties = {"TIMER_DELIVER_MS": str(at_ms), "UNIQ_KEY": key, "TAGS": "A"}
    answer = await client.send("T", key.encode(), properties, queue_id=0, born_timestamp=now_ms())
    assert answer.code == 0, answer.remark
    return answer


async def recall(client: Client, answer: Frame) -> None:
    fields = {"topic": "T", "recallHandle": answer.fields["recallHandle"], "producerGroup": "pg"}
    recalled = await client.call(RequestCode.RECALL_MESSAGE, fields)
    assert recalled.code == 0, recalled.remark


async def delivered(client: Client, at_least: int) -> list[StoredMessage]:
    with trio.fail_after(300):
        while len(messages := await client.messages("T", 0)) < at_least:  # noqa: ASYNC110
            await trio.sleep(0.1)
    return messages


async def noted(stand: StoreStand, maker: str, delivered_ms: int) -> None:
    """Wait until the broker's checkpoint of timers is past the slot of what it delivered.

    Apache's brokers deliver again what no checkpoint is past. Their slots end at a time or after
    it, lanemq's begin there or before it.
    """
    checkpoint = stand.store / "config" / "timercheck"
    slot_ms = delivered_ms + (SLOT_MS if maker == APACHE else 0)
    with trio.fail_after(60):
        while _first_undelivered_ms(checkpoint) <= slot_ms:  # noqa: ASYNC110
            await trio.sleep(0.1)


def _first_undelivered_ms(checkpoint: Path) -> int:
    return int.from_bytes(checkpoint.read_bytes()[:8], "big") if checkpoint.exists() else 0


def check_times(messages: list[StoredMessage]) -> None:
    for message in messages:
        assert message.store_timestamp_ms >= int(message.properties["TIMER_DELIVER_MS"])


async def change_hands(folder: Path, *, first: str, second: str, killed: bool) -> None:
    """Let a store go from ``first`` to ``second`` and back while messages wait."""
    await trio.Path(folder).mkdir()
    stand = StoreStand(folder, SETTINGS)
    async with stand.run(first, Stage.FILES, killed=killed), connected(stand.port) as client:
        begun_ms = now_ms()
        later_ms = begun_ms + LATE_MS
        last_ms = later_ms + LATE_MS
        await send(client, "soon", begun_ms + 3000)
        for number in range(20):
            await send(client, f"late {number:02}", later_ms + 137 * number)
        await recall(client, await send(client, "gone", later_ms))
        await send(client, "last", last_ms)
        left = await send(client, "left", last_ms)
        assert [message.body for message in await delivered(client, 1)] == [b"soon"]
        await noted(stand, first, begun_ms + 3000)
    async with stand.run(second, Stage.FILES, killed=killed), connected(stand.port) as client:
        await recall(client, left)
        await send(client, "new", last_ms + 10_000)
        messages = await delivered(client, 21)
        check_times(messages)
        late = [f"late {number:02}".encode() for number in range(20)]
        assert [message.body for message in messages][:1] == [b"soon"]
        assert sorted(message.body for message in messages[1:]) == late
        await noted(stand, second, later_ms + 137 * 19)
    async with stand.run(first, Stage.FILES), connected(stand.port) as client:
        messages = await delivered(client, 23)
        check_times(messages)
        assert [message.body for message in messages][21:] == [b"last", b"new"]


async def test_a_store_changes_hands_while_messages_wait_for_their_time(tmp_path: Path) -> None:
    """Four stores at the same time: each takes three minutes, and waits for most of them."""
    async with trio.open_nursery() as nursery:
        for first, second in ((LANEMQ, APACHE), (APACHE, LANEMQ)):
            for killed in (False, True):
                folder = tmp_path / f"{first}-{'killed' if killed else 'stopped'}"
                run = partial(change_hands, folder, first=first, second=second, killed=killed)
                nursery.start_soon(run)
