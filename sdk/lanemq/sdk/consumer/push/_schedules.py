"""Makers of queues' schedulers, by the kind of the listener that has an order."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, final

from lanemq.wire import RETRY_PREFIX
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.message import StageRecord, Stages

from ..._messages import ReceivedMessage
from ..._namespace import queue_out
from ...listeners._ordered_listeners import (
    KeyOrderedListener,
    OrderlyListener,
    StageCounter,
    StagedConcurrentListener,
)
from ...observe._log import get_logger
from .._consumer_core import ConsumerCore
from ..ordered._queue_progress import QueueProgress
from ..ordered._stage_progress import StageProgress
from ..pool._key_scheduler import KeyScheduler
from ..pool._queue_consumer import OrderedScheduler
from ..pool._stage_scheduler import Reset, StageScheduler
from ..pool._strategy_scheduler import Choose, StrategyScheduler
from ..pulls._held_queue import HeldQueue

LOGGER = get_logger("lanemq.sdk.consumer")

Scheduled = StageScheduler[ReceivedMessage]
Schedule = Callable[[HeldQueue], OrderedScheduler]
"""Makes the scheduler of a queue."""


@final
class _Unknown:
    """The one key of messages whose key could not be computed."""


UNKNOWN: Final = _Unknown()


def keyed(listener: KeyOrderedListener, _core: ConsumerCore) -> Schedule:
    """Make schedulers that keep the order of keys; they say when a queue is not to be pulled."""

    def key_of(message: ReceivedMessage) -> Hashable | None:
        try:
            key = listener.key(message)
            hash(key)
        except Exception:  # the application's own
            LOGGER.exception(
                "key failed on %s, which is handled after others on which it failed", message
            )
            return UNKNOWN
        return key

    def schedule(held: HeldQueue) -> OrderedScheduler:
        scheduler: KeyScheduler[ReceivedMessage] = KeyScheduler(
            key_of, above_max=listener.above_max, batch_messages=listener.batch_messages
        )
        held.is_full = lambda: scheduler.is_full
        return scheduler

    return schedule


def orderly(listener: OrderlyListener, _core: ConsumerCore) -> Schedule:
    """Make schedulers that hand out one batch of a queue at a time."""

    def schedule(held: HeldQueue) -> Scheduled:
        return StageScheduler(
            Stages(), StageRecord(0, 0), batch_messages=listener.batch_messages, serial=True
        )

    return schedule


def staged(
    listener: StagedConcurrentListener, offsets: StageProgress, core: ConsumerCore
) -> Schedule:
    """Make schedulers that hand a queue out stage by stage, or by strategies."""

    def one(queue: MessageQueue, sizes: Sequence[int], start: StageRecord) -> Scheduled:
        return StageScheduler(
            Stages(sizes),
            start,
            batch_messages=listener.batch_messages,
            reset=_reset(core, listener, queue) if sizes else None,
        )

    def by_strategy(queue: MessageQueue, stages: Mapping[str, Sequence[int]]) -> OrderedScheduler:
        progress, reset = offsets.progress(queue), _reset(core, listener, queue)
        schedulers: dict[str, Scheduled] = {
            name: StageScheduler(
                Stages(sizes),
                progress.strategies[name],
                batch_messages=listener.batch_messages,
                reset=reset,
                strategy=name,
            )
            for name, sizes in stages.items()
        }
        rest = one(queue, (), StageRecord(progress.whole.queue_offset, 0))
        scheduler = StrategyScheduler(schedulers, rest, _choice(listener), progress)
        offsets.follow(queue, lambda: scheduler.progress)
        return scheduler

    def schedule(held: HeldQueue) -> OrderedScheduler:
        queue, stages = held.queue, listener.stages
        # The offset is asked for at each commit, not noted after each message.
        if queue.topic.startswith(RETRY_PREFIX):
            scheduler = one(queue, (), offsets.progress(queue).whole)
        elif isinstance(stages, Mapping):
            return by_strategy(queue, stages)
        else:
            scheduler = one(queue, stages, offsets.progress(queue).whole)
        offsets.follow(queue, lambda: QueueProgress(scheduler.record))
        return scheduler

    return schedule


def _choice(listener: StagedConcurrentListener) -> Choose[ReceivedMessage]:
    compute = listener.compute_strategy
    assert compute is not None, "several definitions need it"

    def choose(message: ReceivedMessage) -> str | None:
        try:
            strategy = compute(message)
            hash(strategy)
        except Exception:  # the application's own
            LOGGER.exception(
                "compute_strategy failed on %s, which is handled without a strategy", message
            )
            return None
        return strategy

    return choose


def _reset(
    core: ConsumerCore, listener: StagedConcurrentListener, queue: MessageQueue
) -> Reset | None:
    wish = listener.reset_current_stage_offset_if_needed
    if wish is None:
        return None
    topic = queue_out(core.client.options.namespace, queue).topic

    def reset(counter: StageCounter) -> None:
        try:
            wish(topic, counter)
        except Exception:  # the application's own
            LOGGER.exception("reset_current_stage_offset_if_needed failed on %s", topic)

    return reset
