"""What an orderly or staged push consumer has besides an ordinary one: locks, lanes, stages."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import final

import trio

from lanemq.wire import RETRY_PREFIX, ConsumeType, MessageQueue, StageRecord, Stages, stage_group

from ._client import Client
from ._consumer_core import PERSIST_TIMEOUT_S, ConsumerCore
from ._group_calls import GroupCalls
from ._held_queue import HeldQueue
from ._lanes import Scheduler
from ._listener import ConcurrentListener
from ._log import get_logger
from ._messages import Outcome, ReceivedMessage
from ._namespace import queue_out
from ._offsets import LocalOffsets
from ._options import MessageModel, PushOptions
from ._ordered_listeners import AbandonMessage, LockLoss, OrderlyListener, StagedConcurrentListener
from ._ordered_pool import OrderedPool
from ._queue_locks import Lease, QueueLocks
from ._send_back import SendBack
from ._stage_counter import StageCounter
from ._stage_offsets import BrokerStageOffsets, LocalCommits, LocalStageOffsets
from ._stage_scheduler import Reset, StageScheduler
from ._staged_offsets import StagedOffsets
from ._validate import check_group

LOGGER = get_logger("lanemq.sdk.consumer")

NO_STAGES = Stages()


def staged_offsets(
    client: Client, group: str, options: PushOptions, listener: StagedConcurrentListener
) -> StagedOffsets:
    """Where the progress of a staged consumer goes.

    Raises ``InvalidName`` for a group whose name is too long for its records.
    """
    check_group(stage_group(group))
    wins = listener.group_offset_wins
    if options.message_model is MessageModel.BROADCASTING:
        folder = options.offsets_dir / options.client.instance
        commits = LocalCommits(LocalOffsets(folder / f"{group}.json"))
        store = listener.store or LocalStageOffsets(folder / f"{group}.stages.json")
        return StagedOffsets(store, commits, group_offset_wins=wins)
    store = listener.store or BrokerStageOffsets(client, group)
    return StagedOffsets(store, GroupCalls(client, group), group_offset_wins=wins)


def without_stages(
    listener: StagedConcurrentListener,
) -> Callable[[ConsumerCore], ConcurrentListener]:
    """What a staged listener without stages is: a concurrent one."""

    def concurrent(core: ConsumerCore) -> ConcurrentListener:
        dead_letters = _dead_letters(core)

        async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
            try:
                outcome = await listener.handle(messages)
            except AbandonMessage as error:
                LOGGER.warning("the listener abandoned %s: %s", messages, error)
                buried = [await dead_letters.send(m, delay_level=-1) for m in messages]
                return Outcome.SUCCESS if all(buried) else Outcome.RETRY
            return Outcome.RETRY if outcome is Outcome.SUSPEND_CURRENT_QUEUE else outcome

        return ConcurrentListener(
            handle, concurrency=listener.concurrency, batch_messages=listener.batch_messages
        )

    return concurrent


def _dead_letters(core: ConsumerCore) -> SendBack:
    """Sends messages back that may not be delivered even once more."""
    return SendBack(core.client, core.calls, core.group, max_reconsume_times=0)


@final
class OrderedConsumer:
    """Ties an ordered listener to a consumer: it owns queues by their locks and runs their
    messages. Nobody locks in a broadcasting group.
    """

    def __init__(
        self,
        core: ConsumerCore,
        options: PushOptions,
        listener: OrderlyListener | StagedConcurrentListener,
        nursery: trio.Nursery,
    ) -> None:
        self._core = core
        self._listener = listener
        self._nursery = nursery
        self._locks = None if core.broadcasting else QueueLocks(core.client, core.group, self._lost)
        # Queues given up whose handlers still run; the locks stay ours so long.
        self._leaving: dict[MessageQueue, HeldQueue] = {}
        self.pool = OrderedPool(
            nursery,
            listener,
            schedule=self._scheduler,
            lease=self._lease,
            commit=None if isinstance(core.offsets, StagedOffsets) else core.offsets.update,
            save=self._save,
            bury=partial(_dead_letters(core).send, delay_level=-1),
            stats=core.topic_stats,
            clock_ms=core.client.clock_ms,
            timeout_s=options.consume_timeout_s,
        )
        core.membership.own_with(self)

    async def watch(self) -> None:
        """Keep locks and time limits until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.pool.watch)
            if self._locks is not None:
                nursery.start_soon(self._locks.run)

    async def close(self) -> None:
        """Begin nothing more, and return when the listeners that run have returned."""
        await self.pool.close()

    async def leave(self) -> None:
        """Give all locks back, after progress was reported for the last time."""
        if self._locks is not None:
            with trio.move_on_after(PERSIST_TIMEOUT_S, shield=True):
                await self._locks.release_all()

    # Schedulers and progress

    def _scheduler(self, held: HeldQueue) -> Scheduler:
        listener, queue, offsets = self._listener, held.queue, self._core.offsets
        if isinstance(listener, OrderlyListener):
            return StageScheduler(
                NO_STAGES,
                StageRecord(0, 0),
                batch_messages=listener.batch_messages,
                serial=True,
            )
        assert isinstance(offsets, StagedOffsets)
        retries = queue.topic.startswith(RETRY_PREFIX)
        scheduler: Scheduler = StageScheduler(
            NO_STAGES if retries else Stages(listener.stages),
            StageRecord(offsets.get(queue) or 0, offsets.stage_offset(queue)),
            batch_messages=listener.batch_messages,
            reset=None if retries else self._reset(listener, queue),
        )
        # What is to be committed is asked for when it is, not noted after each message.
        offsets.follow(queue, lambda: scheduler.record)
        return scheduler

    def _reset(self, listener: StagedConcurrentListener, queue: MessageQueue) -> Reset | None:
        wish = listener.reset_current_stage_offset_if_needed
        if wish is None:
            return None
        topic = queue_out(self._core.client.options.namespace, queue).topic

        def reset(counter: StageCounter) -> None:
            try:
                wish(topic, counter)
            except Exception:  # the application's own
                LOGGER.exception("reset_current_stage_offset_if_needed failed on %s", topic)

        return reset

    async def _save(self, queue: MessageQueue) -> bool:
        offsets = self._core.offsets
        assert isinstance(offsets, StagedOffsets)
        return await offsets.save(queue)

    # Owning queues

    def _lease(self, queue: MessageQueue) -> Lease | None:
        return None if self._locks is None else self._locks.lease(queue)

    def owns(self, queue: MessageQueue) -> bool:
        """Whether messages of ``queue`` may be handed out at this moment."""
        return self._locks is None or self._locks.holds(queue)

    async def claim(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Which of ``queues`` may be read: ours by lock, and not on their way out."""
        wanted = [queue for queue in queues if queue not in self._leaving]
        if self._locks is None or not wanted:
            return set(wanted)
        granted = await self._locks.claim(wanted)
        for queue in wanted:
            if queue not in granted:
                LOGGER.info("%s cannot be read yet: its lock is another consumer's", queue)
        return granted

    async def disclaim(self, queue: MessageQueue) -> None:
        """A queue that was granted is not read after all."""
        if self._locks is not None:
            await self._locks.release([queue])

    def retire(self, held: HeldQueue) -> None:
        """Give up a queue: its handlers finish, progress is reported, then the lock goes."""
        held.scope.cancel()
        self._leaving[held.queue] = held
        self._nursery.start_soon(self._retire, held)

    async def _retire(self, held: HeldQueue) -> None:
        queue, offsets = held.queue, self._core.offsets
        await self.pool.retire(held)
        if not held.dropped:  # or the lock was lost meanwhile, and with it all say
            await offsets.persist([queue], wait=True)
            held.drop()
            offsets.forget(queue)
            if self._locks is not None:
                await self._locks.release([queue])
        self._leaving.pop(queue, None)
        LOGGER.info("gave up %s", queue)

    def _lost(self, queue: MessageQueue) -> None:
        membership = self._core.membership
        held = membership.held.pop(queue, None) or self._leaving.get(queue)
        if held is None:
            return
        held.drop()
        self._core.offsets.forget(queue)
        if self._listener.on_lock_loss is LockLoss.CANCEL:
            self.pool.cancel(held)
        membership.wake()


def assemble_ordered(
    client: Client,
    group: str,
    options: PushOptions,
    listener: OrderlyListener | StagedConcurrentListener,
    nursery: trio.Nursery,
) -> tuple[ConsumerCore, OrderedConsumer]:
    """Tie pulls, locks, listener and progress together. Raises ``InvalidName``."""
    ordered: OrderedConsumer

    def deliver(held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        ordered.pool.submit(held, messages)

    def progress(held: HeldQueue) -> None:
        ordered.pool.passed(held)

    staged = (
        staged_offsets(client, group, options, listener)
        if isinstance(listener, StagedConcurrentListener)
        else None
    )
    core = ConsumerCore(
        client,
        group,
        options,
        nursery,
        consume_type=ConsumeType.PASSIVELY,
        batch=options.pull_batch,
        deliver=deliver,
        progress=progress,
        offsets=staged,
        # A pull tells the group's offset without waiting: it could lead the record.
        commit_in_passing=staged is None,
    )
    ordered = OrderedConsumer(core, options, listener, nursery)
    return core, ordered
