"""The lite pull consumer: the application asks for messages and says how far it is.

Source: RocketMQ 4.9.8, DefaultLitePullConsumer.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Unpack, final

import trio

from lanemq.wire.bodies import ConsumeType, MessageQueue

from ._errors import ClientClosed, NoRoute, WrongUse
from ._messages import ReceivedMessage
from ._namespace import in_namespace, queue_in, queue_out
from ._options import LitePullOptions
from ._tasks import open_quiet_nursery
from ._validate import check_group, check_offset, check_topic, checked_queues
from ._values import check_seconds
from .consumer import _queue_progress
from .consumer._broker_requests import answer_brokers
from .consumer._consumer_core import ConsumerCore
from .consumer._expressions import Expression
from .consumer._lent import LENT_MAX, Lent
from .consumer._message_buffer import MessageBuffer, returned
from .net._client import Client, now_ms, open_client
from .net._discovery import NameServersLike
from .net._link import Dial
from .net._remoting import dial_tcp
from .opening._settings import LitePullSettings, with_settings
from .opening._unopened import opener
from .opening._url import connect

# An application that never waits in its loop lets other tasks run after this number of messages.
MESSAGES_PER_TURN = 16


@final
class LitePullConsumer:
    """A consumer to be polled, made by `open_lite_pull_consumer`; it ends with its block.

    Either ``subscribe`` to topics and share their queues with the group, or ``assign`` queues.
    Then ``poll``, or ``async for message in consumer``. Meant for one task that reads;
    ``seek``, ``pause`` and ``commit`` may come from others.
    """

    def __init__(self, client: Client, options: LitePullOptions) -> None:
        self.client_id: str = client.client_id
        """The id by which brokers and the group know this consumer."""
        self._core: ConsumerCore | None = None
        self._options = options
        self._buffer = MessageBuffer()
        self._due_s, self._turn = 0.0, 0
        self._mode: str | None = None

    @property
    def _open(self) -> ConsumerCore:
        if (core := self._core) is None:
            raise ClientClosed("lite pull consumer")
        return core

    def __repr__(self) -> str:
        core = self._core
        if core is None:
            return f"<LitePullConsumer {self.client_id}, closed>"
        queues = len(core.rebalance.held)
        return f"<LitePullConsumer of group {core.group!r}, {self.client_id}, {queues} queues>"

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues it reads at the moment, sorted."""
        namespace = self._namespace
        return tuple(sorted(queue_out(namespace, queue) for queue in self._open.rebalance.held))

    @property
    def _namespace(self) -> str:
        return self._options.client.namespace

    def _full(self, queue: MessageQueue) -> MessageQueue:
        return queue_in(self._namespace, queue)

    def _check_mode(self, mode: str) -> None:
        if self._mode not in (None, mode):
            raise WrongUse(
                f"`{mode}` after `{self._mode}`: a consumer either shares queues with its group"
                " or is assigned them; open a second one"
            )

    async def subscribe(self, topic: str, expression: Expression = "*") -> None:
        """Read ``topic``, sharing its queues with the consumers of the group.

        ``expression`` is ``"*"``, tags, ``"A || B"``, or a condition, ``Sql("a > 5")``. On
        return it has its queues, unless a broker could not be asked; then it goes on trying.
        Raises ``InvalidName``, ``WrongUse`` after ``assign``, ``RefusedByBroker`` from a
        broker that does not filter so, and ``NoRoute`` and more with ``require_route``; then
        nothing has changed.
        """
        core = self._open
        topic = in_namespace(self._namespace, topic)
        async with core.changing:
            self._check_mode("subscribe")
            wanted = await core.checked_subscription(topic, expression)
            self._mode = "subscribe"
            core.put_subscription(wanted)
            self._buffer.reclaim()
            for queue, held in tuple(core.rebalance.held.items()):
                if queue.topic == topic:  # what was pulled came by another expression
                    now = core.rebalance.restart(queue, held.messages.commit_offset)
                    self._buffer.replaced(held, now)
            await core.divide()

    async def unsubscribe(self, topic: str) -> None:
        """Read ``topic`` no longer and leave its queues to the others of the group.

        With ``auto_commit`` what ``poll`` returned of it is reported first.
        """
        core = self._open
        topic = in_namespace(self._namespace, topic)
        self._buffer.reclaim()
        if self._options.auto_commit:
            self._note(core, topic)
        await core.unsubscribe(topic)

    async def queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return all queues of ``topic`` that can be read, sorted. Raises ``NoRoute``."""
        core = self._open
        full = in_namespace(self._namespace, topic)
        check_topic(full)
        core.client.routes.watch(full)
        route = await core.client.routes.refresh(full)
        if route is None or not route.subscribe_queues:
            raise NoRoute(full, "it does not exist, or no broker lets it be read")
        return tuple(queue_out(self._namespace, queue) for queue in route.subscribe_queues)

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly ``queues``, from the group's offset in each, no matter who else reads them.

        Raises ``NoRoute``, ``WrongUse`` after ``subscribe``, or whatever kept a broker from
        saying where the group is.
        """
        core, wanted = self._open, checked_queues(queues)
        async with core.changing:
            self._check_mode("assign")
            for topic in dict.fromkeys(queue.topic for queue in wanted):
                await self.queues_of(topic)
            self._mode = "assign"
            await core.client.heartbeat()
            await core.rebalance.hold_exactly(map(self._full, wanted))

    # Messages

    async def poll(self, timeout_s: float = 5.0) -> list[ReceivedMessage]:
        """Return up to ``poll_messages_max`` messages of one queue, in order; [] if none came.

        With ``auto_commit``, asking for more says that what was returned before is done with.
        """
        self._check_reading()
        check_seconds("timeout_s", timeout_s, zero=True)
        self._buffer.reclaim()
        self._commit_in_passing()
        await trio.lowlevel.checkpoint()  # before anything is taken that could be lost by it
        limit = self._options.poll_messages_max
        messages = await self._take(limit)
        if not messages:
            with trio.move_on_after(timeout_s):
                messages = await self._next(limit)
        return messages

    def __aiter__(self) -> "LitePullConsumer":
        """Iterate over messages one by one, without an end: ``async for message in consumer``.

        With ``auto_commit`` a message counts as done with when the next one is asked for, and
        the last when the block ends. An error in the loop leaves the block: the message at
        hand comes again, those before it do not. ``commit`` inside the loop includes the
        message at hand.
        """
        return self

    async def __anext__(self) -> ReceivedMessage:
        self._check_reading()
        self._commit_in_passing()
        self._turn += 1
        if self._turn % MESSAGES_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
        (message,) = await self._next(1)
        return message

    def _check_reading(self) -> None:
        """Raise ``ClientClosed`` or ``WrongUse`` where there will never be a message."""
        if self._core is not None and self._mode is None:
            raise WrongUse("this consumer reads nothing yet: call `subscribe` or `assign` first")

    async def _lend(self) -> Lent:
        """Return the next messages of one queue, for an iteration in another thread."""
        self._check_reading()
        self._buffer.reclaim()
        self._commit_in_passing()
        while True:
            lent = self._buffer.lend(await self._unpack_next(LENT_MAX), self._open.pauses.hold)
            if lent is not None:
                self._note_received(self._open, lent.messages)
                return lent
            await self._arrival()

    async def _arrival(self) -> None:
        self._buffer.arrived = trio.Event()
        await self._buffer.arrived.wait()

    def _commit_in_passing(self) -> None:
        self._buffer.everything_is_done()
        if self._options.auto_commit and (now_s := trio.current_time()) >= self._due_s:
            self._due_s = now_s + self._options.offset_persist_interval_s
            self._note(self._open)
            self._open.persist_soon()

    async def _next(self, limit: int) -> list[ReceivedMessage]:
        """Wait for messages and return up to ``limit`` of one queue."""
        while not (messages := await self._take(limit)):
            await self._arrival()
        return messages

    async def _take(self, limit: int) -> list[ReceivedMessage]:
        messages = self._buffer.take(await self._unpack_next(limit), self._open.pauses.hold)
        if messages:
            self._note_received(self._open, messages)
        return messages

    async def _unpack_next(self, limit: int) -> int:
        most_bytes = self._options.body_bytes_max
        return await self._buffer.unpack_next(limit, most_bytes, lambda: self._open.pauses.hold)

    def _note_received(self, core: ConsumerCore, messages: Sequence[ReceivedMessage]) -> None:
        if self._options.client.telemetry:
            from .observe._telemetry import received  # may not be installed

            received(messages, core.group)

    # Progress

    async def commit(
        self, offsets: Mapping[MessageQueue, int] | None = None, *, wait: bool = True
    ) -> None:
        """Report everything that ``poll`` returned as consumed, or what ``offsets`` say.

        An offset is the next to be read. With ``wait`` the brokers have it on return, or a
        failure is raised. Raises ``WrongUse`` for a queue in ``offsets`` that is not read.
        """
        core = self._open
        if offsets is None:
            self._note(core)
        for queue, offset in (offsets or {}).items():
            core.offsets.update(self._checked(queue, offset), offset)
        await core.persist(wait=wait)

    def _note(self, core: ConsumerCore, topic: str | None = None) -> None:
        """Note progress behind everything that was returned, of ``topic`` alone if one is given."""
        self._buffer.note(core.offsets, core.rebalance.held, topic)

    def _note_done(self, core: ConsumerCore) -> None:
        """Note progress up to the messages returned last, if an error kept it from being noted."""
        self._buffer.leave_what_is_at_hand()
        for queue, offset in returned(core.rebalance.held):
            if offset > (core.offsets.get(queue) or 0):
                core.offsets.update(queue, offset)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that the group committed last in ``queue``; None if it never did."""
        return await self._open.committed(self._full(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Let ``poll`` continue from ``offset`` (counts messages) in a queue that is read.

        Raises ``WrongUse`` if it is not among ``queues``, and for a negative offset.
        """
        full = self._checked(queue, offset)
        self._buffer.reclaim()
        if held := self._open.rebalance.restart(full, offset):
            held.returned = offset

    def _checked(self, queue: MessageQueue, offset: int) -> MessageQueue:
        """Return the full name of ``queue``, which must be read; ``offset`` must make sense."""
        full = self._full(queue)
        if full not in self._open.rebalance.held:
            raise WrongUse(f"{queue} is not read by this consumer at the moment; see `queues`")
        check_offset(offset)
        return full

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go to the oldest message that the broker has, as ``seek`` does."""
        full = self._full(queue)
        self.seek(queue, await self._open.calls.of(full).min_offset(full))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go behind the newest message, as ``seek`` does."""
        full = self._full(queue)
        self.seek(queue, await self._open.calls.of(full).max_offset(full))

    async def offsets_for_times(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Return each queue's offset of the first message stored at a time or later, for `seek`.

        Times are milliseconds since 1970. Behind the last message it is the queue's next offset.
        Brokers before 5.0 answer the message stored nearest to the time, which may be one before
        it, and the last where all are older. Queues need not be read by this consumer. Raises
        whatever kept a broker from answering, ``NoRoute`` among it.
        """
        for topic in {queue.topic: None for queue in checked_queues(times)}:
            await self.queues_of(topic)
        return await _queue_progress.offsets_at(self._open, times)

    def position(self, queue: MessageQueue) -> int:
        """Return the offset behind what was returned of one of ``queues``. Raises ``WrongUse``."""
        self._buffer.look_at_loan()
        return _queue_progress.position_in(self._open, queue)

    async def end_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the offset that the next message of each queue will get."""
        return await _queue_progress.end_offsets_of(self._open, queues)

    async def lag(self) -> dict[MessageQueue, int]:
        """Return for each of ``queues`` the number of messages from its position to its end."""
        self._buffer.look_at_loan()
        return await _queue_progress.lag_of(self._open, self.queues)

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pull nothing from ``queues``, or from any queue, until ``resume``.

        Their pulled messages stay, and ``poll`` does not return them meanwhile.
        """
        self._buffer.reclaim()
        self._open.pauses.pause(None if queues is None else map(self._full, queues))

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Go on with ``queues``; without an argument, end every pause."""
        self._open.pauses.resume(None if queues is None else map(self._full, queues))
        self._buffer.arrived.set()

    @property
    def paused(self) -> tuple[MessageQueue, ...]:
        """The paused ones among ``queues``."""
        paused = self._open.pauses.now
        return tuple(queue for queue in self.queues if paused.holds(self._full(queue)))


@opener
async def open_lite_pull_consumer(
    group: str | None = None,
    *,
    name_servers: NameServersLike = None,
    options: LitePullOptions | None = None,
    dial: Dial = dial_tcp,
    clock_ms: Callable[[], int] = now_ms,
    **settings: Unpack[LitePullSettings],
) -> AsyncIterator[LitePullConsumer]:
    """Open a consumer that reads nothing yet: call ``subscribe`` or ``assign``.

    When the block ends, progress is reported and awaited: with ``auto_commit`` everything that
    ``poll`` or iteration returned. When it is left by an error or a cancellation, what was
    returned last counts as not done with, unless it was committed. Raises ``InvalidName``.
    """
    group, name_servers, found = connect(group, name_servers, settings, LitePullOptions)
    options = with_settings(LitePullOptions, options, found)
    group = in_namespace(options.client.namespace, group)
    check_group(group)
    async with open_client(name_servers, options.client, dial=dial, clock_ms=clock_ms) as client:
        consumer = LitePullConsumer(client, options)
        core: ConsumerCore | None = None
        try:
            async with open_quiet_nursery() as nursery:
                core = ConsumerCore(
                    client,
                    group,
                    options,
                    nursery,
                    consume_type=ConsumeType.ACTIVELY,
                    batch=options.pull_batch,
                    deliver=consumer._buffer.deliver,
                    progress=consumer._buffer.skip,
                )
                consumer._core = core
                answer_brokers(core, None)
                nursery.start_soon(core.changes.run)
                nursery.start_soon(core.rebalance.run, True)
                nursery.start_soon(core.persist_loop)
                nursery.start_soon(_queue_progress.report_statistics, core)
                try:
                    yield consumer
                except BaseException:
                    if options.auto_commit:
                        consumer._note_done(core)  # it is reported below
                    raise
                core.rebalance.stop()
                if options.auto_commit:
                    consumer._note(core)
                    await core.offsets.persist(wait=True)
                nursery.cancel_scope.cancel()
        finally:
            consumer._core = None
            consumer._buffer.reclaim()  # an iteration hands out nothing more
            consumer._buffer.arrived.set()  # a caller that still polls learns that it is closed
            if core is not None:
                await core.leave()
