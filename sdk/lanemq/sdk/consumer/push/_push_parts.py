"""Assembly of a push consumer: pulls, scheduler, worker pool, completion and progress, by the
kind of its listener.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import trio

from lanemq.wire import RETRY_PREFIX
from lanemq.wire.bodies import ConsumeType, MessageModel, MessageQueue
from lanemq.wire.message import StageRecord, Stages, stage_group

from ..._messages import ReceivedMessage
from ..._namespace import out_of_namespace, queue_out
from ..._options import PushOptions
from ..._validate import check_group
from ...listeners._listener import ConcurrentListener
from ...listeners._ordered_listeners import OrderlyListener, StageCounter, StagedConcurrentListener
from ...net._client import Client
from ...observe._log import get_logger
from .._broker_requests import Listener
from .._consumer_core import ConsumerCore
from .._ownership import FreeQueues
from ..group._group_calls import GroupCalls
from ..group._offset_store import StoreCommits
from ..group._offsets import LocalOffsets, Offsets
from ..group._send_back import SendBack
from ..ordered._queue_progress import QueueProgress
from ..ordered._stage_progress import StageProgress
from ..ordered._stage_stores import BrokerStageOffsets, LocalCommits, LocalStageOffsets
from ..pool._concurrent_completion import ConcurrentCompletion
from ..pool._concurrent_scheduler import ConcurrentScheduler
from ..pool._departures import Departures
from ..pool._ordered_completion import OrderedCompletion
from ..pool._queue_consumer import OrderedScheduler
from ..pool._stage_scheduler import Reset, StageScheduler
from ..pool._strategy_scheduler import Choose, StrategyScheduler
from ..pool._worker_pool import WorkerPool
from ..pulls._held_queue import HeldQueue
from ._queue_ownership import QueueOwnership

LOGGER = get_logger("lanemq.sdk.consumer")

NO_LIMIT: Final = 2**31 - 1  # of deliveries; a Java int

Scheduled = StageScheduler[ReceivedMessage]
Schedule = Callable[[HeldQueue], OrderedScheduler]
"""Makes the scheduler of a queue."""


@final
@dataclass(frozen=True, slots=True)
class PushParts:
    """The parts of a push consumer."""

    core: ConsumerCore
    pool: WorkerPool[Any]
    is_locked: Callable[[MessageQueue], bool]
    """Returns True while the lock of a queue is held."""
    tasks: tuple[Callable[[], Awaitable[None]], ...] = ()
    """The tasks that run while the consumer is open, besides those of every consumer."""
    leave: tuple[Callable[[], Awaitable[None]], ...] = ()
    """The last step of its end, after its progress was reported."""


def assemble(
    client: Client, group: str, options: PushOptions, listener: Listener, nursery: trio.Nursery
) -> PushParts:
    """Connect the parts. Raises ``InvalidName``."""
    match listener:
        case ConcurrentListener():
            times = options.max_reconsume_times
            return _assemble_concurrent(client, group, options, listener, times, nursery)
        case StagedConcurrentListener() if not listener.stages:
            limit = listener.max_reconsume_times
            limit = NO_LIMIT if limit is None else limit
            return _assemble_concurrent(client, group, options, listener, limit, nursery)
        case StagedConcurrentListener():
            offsets = staged_offsets(client, group, options, listener)
            schedule = partial(_staged, listener, offsets)
            return _assemble_ordered(client, group, options, listener, nursery, schedule, offsets)
        case OrderlyListener():
            schedule = partial(_orderly, listener)
            return _assemble_ordered(client, group, options, listener, nursery, schedule, None)


def _core(
    client: Client,
    group: str,
    options: PushOptions,
    nursery: trio.Nursery,
    pool: Callable[[], WorkerPool[Any]],
    offsets: Offsets | None = None,
) -> ConsumerCore:
    """Return the consumer whose pulls go to ``pool``, which is made later: it needs the core."""

    def deliver(held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        pool().submit(held, messages)

    def progress(held: HeldQueue) -> None:
        pool().passed(held)

    return ConsumerCore(
        client,
        group,
        options,
        nursery,
        consume_type=ConsumeType.PASSIVELY,
        batch=options.pull_batch,
        deliver=deliver,
        progress=progress,
        offsets=offsets,
        # A pull tells the group's offset without waiting: it could lead a stage record.
        commit_in_passing=offsets is None,
    )


def _assemble_concurrent(
    client: Client,
    group: str,
    options: PushOptions,
    listener: ConcurrentListener | StagedConcurrentListener,
    max_reconsume_times: int,
    nursery: trio.Nursery,
) -> PushParts:
    pool: WorkerPool[ConcurrentScheduler[ReceivedMessage]]
    core = _core(client, group, options, nursery, lambda: pool)
    completion = ConcurrentCompletion(
        core,
        options,
        max_reconsume_times=max_reconsume_times,
        submit=lambda held, messages: pool.submit(held, messages),
    )
    pool = WorkerPool(
        nursery,
        listener.handle,
        out_of_namespace(options.client.namespace, group),
        completion,
        schedule=lambda _: ConcurrentScheduler(listener.batch_messages),
        stats=core.topic_stats,
        clock_ms=client.clock_ms,
        concurrency=listener.concurrency,
        timeout_s=options.consume_timeout_s,
    )
    departures: Departures[ConcurrentScheduler[ReceivedMessage]] = Departures(core)
    departures.serve(pool)
    core.rebalance.own_with(FreeQueues(core.offsets, core.changes, departures))
    return PushParts(core, pool, is_locked=lambda _: False)


def _assemble_ordered(
    client: Client,
    group: str,
    options: PushOptions,
    listener: OrderlyListener | StagedConcurrentListener,
    nursery: trio.Nursery,
    schedule: Callable[[ConsumerCore], Schedule],
    staged: StageProgress | None,
) -> PushParts:
    pool: WorkerPool[OrderedScheduler]
    core = _core(client, group, options, nursery, lambda: pool, staged)
    ownership: QueueOwnership[OrderedScheduler] = QueueOwnership(core, listener.on_lock_loss)
    send_back = SendBack(client, core.calls, group, max_reconsume_times=0)
    completion = OrderedCompletion(
        nursery=nursery,
        listener=listener,
        # Of staged queues: the offset is asked for at each commit.
        commit=core.offsets.update if staged is None else None,
        save=_nothing_to_save if staged is None else staged.save,
        dead_letter=send_back.dead_letter,
        finished_late=ownership.finished_late,
    )
    pool = WorkerPool(
        nursery,
        listener.handle,
        out_of_namespace(options.client.namespace, group),
        completion,
        schedule=schedule(core),
        lease=ownership.lease,
        stats=core.topic_stats,
        clock_ms=client.clock_ms,
        concurrency=listener.concurrency,
        timeout_s=options.consume_timeout_s,
    )
    ownership.serve(pool)
    return PushParts(
        core, pool, ownership.owns, tasks=(ownership.keep_locks,), leave=(ownership.leave,)
    )


# Schedulers


async def _nothing_to_save(queue: MessageQueue) -> bool:
    raise AssertionError(f"{queue} has no stages, so no counter of it is reset")


def _orderly(listener: OrderlyListener, _core: ConsumerCore) -> Schedule:
    def schedule(held: HeldQueue) -> Scheduled:
        return StageScheduler(
            Stages(), StageRecord(0, 0), batch_messages=listener.batch_messages, serial=True
        )

    return schedule


def _staged(
    listener: StagedConcurrentListener, offsets: StageProgress, core: ConsumerCore
) -> Schedule:
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
            return compute(message)
        except Exception:  # the application's own
            LOGGER.exception(
                "compute_strategy failed on %s, which is handled without a strategy", message
            )
            return None

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


def staged_offsets(
    client: Client, group: str, options: PushOptions, listener: StagedConcurrentListener
) -> StageProgress:
    """Return the progress of a staged consumer, kept where its listener wants it.

    Raises ``InvalidName`` for a group whose name is too long for its records.
    """
    strategies = tuple(listener.stages) if isinstance(listener.stages, Mapping) else ()
    for strategy in ("", *strategies):
        check_group(stage_group(group, strategy))
    wins = listener.group_offset_wins
    if options.message_model is MessageModel.BROADCASTING:
        folder = options.offsets_dir / options.client.instance
        commits = LocalCommits(LocalOffsets(folder / f"{group}.json"))
        store = listener.store or LocalStageOffsets(folder / f"{group}.stages.json")
        return StageProgress(store, commits, group_offset_wins=wins, strategies=strategies)
    kept = options.offset_store
    store = listener.store or kept or BrokerStageOffsets(client, group)
    ordinary = GroupCalls(client, group) if kept is None else StoreCommits(kept)
    return StageProgress(store, ordinary, group_offset_wins=wins, strategies=strategies)
