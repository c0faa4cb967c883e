"""The start of a consumer in a queue that it is given.

Source: RocketMQ 4.9.8, RebalancePushImpl.computePullFromWhereWithException.
"""

from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import final

from lanemq.wire import RETRY_PREFIX
from lanemq.wire.bodies import MessageQueue

from ..._errors import LanemqError
from ..._options import ConsumeFrom, ConsumerOptions
from ..._tasks import gather, settle
from ._group_calls import GroupCalls
from ._offsets import Offsets

HALF_AN_HOUR_MS = 30 * 60 * 1000


@final
class StartOffsets:
    """Finds where to start in each queue.

    A consumer that starts at the end of a queue starts at the end that it found first: until it
    may read the queue, because it waits for the lock, messages may arrive that are for it.
    """

    def __init__(
        self,
        offsets: Offsets,
        calls: GroupCalls,
        options: ConsumerOptions,
        clock_ms: Callable[[], int],
    ) -> None:
        self._offsets = offsets
        self._calls = calls
        self._options = options
        self._clock_ms = clock_ms
        self._ends: dict[MessageQueue, int] = {}
        """The end of each queue that is waited for, as it was found first."""

    async def find_all(
        self, queues: Iterable[MessageQueue], claimed: Container[MessageQueue]
    ) -> dict[MessageQueue, int | LanemqError]:
        """Return what ``find`` gives for each queue that is ``claimed``; ``wait_for`` the others.

        Brokers are asked side by side, and each for several queues at once: one that does not
        answer holds up no other.
        """
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)

        async def ask(queues: list[MessageQueue]) -> list[int | LanemqError | None]:
            return await settle(
                [partial(self.find if one in claimed else self.wait_for, one) for one in queues]
            )

        found = await gather([partial(ask, some) for some in by_broker.values()])
        return {
            queue: offset
            for some, offsets in zip(by_broker.values(), found, strict=True)
            for queue, offset in zip(some, offsets, strict=True)
            if offset is not None
        }

    async def find(self, queue: MessageQueue) -> int:
        """Return the offset (counts messages) of the first message to read. Raises any
        ``LanemqError``.

        Nothing may be assumed when the broker cannot be asked: starting anywhere else would lose
        messages, or deliver a whole queue again.

        Where the reference starts from 0 for ``FIRST_OFFSET``, and is put right by an error and a
        pause of ten seconds if the queue was trimmed, the oldest offset is asked for.
        """
        stored = await self._offsets.load(queue)
        if stored is not None and stored >= 0:
            return stored
        end = self._ends.get(queue)
        return await self._without_progress(queue) if end is None else end

    async def wait_for(self, queue: MessageQueue) -> None:
        """Note where the queue ends now, if that may be the start; only once while it is wanted.
        A broker that cannot be asked is asked the next time."""
        if self._options.consume_from is not ConsumeFrom.LAST_OFFSET or queue in self._ends:
            return
        try:
            self._ends[queue] = await self._without_progress(queue)
        except LanemqError:
            return

    def wait_only(self, wanted: Container[MessageQueue], topic: str | None) -> None:
        """Forget the queues of ``topic`` (of all topics, if None) that are not wanted."""
        self._ends = {
            queue: end
            for queue, end in self._ends.items()
            if queue in wanted or topic not in (None, queue.topic)
        }

    def started(self, queue: MessageQueue) -> None:
        """Forget a queue that is read now."""
        self._ends.pop(queue, None)

    async def _without_progress(self, queue: MessageQueue) -> int:
        about = self._calls.of(queue)
        is_retry = queue.topic.startswith(RETRY_PREFIX)
        match self._options.consume_from:
            case ConsumeFrom.LAST_OFFSET:
                # Messages in a new group's retry topic were put there for this group.
                return 0 if is_retry else await about.max_offset(queue)
            case ConsumeFrom.FIRST_OFFSET:
                return await about.min_offset(queue)
            case ConsumeFrom.TIMESTAMP:
                if is_retry:
                    return await about.max_offset(queue)
                timestamp_ms = self._options.consume_from_timestamp_ms
                if timestamp_ms is None:
                    timestamp_ms = self._clock_ms() - HALF_AN_HOUR_MS
                return await about.offset_at(queue, timestamp_ms)
