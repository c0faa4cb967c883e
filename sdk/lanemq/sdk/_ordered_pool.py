"""Runs an orderly or staged listener over what was pulled, as the queues' schedulers allow.

Source for orderly listeners: RocketMQ 4.9.8, ConsumeMessageOrderlyService.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import final

import trio

from lanemq.wire import MessageQueue

from ._consume_stats import TopicStats
from ._crew import BATCHES_PER_TURN, Crew, Worker
from ._held_queue import HeldQueue
from ._lanes import Lane, Messages, Place, Scheduler
from ._log import get_logger
from ._messages import Outcome, ReceivedMessage
from ._ordered_listeners import AbandonMessage, OrderlyListener, StagedConcurrentListener
from ._queue_locks import Lease

LOGGER = get_logger("lanemq.sdk.listener")

Job = tuple[Lane, Messages]

# A record that has to last before anything goes on could not be saved: again after this.
SAVE_RETRY_S = 1.0


@final
class OrderedPool:
    """Tasks that run one listener; they start when first needed.

    ``schedule`` makes the scheduler of a queue that was not read before, ``lease`` gives its
    lock (None where nobody locks), ``commit`` takes what offset is reached, ``save`` makes that
    last at once, and ``bury`` puts a message with the dead letters.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        listener: OrderlyListener | StagedConcurrentListener,
        *,
        schedule: Callable[[HeldQueue], Scheduler],
        lease: Callable[[MessageQueue], Lease | None],
        commit: Callable[[MessageQueue, int], None] | None,
        save: Callable[[MessageQueue], Awaitable[bool]],
        bury: Callable[[ReceivedMessage], Awaitable[bool]],
        stats: Callable[[str], TopicStats],
        clock_ms: Callable[[], int],
        timeout_s: float,
    ) -> None:
        self._nursery = nursery
        self._listener = listener
        self._schedule = schedule
        self._lease = lease
        self._commit = commit
        self._save = save
        self._bury = bury
        self._stats = stats
        self._clock_ms = clock_ms
        self._timeout_s = timeout_s
        self._places: dict[MessageQueue, Place] = {}
        self._turns: deque[Lane] = deque()
        self._crew = Crew(nursery, self._turns, self._work, listener.concurrency)

    # What pulls bring

    def submit(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Have ``messages``, the next of their queue, consumed when their turn comes."""
        lane = self._lane(held)
        lane.scheduler.put(messages, held.messages.next_offset)
        self._kick(lane)

    def passed(self, held: HeldQueue) -> None:
        """A pull found nothing for the listener, but the next offset may have moved."""
        if not held.dropped:
            lane = self._lane(held)
            lane.scheduler.skip_to(held.messages.next_offset)
            if self._commit is not None:
                self._commit(held.queue, held.messages.commit_offset)

    def _lane(self, held: HeldQueue) -> Lane:
        queue = held.queue
        place = self._places.get(queue)
        if place is None:
            place = self._places[queue] = Place()
        lane = place.lane
        if lane is None or lane.held is not held:
            lane = place.lane = Lane(
                held, self._schedule(held), place, self._lease(queue), self._stats(queue.topic)
            )
        return lane

    # What becomes of queues

    async def retire(self, held: HeldQueue) -> None:
        """Hand out nothing of ``held`` any more; return when its handlers have returned."""
        place = self._places.get(held.queue)
        lane = place.lane if place is not None else None
        if lane is None or lane.held is not held:
            return  # it never had a message
        lane.retired = True
        while lane.running:
            lane.idle = trio.Event()
            await lane.idle.wait()

    def cancel(self, held: HeldQueue) -> None:
        """Cancel the handlers that run for a queue that was lost."""
        assert held.dropped
        for worker in self._crew.workers:
            if worker.job is not None and worker.job[0].held is held and worker.since_s != inf:
                worker.cancel()

    # Workers

    @property
    def concurrency(self) -> int:
        """How many listeners may run at once."""
        return self._crew.concurrency

    def resize(self, concurrency: int) -> None:
        """Let ``concurrency`` listeners run at once from now on; those that run finish."""
        self._crew.resize(concurrency)

    async def watch(self) -> None:
        """Cancel listeners that take too long; runs until cancelled."""
        await self._crew.watch(self._timeout_s)

    async def close(self) -> None:
        """Begin nothing more, and return when the listeners that run have returned."""
        await self._crew.close()

    def _line_up(self, lane: Lane) -> bool:
        """Let ``lane`` be looked at by the next worker that looks; whether it was not yet."""
        if lane.queued or lane.retired or lane.held.dropped:
            return False
        lane.queued = True
        self._turns.append(lane)
        return True

    def _kick(self, lane: Lane) -> None:
        """Have a worker look at ``lane`` now, if one is free."""
        if self._line_up(lane):
            self._crew.call()

    def _next(self, now_s: float) -> tuple[Lane, Messages] | None:
        """The next batch that may run, of the lanes in turn."""
        turns = self._turns
        while turns:
            lane = turns[0]
            batch, scheduler, lease = None, lane.scheduler, lane.lease
            is_ours = lease is None or now_s < lease.until_s
            if is_ours and not (lane.before or lane.retired or lane.held.messages.dropped):
                batch = scheduler.take()
                if batch is not None and scheduler.has_more:
                    if len(turns) > 1:
                        turns.rotate(-1)
                    return lane, batch
                if scheduler.must_save and not lane.saving:
                    lane.saving = True
                    self._nursery.start_soon(self._save_reset, lane)
            turns.popleft()
            lane.queued = False
            if batch is not None:
                return lane, batch
        return None

    async def _save_reset(self, lane: Lane) -> None:
        """Make the record of a counter that was reset last; then its queue goes on."""
        while not lane.held.dropped and not lane.retired:
            if await self._save(lane.held.queue):
                lane.scheduler.saved()
                lane.saving = False
                self._kick(lane)
                return
            await trio.sleep(SAVE_RETRY_S)

    async def _work(self, worker: Worker[Job]) -> None:
        with trio.CancelScope() as worker.scope:
            await self._run_batches(worker)
        if worker.cancelled and worker.job is not None:
            self._settle(*worker.job, worker.outcome)
            worker.job = None

    async def _run_batches(self, worker: Worker[Job]) -> None:
        """Run the listener until the pool closes, or until it was cancelled."""
        crew, turns, handle, turn = self._crew, self._turns, self._listener.handle, 0
        now_s = trio.current_time()
        while crew.goes_on():
            job = worker.job = self._next(now_s)
            if job is None:
                now_s = await crew.rest()
                continue
            if turns and not crew.called:
                crew.call()
            lane, batch = job
            lane.running += 1
            try:
                now_s = await worker.run(
                    handle,
                    lane.held,
                    batch.messages,
                    stats=lane.stats,
                    clock_ms=self._clock_ms,
                    now_s=now_s,
                )
            finally:
                lane.running -= 1
            if worker.cancelled:
                return  # perhaps with an outcome: a new scope is needed all the same
            self._settle(lane, batch, worker.outcome)
            worker.job = None
            turn += 1
            if turn % BATCHES_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
                now_s = trio.current_time()

    # What becomes of batches

    def _settle(self, lane: Lane, batch: Messages, outcome: object) -> None:
        if lane.held.messages.dropped:
            LOGGER.info("%s is not ours any more; %s may come again", lane.held.queue, batch)
        elif outcome is None or outcome is Outcome.SUCCESS:
            self._finish(lane, batch)
        elif isinstance(outcome, AbandonMessage):
            LOGGER.warning("the listener abandoned %s: %s", batch.messages, outcome)
            self._nursery.start_soon(self._give_up, lane, batch, batch.messages)
        else:
            if outcome not in (Outcome.SUSPEND_CURRENT_QUEUE, Outcome.RETRY):
                LOGGER.error("the listener returned %r, no Outcome; it comes again", outcome)
            self._fail(lane, batch)
        if lane.idle is not None and not lane.running:
            lane.idle.set()
        current = lane.place.lane
        assert current is not None
        if current is not lane:
            current.before -= 1
        if not current.queued:
            self._line_up(current)  # the worker that calls this looks next

    def _finish(
        self, lane: Lane, batch: Messages, messages: Sequence[ReceivedMessage] | None = None
    ) -> None:
        """``messages`` of ``batch``, all of them if None, need nothing more."""
        lane.scheduler.finish(batch, messages)
        held = lane.held
        held.settle(batch.messages if messages is None else messages)
        if self._commit is not None:
            self._commit(held.queue, held.messages.commit_offset)

    def _fail(self, lane: Lane, batch: Messages) -> None:
        limit = self._listener.max_reconsume_times
        over = [
            message
            for message in batch.messages
            if limit is not None and message.reconsume_times >= limit
        ]
        for message in batch.messages:
            if message not in over:
                message.retries_in_place += 1
        if over:
            self._nursery.start_soon(self._give_up, lane, batch, over)
        else:
            self._suspend(lane, batch)

    def _suspend(self, lane: Lane, batch: Messages) -> None:
        lane.scheduler.suspend(batch)
        self._nursery.start_soon(self._resume_later, lane, batch)

    async def _resume_later(self, lane: Lane, batch: Messages) -> None:
        await trio.sleep(self._listener.suspend_s)
        lane.scheduler.resume(batch)
        self._kick(lane)

    async def _give_up(
        self, lane: Lane, batch: Messages, messages: Sequence[ReceivedMessage]
    ) -> None:
        """Put ``messages`` with the dead letters, however long that takes; go on with the rest."""
        for message in messages:
            while not lane.held.dropped:
                if await self._bury(message):
                    break
                await trio.sleep(self._listener.suspend_s)
        if lane.held.dropped:
            return
        rest = len(messages) < len(batch.messages)
        self._finish(lane, batch, messages)
        if rest:
            self._suspend(lane, batch)
        else:
            self._kick(lane)
