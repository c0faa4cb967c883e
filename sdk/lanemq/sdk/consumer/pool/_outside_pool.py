"""Pool of a listener that runs outside of the core: calls go there and come back in batches.

No task of the core waits for a call. Whatever hands messages in, or brings calls back, hands over
as many new calls as there is room for; one wake-up of the core brings all calls that ended since.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Generic, final

import trio

from ..._errors import ClientClosed
from ..._messages import Outcome, ReceivedMessage
from ..._tasks import first_of
from ..._unpacking import any_packed
from ..pulls._held_queue import HeldQueue
from ._failures import TOO_LONG, reason_of
from ._late_calls import LateCalls
from ._outside_calls import ListenerExecutor, OutsideCall
from ._queue_consumer import Completion, Messages, QueueConsumer, S, context_of
from ._turns import Turns

SUCCESS = Outcome.SUCCESS  # looked up for every message


@final
class OutsidePool(Generic[S]):
    """A pool whose listener runs at ``executor``.

    ``ahead`` calls more than run at once may be handed over. With ``merges`` batches of a queue
    that succeeded are completed as one. ``group`` is the group as the listener is told it, None
    for a listener that takes no context.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        executor: ListenerExecutor,
        completion: Completion[S],
        turns: Callable[[Callable[[QueueConsumer[S]], None]], Turns[S]],
        *,
        group: str | None,
        clock_ms: Callable[[], int],
        concurrency: int,
        ahead: int = 0,
        merges: bool = False,
        timeout_s: float,
    ) -> None:
        self._nursery = nursery
        self._executor = executor
        self._completion = completion
        self._turns = turns(self._wake)
        self._group = group
        self._clock_ms = clock_ms
        self._late = LateCalls(
            nursery,
            executor,
            timeout_s=timeout_s,
            take_back=self._take_back,
            abandon=self._abandon,
        )
        self._ahead = ahead
        self._merges = merges
        self.concurrency = executor.limit = concurrency
        """Most listeners that run at once; ``resize`` changes it."""
        self._in_hand = 0  # calls that were handed over, and are neither settled nor abandoned
        self._closing = False
        self._leaving = False  # what runs is told to stop
        self._over = False
        self._quiet = trio.Event()
        context = copy_context()  # the consumer's: tasks that begin as calls come back have it
        executor.open(lambda: context.run(self._take_back))
        nursery.start_soon(self._keep)

    # Queues

    def submit(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Take ``messages``, the next of their queue, to be consumed when their turn comes."""
        self._turns.put(held, messages)
        self._begin()

    def passed(self, held: HeldQueue) -> None:
        """Note that a pull found nothing for the listener, but the next offset may have moved."""
        self._turns.passed(held)

    async def retire(self, held: HeldQueue) -> None:
        """Hand out nothing of ``held`` any more; return when its listeners have returned."""
        consumer = self._turns.begin_to_retire(held)
        if consumer is not None:
            self._recall(lambda call: call.consumer is consumer)
            await self._turns.retired(consumer)

    def cancel(self, held: HeldQueue) -> None:
        """Cancel the listeners that run for a queue that was lost."""
        assert held.dropped
        self._recall(lambda call: call.consumer.held is held)
        for call in self._executor.running():
            if call.consumer.held is held and not call.is_late:
                self._late.stop(call)

    def _wake(self, consumer: QueueConsumer[S]) -> None:
        self._turns.enqueue(consumer)
        self._begin()

    # Calls on their way out

    def _begin(self) -> None:
        """Hand over as many calls as there is room for."""
        room = self.concurrency + self._ahead - self._in_hand
        if room <= 0 or self._closing or not self._turns.waiting:
            return
        now_ms, group = self._clock_ms(), self._group
        calls: list[OutsideCall] = []
        for consumer, batches in self._turns.take_many(trio.current_time(), room):
            consumer.running += len(batches)
            consumer.held.last_consume_ms = now_ms
            calls += [OutsideCall(consumer, batch, batch.messages) for batch in batches]
        for call in calls:
            call.is_packed = any_packed(call.messages)
        if group is not None:
            for call in calls:
                call.context = context_of(group, call.consumer, call.batch)
        if not calls:
            return
        self._in_hand += len(calls)
        try:
            self._executor.begin(calls)
        except ClientClosed:  # its loop is gone; its client will be soon, with nothing settled
            self._closing = True

    def _recall(self, is_wanted: Callable[[OutsideCall], bool]) -> None:
        """Take back calls that have not begun."""
        kept = []
        for call in self._executor.recall():
            if is_wanted(call):
                self._in_hand -= 1
                self._turns.ended(call.consumer)
            else:
                kept.append(call)
        if kept:
            with suppress(ClientClosed):
                self._executor.begin(kept)
        self._note_end()
        self._begin()

    # Calls on their way back

    def _take_back(self) -> None:
        """Settle the calls that have ended, and hand over others. Must not raise."""
        if self._over:
            return
        try:
            self._settle()
            self._begin()
        except BaseException as error:  # it ends the consumer, as an error of a task would
            self._nursery.start_soon(_raise, error)

    def _settle(self) -> None:
        take, now_s = self._executor.ended.popleft, trio.current_time()
        succeeded: dict[QueueConsumer[S], list[OutsideCall]] = {}
        current: QueueConsumer[S] | None = None
        calls: list[OutsideCall] = []
        for call in [take() for _ in range(len(self._executor.ended))]:
            value = call.value
            if (value is None or value is SUCCESS) and not call.is_special:
                if call.consumer is not current:
                    current = call.consumer
                    calls = succeeded.setdefault(current, [])
                calls.append(call)
            elif not call.is_abandoned:
                self._settle_alone(call, now_s)
        for consumer, calls in succeeded.items():
            self._succeed(consumer, calls, now_s)
        self._note_end()

    def _succeed(self, consumer: QueueConsumer[S], calls: list[OutsideCall], now_s: float) -> None:
        """Complete calls of one queue that succeeded in time."""
        complete = self._completion.complete
        if self._merges and len(calls) > 1:
            merged = tuple([message for call in calls for message in call.messages])
            complete(consumer, Messages(merged, 0), None, timed_out=False)
            count = len(merged)
        else:
            for call in calls:
                complete(consumer, call.batch, None, timed_out=False)
            count = sum([len(call.batch.messages) for call in calls])
        spent_s = sum([call.spent_s for call in calls])
        consumer.stats.consumed(now_s, count, spent_s, ok=True)
        self._in_hand -= len(calls)
        self._turns.ended(consumer, len(calls))

    def _settle_alone(self, call: OutsideCall, now_s: float) -> None:
        if call.on_end is not None:
            call.on_end()
        if call.was_skipped or (call.was_cancelled and self._leaving):
            self._in_hand -= 1
            self._turns.ended(call.consumer)
        elif not call.was_cancelled:
            self._finish(call, call.outcome(), now_s)
        elif call.is_late:
            self._finish(call, Outcome.RETRY, now_s)
        else:  # not by us, so probably by the end of its loop, which closes next
            self._nursery.start_soon(self._finish_unless_closed, call)

    async def _finish_unless_closed(self, call: OutsideCall) -> None:
        await trio.sleep(self._executor.cancel_grace_s)
        if not self._executor.is_closed:  # else its client will be soon, with nothing settled
            self._finish(call, call.outcome(), trio.current_time())
            self._executor.nudge()
            self._begin()

    def _finish(self, call: OutsideCall, outcome: object, now_s: float) -> None:
        """Complete a call that failed, or was late, or answered something."""
        consumer, messages = call.consumer, call.batch.messages
        if outcome is not None:
            is_stopped = call.is_late and (call.is_abandoned or call.was_cancelled)
            reason = TOO_LONG if is_stopped else reason_of(outcome, call.error)
            for message in messages:
                message._note_failure(reason)
        consumer.stats.consumed(now_s, len(messages), call.spent_s, ok=outcome is None)
        work = self._completion.complete(consumer, call.batch, outcome, timed_out=call.is_late)
        if work is None:
            self._release(call)
        else:
            self._nursery.start_soon(self._release_after, work, call)

    async def _release_after(self, work: Awaitable[None], call: OutsideCall) -> None:
        await work
        self._release(call)
        self._begin()

    def _release(self, call: OutsideCall) -> None:
        self._in_hand -= 1
        self._turns.ended(call.consumer)
        self._note_end()

    def _abandon(self, call: OutsideCall) -> None:
        """Have the messages of a call that does not stop delivered again."""
        self._finish(call, Outcome.RETRY, trio.current_time())
        self._begin()

    async def watch(self) -> None:
        """Stop listeners that take too long; runs until cancelled."""
        await self._late.watch()

    def _note_end(self) -> None:
        if not self._in_hand:
            self._quiet.set()

    # The number of calls, and the end

    def resize(self, concurrency: int) -> None:
        """Set the number of listeners that run at once from now on; those that run finish."""
        assert concurrency > 0
        self.concurrency = self._executor.limit = concurrency
        self._executor.nudge()
        self._begin()

    async def close(self) -> None:
        """Begin nothing more, and return when the listeners that run have returned."""
        self._closing = True
        self._recall(lambda _: True)
        await self._all_settled()

    async def _all_settled(self) -> None:
        while self._in_hand:
            self._quiet = trio.Event()
            await self._quiet.wait()

    async def _keep(self) -> None:
        """Stay until the consumer ends, however that comes; then stop what runs."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await self._leave()
            self._over = True
            self._executor.close()

    async def _leave(self) -> None:
        executor = self._executor
        self._closing = self._leaving = True
        self._recall(lambda _: True)
        for call in executor.running():
            executor.cancel(call)
        if executor.is_waiting_ordered:
            await first_of(self._all_settled, executor.wait_for_leave)
        with trio.move_on_after(executor.cancel_grace_s):
            await self._all_settled()


async def _raise(error: BaseException) -> None:
    raise error
