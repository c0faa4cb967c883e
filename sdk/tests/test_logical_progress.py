"""The offset at which a group goes on in a logical queue, by the answers of its brokers."""

from typing import Any, final

import pytest

from lanemq.sdk.logical._progress import ProgressCalls
from lanemq.wire.bodies import MASTER_ID, MessageQueue
from lanemq.wire.logical import Chain, Segment, progress_topic

TOPIC, BROKER = "orders", "broker1"
PHYSICAL = MessageQueue(TOPIC, BROKER, 3)
KEY = progress_topic(TOPIC, 0)


@final
class OneBroker:
    """A client's view of one logical queue, and what the queue's broker keeps by topic.

    As Apache's, it answers 0 for another topic whose queue still has its first message, if it is
    ``young``.
    """

    group = "readers"
    chains = True

    def __init__(self, offsets: dict[str, int], *, young: bool) -> None:
        self.brokers = {BROKER: {MASTER_ID: "10.0.0.1:10911"}}
        self._offsets = offsets
        self._young = young

    @property
    def routes(self) -> dict[str, Any]:
        return {TOPIC: self}

    def chain(self, _: MessageQueue) -> Chain:
        return Chain(0, [Segment(PHYSICAL, 0, 0)])

    async def kept_offset(self, queue: MessageQueue, _: str) -> tuple[int | None, bool]:
        return self._offsets.get(queue.topic, 0 if self._young else None), False

    async def committed_offset(self, queue: MessageQueue, **_: object) -> int | None:
        return (await self.kept_offset(queue, ""))[0]


@pytest.mark.parametrize(
    ("offsets", "young", "expected"),
    [
        ({TOPIC: 500}, True, 500),
        ({TOPIC: 500}, False, 500),
        ({TOPIC: 500, KEY: 700}, True, 700),
        ({TOPIC: 0}, False, 0),  # committed at the begin, not never
        ({}, True, 0),
        ({}, False, None),
    ],
)
async def test_progress_before_the_mapping_counts_as_it_is(
    offsets: dict[str, int], young: bool, expected: int | None
) -> None:
    broker: Any = OneBroker(offsets, young=young)
    progress = ProgressCalls(broker, broker)
    assert await progress.committed_offset(MessageQueue(TOPIC, "logical", 0)) == expected
