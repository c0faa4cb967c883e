"""Only the holder of a partition says that an entry is missing.

A broker without the namespace refuses while the holder restarts; whatever comes between, a saved
value is returned, or an error is raised.
"""

from collections.abc import Awaitable, Callable
from typing import Final, cast

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import LanemqError
from lanemq.sdk.kv import CheckpointMoved, KeyValueStore, KvOffsetStore, NoNamespace
from lanemq.sdk.kv.cli._files import sure_status
from lanemq.testkit.sdk.kv import KvBroker, KvCluster
from lanemq.testkit.sdk.kv_stores import opened
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.message import StageRecord

QUEUE: Final = MessageQueue("T", "broker-a", 3)
READS: Final = (RequestCode.KV_GET, RequestCode.KV_STATUS)
Read = Callable[[KeyValueStore], Awaitable[object]]


async def save_all(store: KeyValueStore) -> None:
    await store.checkpoint("c").save(b"17")
    offsets = KvOffsetStore(store, "g")
    await offsets.save_offset(QUEUE, 9)
    await offsets.save(QUEUE, StageRecord(8, 3))


async def entries_to_be_replaced(store: KeyValueStore) -> int:
    return (await sure_status(store)).entries


SURE: Final[dict[str, tuple[Read, object]]] = {
    "checkpoint": (lambda store: store.checkpoint("c").load(), b"17"),
    "offset": (lambda store: KvOffsetStore(store, "g").load_offset(QUEUE), 9),
    "stage": (lambda store: KvOffsetStore(store, "g").load(QUEUE), StageRecord(8, 3)),
    "import": (entries_to_be_replaced, 3),
}


def refuse(broker: KvBroker, times: int) -> None:
    """Let a broker answer its next reads as one that has no namespace yet."""
    left = times

    def answer(real: Callable[[Frame, object], Frame]) -> Callable[[Frame, object], Frame]:
        def handle(frame: Frame, peer: object) -> Frame:
            nonlocal left
            if left:
                left -= 1
                return frame.reply(ResponseCode.KV_NAMESPACE_NOT_EXIST, remark="not here")
            return real(frame, peer)

        return handle

    for code in READS:
        real = cast("Callable[[Frame, object], Frame]", broker.handlers[code])
        broker.handlers[code] = answer(real)


@pytest.mark.parametrize("what", SURE)
@pytest.mark.parametrize("partitions", [1, 4])
async def test_what_was_saved_is_never_answered_as_missing(
    kv: KvCluster, what: str, partitions: int
) -> None:
    kv.make(partitions)
    read, saved = SURE[what]
    async with opened(kv) as store:
        await save_all(store)
    for times in range(4):
        for broker in kv.kv_brokers:
            refuse(broker, times)
        async with opened(kv) as store:
            try:
                assert await read(store) == saved
            except NoNamespace:
                assert times > 1, "one refusal is answered by a second read"


@pytest.mark.parametrize("what", SURE)
async def test_a_new_namespace_is_created_and_read(kv: KvCluster, what: str) -> None:
    read, _ = SURE[what]
    async with opened(kv, broker="broker-a") as store:
        assert not await read(store)
    first, _ = kv.kv_brokers
    codes = [f.code for f in first.requests if f.code in (*READS, RequestCode.KV_WRITE)]
    assert codes[-1] in READS, "the last answer is that of a holder's read"
    assert RequestCode.KV_WRITE in codes


@pytest.mark.parametrize("what", SURE)
async def test_a_namespace_that_must_not_be_created_is_not_empty(kv: KvCluster, what: str) -> None:
    read, _ = SURE[what]
    async with opened(kv) as store:
        with pytest.raises(NoNamespace, match="with broker="):
            await read(store)


async def test_a_position_goes_back_after_a_save_of_which_the_answer_was_lost(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    kv.make(1)
    broker = kv.kv_brokers[0]
    real = cast("Callable[[Frame, object], Frame]", broker.handlers[RequestCode.KV_WRITE])

    def lose(frame: Frame, peer: object) -> None:
        real(frame, peer)

    async with opened(kv, timeout_s=10) as store:
        offsets, another = KvOffsetStore(store, "g"), KvOffsetStore(store, "g")
        await offsets.save_offset(QUEUE, 100)
        broker.handlers[RequestCode.KV_WRITE] = lose
        for offset in (110, 120):
            with pytest.raises(LanemqError):
                await offsets.save_offset(QUEUE, offset)
        broker.handlers[RequestCode.KV_WRITE] = real
        assert await another.load_offset(QUEUE) == 110
        await offsets.save_offset(QUEUE, 50)
        assert await another.load_offset(QUEUE) == 50
        await another.save_offset(QUEUE, 130)
        await offsets.save_offset(QUEUE, 110)  # it is another's by now
        assert await another.peek_offset(QUEUE) == 130


@pytest.mark.parametrize("what", ["offset", "checkpoint"])
async def test_a_save_that_is_done_late_is_known_as_its_own_after_a_load(
    kv: KvCluster, autojump_clock: MockClock, what: str
) -> None:
    kv.make(1)
    broker = kv.kv_brokers[0]
    real = cast("Callable[[Frame, object], Frame]", broker.handlers[RequestCode.KV_WRITE])
    late: list[tuple[Frame, object]] = []

    def keep(frame: Frame, peer: object) -> None:
        late.append((frame, peer))

    async with opened(kv, timeout_s=10) as store:
        offsets, checkpoint = KvOffsetStore(store, "g"), store.checkpoint("c")

        async def save(number: int) -> None:
            if what == "offset":
                await offsets.save_offset(QUEUE, number)
            else:
                await checkpoint.save(b"%d" % number)

        await save(100)
        broker.handlers[RequestCode.KV_WRITE] = keep
        with pytest.raises(LanemqError):
            await save(110)
        broker.handlers[RequestCode.KV_WRITE] = real
        if what == "offset":
            assert await offsets.load_offset(QUEUE) == 100
        else:
            assert await checkpoint.load() == b"100"
        real(*late[0])
        await save(50)
        assert {entry.value for entry in kv.namespaces["default"][0].entries.values()} == {b"50"}


async def test_a_checkpoint_is_saved_over_its_own_value_of_which_the_answer_was_lost(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    kv.make(1)
    broker = kv.kv_brokers[0]
    async with opened(kv, timeout_s=10) as store:
        first, another = store.checkpoint("c"), store.checkpoint("c")
        for version in (0, 2):  # a new one, and one that was saved
            broker.mute(RequestCode.KV_WRITE, 1000)
            for value in (b"1", b"2"):
                with pytest.raises(LanemqError):
                    await first.save(value)
                assert await another.load() == b"1", f"over version {version}"
            broker.mute(RequestCode.KV_WRITE, -1000)
            await first.save(b"3")
            assert await another.load() == b"3"
        broker.mute(RequestCode.KV_WRITE, 1000)
        with trio.move_on_after(1):
            await first.save(b"4")
        broker.mute(RequestCode.KV_WRITE, -1000)
        assert await another.load() == b"4"
        await another.save(b"5")
        for value in (b"4", b"6"):  # it is another's by now, also if that has the same value
            with pytest.raises(CheckpointMoved, match="saved by somebody else"):
                await first.save(value)
            await another.save(b"4")
        assert await first.load() == b"4"
        await first.save(b"7")


async def test_two_saves_of_a_checkpoint_at_once_are_two_in_a_row(kv: KvCluster) -> None:
    kv.make(1)
    async with opened(kv) as store:
        checkpoint = store.checkpoint("c")
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(checkpoint.save, b"%d" % number)
        entry = await store.get(b"checkpoint/c")
        assert entry is not None
        assert entry.version == 5
