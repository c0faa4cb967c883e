"""Only the holder of a partition says that an entry is missing.

A broker without the namespace refuses while the holder restarts; whatever comes between, a saved
value is returned, or an error is raised.
"""

from collections.abc import Awaitable, Callable
from typing import Final, cast

import pytest

from lanemq.sdk.kv import KeyValueStore, KvOffsetStore, NoNamespace
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
