"""Positions of a consumer in its queues, their distances to the ends, and statistics of both."""

from collections.abc import Iterable, Mapping
from functools import partial

import trio

from lanemq.wire import ProtocolError
from lanemq.wire.bodies import MessageQueue

from .._errors import LanemqError, NoRoute, WrongUse
from .._namespace import out_of_namespace, queue_in, queue_out
from .._tasks import gather
from .._validate import check_times, checked_queues
from ..observe._log import get_logger
from ..observe._send_hooks import call_hook
from ..observe._statistics import ConsumerStatistics, QueueStatistics, TopicStatistics
from ._consumer_core import ConsumerCore

LOGGER = get_logger("lanemq.sdk.consumer")


def position_in(core: ConsumerCore, queue: MessageQueue) -> int:
    """Return the offset of the first message of ``queue`` that is not finished.

    Raises ``WrongUse`` for a queue that is not held.
    """
    held = core.rebalance.held.get(_full(core, queue))
    if held is None:
        raise WrongUse(f"{queue} is not read by this consumer at the moment; see `queues`")
    return held.messages.commit_offset


async def end_offsets_of(
    core: ConsumerCore, queues: Iterable[MessageQueue]
) -> dict[MessageQueue, int]:
    """Return the offset that the next message of each queue will get, asked side by side."""
    wanted = checked_queues(queues)

    async def ask(queue: MessageQueue) -> int:
        full = _full(core, queue)
        routes = core.client.routes
        if routes.get(full.topic) is None and await routes.refresh(full.topic) is None:
            raise NoRoute(queue.topic, "no name server knows it")
        return await core.calls.of(full).max_offset(full)

    ends = await gather([partial(ask, queue) for queue in wanted])
    return dict(zip(wanted, ends, strict=True))


async def lag_of(core: ConsumerCore, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
    """Return the number of messages from each queue's position to its end.

    Queues that are given up meanwhile are left out.
    """
    ends = await end_offsets_of(core, queues)
    held = core.rebalance.held
    return {
        queue: max(0, end - position_in(core, queue))
        for queue, end in ends.items()
        if _full(core, queue) in held
    }


async def statistics_of(core: ConsumerCore) -> ConsumerStatistics:
    """Return what the consumer is doing. A broker that does not answer costs its queues' lag."""
    ends: dict[MessageQueue, int | None] = {}

    async def ask(queue: MessageQueue) -> None:
        try:
            ends[queue] = await core.calls.of(queue).max_offset(queue)
        except (LanemqError, ProtocolError) as error:
            LOGGER.debug("%s: its end is not known: %s", queue, error)
            ends[queue] = None

    await gather([partial(ask, queue) for queue in core.rebalance.held])
    known = sorted(core.rebalance.held.keys() & ends.keys())
    namespace = core.client.options.namespace
    return ConsumerStatistics(
        out_of_namespace(namespace, core.group),
        tuple(_queue_statistics(core, queue, ends[queue]) for queue in known),
        tuple(_topic_statistics(core, topic) for topic in sorted(core.stats)),
    )


def _queue_statistics(core: ConsumerCore, queue: MessageQueue, end: int | None) -> QueueStatistics:
    messages = core.rebalance.held[queue].messages
    position, first, age_s = messages.commit_offset, messages.first, None
    lag = None if end is None else max(0, end - position)
    if first is not None:
        # The broker's clock may be ahead of ours.
        age_s = max(0, core.client.clock_ms() - first.store_timestamp_ms) / 1000
    elif lag == 0:
        age_s = 0.0
    shown = queue_out(core.client.options.namespace, queue)
    return QueueStatistics(shown, position, lag, age_s)


def _topic_statistics(core: ConsumerCore, topic: str) -> TopicStatistics:
    status = core.stats[topic].status(trio.current_time())
    return TopicStatistics(
        topic=out_of_namespace(core.client.options.namespace, topic),
        pulled_per_s=status.pull_tps,
        pull_ms=status.pull_rt,
        consumed_per_s=status.consume_ok_tps,
        failed_per_s=status.consume_failed_tps,
        consume_ms=status.consume_rt,
        failed_total=status.consume_failed_msgs,
    )


async def report_statistics(core: ConsumerCore) -> None:
    """Give statistics to the application and to OpenTelemetry until cancelled, where one of them
    asks for it."""
    tell, telemetry = core.options.on_statistics, core.options.client.telemetry
    if tell is None and not telemetry:
        return
    try:
        while True:
            await trio.sleep(core.options.statistics_interval_s)
            found = await statistics_of(core)
            if telemetry:
                from ..observe._lag_metrics import publish  # may not be installed

                publish(core, found)
            if tell is not None:
                await call_hook(tell, found)
    finally:
        if telemetry:
            from ..observe._lag_metrics import forget  # may not be installed

            forget(core)


async def offsets_at(
    core: ConsumerCore, times: Mapping[MessageQueue, int]
) -> dict[MessageQueue, int]:
    """Return each queue's offset of the first message stored at a time or later."""
    check_times(times)

    async def look(queue: MessageQueue) -> int:
        full = _full(core, queue)
        return await core.calls.of(full).offset_at(full, times[queue])

    found = await gather([partial(look, queue) for queue in times])
    return dict(zip(times, found, strict=True))


def _full(core: ConsumerCore, queue: MessageQueue) -> MessageQueue:
    return queue_in(core.client.options.namespace, queue)
