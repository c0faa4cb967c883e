"""Assembly of a push consumer: pulls, scheduler, worker pool, completion and progress, by the
kind of its listener.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, final

import trio

from lanemq.wire.bodies import ConsumeType, MessageModel, MessageQueue
from lanemq.wire.message import stage_group

from ..._messages import ReceivedMessage
from ..._namespace import out_of_namespace
from ..._options import PushOptions
from ..._validate import check_group
from ...listeners._listener import ConcurrentListener
from ...listeners._ordered_listeners import (
    KeyOrderedListener,
    OrderlyListener,
    StagedConcurrentListener,
)
from ...net._client import Client
from .._broker_requests import Listener
from .._consumer_core import ConsumerCore
from .._ownership import FreeQueues
from ..group._group_calls import GroupCalls
from ..group._offset_store import StageStore, StoreCommits
from ..group._offsets import LocalOffsets, Offsets
from ..group._send_back import SendBack
from ..ordered._stage_progress import StageProgress
from ..ordered._stage_stores import BrokerStageOffsets, LocalCommits, LocalStageOffsets
from ..pool._concurrent_completion import ConcurrentCompletion
from ..pool._concurrent_scheduler import ConcurrentScheduler
from ..pool._departures import Departures
from ..pool._ordered_completion import OrderedCompletion
from ..pool._pools import Pool, make_pool
from ..pool._queue_consumer import OrderedScheduler
from ..pulls._held_queue import HeldQueue
from ._queue_ownership import QueueOwnership
from ._schedules import Schedule, keyed, orderly, staged

NO_LIMIT: Final = 2**31 - 1  # of deliveries; a Java int


@final
@dataclass(frozen=True, slots=True)
class PushParts:
    """The parts of a push consumer."""

    core: ConsumerCore
    pool: Pool
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
            schedule = partial(staged, listener, offsets)
            return _assemble_ordered(client, group, options, listener, nursery, schedule, offsets)
        case OrderlyListener():
            schedule = partial(orderly, listener)
            return _assemble_ordered(client, group, options, listener, nursery, schedule, None)
        case KeyOrderedListener():
            schedule = partial(keyed, listener)
            return _assemble_ordered(client, group, options, listener, nursery, schedule, None)


def _core(
    client: Client,
    group: str,
    options: PushOptions,
    nursery: trio.Nursery,
    pool: Callable[[], Pool],
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
    pool: Pool
    core = _core(client, group, options, nursery, lambda: pool)
    completion = ConcurrentCompletion(
        core,
        options,
        max_reconsume_times=max_reconsume_times,
        submit=lambda held, messages: pool.submit(held, messages),
    )
    pool = make_pool(
        nursery,
        listener.handle,
        out_of_namespace(options.client.namespace, group),
        completion,
        schedule=lambda _: ConcurrentScheduler(listener.batch_messages),
        lease=lambda _: None,
        stats=core.topic_stats,
        clock_ms=client.clock_ms,
        concurrency=listener.concurrency,
        timeout_s=options.consume_timeout_s,
        has_order=False,
    )
    departures: Departures[ConcurrentScheduler[ReceivedMessage]] = Departures(core)
    departures.serve(pool)
    core.rebalance.own_with(FreeQueues(core.offsets, core.changes, departures))
    return PushParts(core, pool, is_locked=lambda _: False)


def _assemble_ordered(
    client: Client,
    group: str,
    options: PushOptions,
    listener: OrderlyListener | KeyOrderedListener | StagedConcurrentListener,
    nursery: trio.Nursery,
    schedule: Callable[[ConsumerCore], Schedule],
    progress: StageProgress | None,
) -> PushParts:
    pool: Pool
    core = _core(client, group, options, nursery, lambda: pool, progress)
    ownership: QueueOwnership[OrderedScheduler] = QueueOwnership(core, listener.on_lock_loss)
    send_back = SendBack(client, core.calls, group, max_reconsume_times=0)
    completion = OrderedCompletion(
        nursery=nursery,
        listener=listener,
        # Of staged queues: the offset is asked for at each commit.
        commit=core.offsets.update if progress is None else None,
        save=_nothing_to_save if progress is None else progress.save,
        dead_letter=send_back.dead_letter,
        # By key, earlier messages may be unfinished: progress cannot go on behind a late one.
        finished_late=(
            _not_counted if isinstance(listener, KeyOrderedListener) else ownership.finished_late
        ),
    )
    pool = make_pool(
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
        has_order=True,
    )
    ownership.serve(pool)
    return PushParts(
        core, pool, ownership.owns, tasks=(ownership.keep_locks,), leave=(ownership.leave,)
    )


async def _nothing_to_save(queue: MessageQueue) -> bool:
    raise AssertionError(f"{queue} has no stages, so no counter of it is reset")


def _not_counted(held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
    """Let messages whose queue was dropped come again."""


def staged_offsets(
    client: Client, group: str, options: PushOptions, listener: StagedConcurrentListener
) -> StageProgress:
    """Return the progress of a staged consumer, kept where its listener wants it.

    Raises ``InvalidName`` for a group whose name is too long for its records.
    """
    strategies = tuple(listener.stages) if isinstance(listener.stages, Mapping) else ()
    for strategy in ("", *strategies):
        check_group(stage_group(group, strategy))
    wins, own = listener.group_offset_wins, listener.store
    if options.message_model is MessageModel.BROADCASTING:
        folder = options.offsets_dir / options.client.instance
        commits = LocalCommits(LocalOffsets(folder / f"{group}.json"))
        ours = LocalStageOffsets(folder / f"{group}.stages.json")
        store = StageStore(ours if own is None else own)  # one that is empty may count as false
        return StageProgress(store, commits, group_offset_wins=wins, strategies=strategies)
    kept = options.offset_store
    if own is None:
        own = BrokerStageOffsets(client, group) if kept is None else kept
    store = StageStore(own)
    ordinary = GroupCalls(client, group) if kept is None else StoreCommits(kept)
    return StageProgress(store, ordinary, group_offset_wins=wins, strategies=strategies)
