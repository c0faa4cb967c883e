"""The start of a consumer in a queue that it is given.

Source: RocketMQ 4.9.8, RebalancePushImpl.computePullFromWhereWithException.
"""

from lanemq.wire import RETRY_PREFIX
from lanemq.wire.bodies import MessageQueue

from ..._options import ConsumeFrom, ConsumerOptions
from ._group_calls import GroupCalls
from ._offsets import Offsets

HALF_AN_HOUR_MS = 30 * 60 * 1000


async def start_offset(
    queue: MessageQueue,
    *,
    offsets: Offsets,
    calls: GroupCalls,
    options: ConsumerOptions,
    now_ms: int,
) -> int:
    """Return the offset (counts messages) of the first message to read. Raises any ``LanemqError``.

    Nothing may be assumed when the broker cannot be asked: starting anywhere else would lose
    messages, or deliver a whole queue again.

    Where the reference starts from 0 for ``FIRST_OFFSET``, and is put right by an error and a
    pause of ten seconds if the queue was trimmed, the oldest offset is asked for.
    """
    stored = await offsets.load(queue)
    if stored is not None and stored >= 0:
        return stored
    about = calls.of(queue)
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    match options.consume_from:
        case ConsumeFrom.LAST_OFFSET:
            # Messages in a new group's retry topic were put there for this group.
            return 0 if is_retry else await about.max_offset(queue)
        case ConsumeFrom.FIRST_OFFSET:
            return await about.min_offset(queue)
        case ConsumeFrom.TIMESTAMP:
            if is_retry:
                return await about.max_offset(queue)
            timestamp_ms = options.consume_from_timestamp_ms
            if timestamp_ms is None:
                timestamp_ms = now_ms - HALF_AN_HOUR_MS
            return await about.offset_at(queue, timestamp_ms)
