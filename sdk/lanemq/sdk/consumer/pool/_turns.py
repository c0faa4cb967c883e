"""The queues of a pool, and whose messages a listener gets next. No task, no clock."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, final

import trio

from lanemq.wire.bodies import MessageQueue

from ..._messages import ReceivedMessage
from ...observe._consume_stats import TopicStats
from ..ordered._queue_locks import Lease
from ..pulls._held_queue import HeldQueue
from ._concurrent_scheduler import ConcurrentScheduler
from ._queue_consumer import Completion, Messages, QueueConsumer, S

BATCHES_PER_TURN: Final = 32
"""Batches that a queue without an order hands out in one turn, if there is room."""


@final
class Turns(Generic[S]):
    """The queues that a pool consumes; those with something to hand out take turns.

    ``schedule`` makes the scheduler of a queue that was not read before, ``lease`` gives its
    lock (None where nobody locks), ``on_wake`` is called with a queue that has something again.
    """

    def __init__(
        self,
        completion: Completion[S],
        *,
        schedule: Callable[[HeldQueue], S],
        lease: Callable[[MessageQueue], Lease | None],
        stats: Callable[[str], TopicStats],
        on_wake: Callable[[QueueConsumer[S]], None],
    ) -> None:
        self._completion = completion
        self._schedule = schedule
        self._lease = lease
        self._stats = stats
        self._on_wake = on_wake
        self._consumers: dict[MessageQueue, QueueConsumer[S]] = {}
        self.waiting: deque[QueueConsumer[S]] = deque()
        """The queues that have something to hand out, perhaps."""

    def put(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Take ``messages``, the next of their queue, to be handed out in its turn."""
        consumer = self._consumer(held)
        finished = consumer.scheduler.put(messages, held.messages.next_offset)
        if finished:
            held.release(finished)
        self.enqueue(consumer)

    def passed(self, held: HeldQueue) -> None:
        """Note that a pull found nothing for the listener, but the next offset may have moved."""
        if not held.dropped:
            self._consumer(held).scheduler.skip_to(held.messages.next_offset)
            self._completion.nothing_found(held)

    def _consumer(self, held: HeldQueue) -> QueueConsumer[S]:
        queue = held.queue
        known = self._consumers.get(queue)
        if known is not None and known.held is held:
            return known
        consumer = self._consumers[queue] = QueueConsumer(
            held=held,
            scheduler=self._schedule(held),
            lease=self._lease(queue),
            stats=self._stats(queue.topic),
            on_wake=self._on_wake,
            predecessor=known,
        )
        return consumer

    def begin_to_retire(self, held: HeldQueue) -> QueueConsumer[S] | None:
        """Hand out nothing of ``held`` any more; return its state, or None if it never had a
        message."""
        consumer = self._consumers.get(held.queue)
        if consumer is None or consumer.held is not held:
            return None
        consumer.retired = True
        return consumer

    async def retired(self, consumer: QueueConsumer[S]) -> None:
        """Return when the listeners of a queue that retires have returned."""
        queue = consumer.held.queue
        while consumer.running:
            consumer.idle = trio.Event()
            await consumer.idle.wait()
        # Nothing needs it any more, unless it waits for calls of an earlier time that it was held.
        if not consumer.predecessors_running and self._consumers.get(queue) is consumer:
            del self._consumers[queue]

    def enqueue(self, consumer: QueueConsumer[S]) -> None:
        """Put ``consumer`` behind the queues that have something to hand out."""
        if not (consumer.queued or consumer.retired or consumer.held.messages.dropped):
            consumer.queued = True
            self.waiting.append(consumer)

    def next(self, now_s: float) -> tuple[QueueConsumer[S], Messages] | None:
        """Return the next batch that may run, of the queues in turn."""
        turns = self.waiting
        while turns:
            consumer = turns[0]
            scheduler, lease = consumer.scheduler, consumer.lease
            batch = None
            if consumer.held.messages.dropped:
                scheduler.discard()
            elif (lease is None or now_s < lease.until_s) and not (
                consumer.predecessors_running or consumer.retired
            ):
                batch = scheduler.take()
                if batch is not None and scheduler.has_more:
                    if len(turns) > 1:
                        turns.rotate(-1)
                    return consumer, batch
                self._completion.nothing_to_take(consumer)
            turns.popleft()
            consumer.queued = False
            if batch is not None:
                return consumer, batch
        return None

    def take_many(self, now_s: float, room: int) -> list[tuple[QueueConsumer[S], list[Messages]]]:
        """Hand out up to ``room`` batches that may run, of the queues in turn."""
        taken: list[tuple[QueueConsumer[S], list[Messages]]] = []
        while room > 0 and self.waiting:
            consumer = self.waiting[0]
            scheduler = consumer.scheduler
            if not isinstance(scheduler, ConcurrentScheduler):
                job = self.next(now_s)
                if job is None:
                    break
                taken.append((job[0], [job[1]]))
                room -= 1
                continue
            self.waiting.popleft()
            consumer.queued = False
            if consumer.held.messages.dropped:
                scheduler.discard()
            elif not consumer.retired:
                batches = scheduler.take_many(min(room, BATCHES_PER_TURN))
                taken.append((consumer, batches))
                room -= len(batches)
                if scheduler.has_more:
                    self.enqueue(consumer)
        return taken

    def ended(self, consumer: QueueConsumer[S], calls: int = 1) -> None:
        """Count calls less, and look again at a queue where more may run now than before."""
        consumer.running -= calls
        if consumer.idle is not None and not consumer.running:
            consumer.idle.set()
        if consumer.exclusive:
            current = consumer.current
            if current is not consumer:
                current.predecessors_running -= calls
            if not current.queued:
                self.enqueue(current)  # the worker that calls this looks next
