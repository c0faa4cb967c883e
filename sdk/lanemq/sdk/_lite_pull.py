"""The lite pull consumer: the application asks for messages and says how far it is.

Source: RocketMQ 4.9.8, DefaultLitePullConsumer.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import final

import trio

from lanemq.wire import ConsumeType, MessageQueue

from ._client import now_ms, open_client
from ._consumer_core import ConsumerCore
from ._consumer_requests import answer_brokers
from ._errors import ClientClosed, NoRoute, WrongUse
from ._expressions import Expression
from ._held_queue import HeldQueue
from ._link import Dial
from ._messages import ReceivedMessage
from ._options import LitePullOptions
from ._remoting import dial_tcp
from ._tasks import open_quiet_nursery
from ._validate import check_group, check_topic


@final
class LitePullConsumer:
    """A consumer to be polled; made by `open_lite_pull_consumer`, ends with its block.

    Either ``subscribe`` to topics and share their queues with the group, or ``assign`` queues.
    Meant for one task that polls; ``seek`` and ``commit`` may come from others.
    """

    def __init__(self) -> None:
        self._core: ConsumerCore | None = None
        self._options = LitePullOptions()
        self._buffer: deque[tuple[HeldQueue, deque[ReceivedMessage]]] = deque()
        self._arrived = trio.Event()
        # Next offset behind what poll returned, for each queue; commits take it from here.
        self._positions: dict[MessageQueue, int] = {}
        self._committed_s = 0.0
        self._mode: str | None = None

    @property
    def _open(self) -> ConsumerCore:
        if self._core is None:
            raise ClientClosed("lite pull consumer")
        return self._core

    @property
    def client_id(self) -> str:
        """By which brokers and the group know this consumer."""
        return self._open.client.client_id

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues it reads at the moment, sorted."""
        return tuple(sorted(self._open.membership.held))

    def _choose_mode(self, mode: str) -> None:
        if self._mode not in (None, mode):
            raise WrongUse(
                f"`{mode}` after `{self._mode}`: a consumer either shares queues with its group"
                " or is assigned them; open a second one"
            )
        self._mode = mode

    async def subscribe(self, topic: str, expression: Expression = "*") -> None:
        """Read ``topic``, sharing its queues with the consumers of the group.

        ``expression`` is ``"*"``, tags, ``"A || B"``, or a condition, ``Sql("a > 5")``. On
        return it has its queues, unless a broker could not be asked; then it goes on trying.
        Raises ``InvalidName``, ``WrongUse`` after ``assign``, ``RefusedByBroker`` from a
        broker that does not filter so, and ``BrokerUnreachable`` or ``RequestTimedOut`` if no
        name server answers.
        """
        core = self._open
        first = self._mode is None
        self._choose_mode("subscribe")
        core.subscribe(topic, expression)
        await core.join()
        complete = await core.membership.rebalance()
        if first:
            core.nursery.start_soon(core.membership.run, complete)

    async def queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        """All queues of ``topic`` that can be read, sorted. Raises ``NoRoute``."""
        core = self._open
        check_topic(topic)
        core.client.routes.watch(topic)
        route = await core.client.routes.refresh(topic)
        if route is None or not route.subscribe_queues:
            raise NoRoute(topic, "it does not exist, or no broker lets it be read")
        return route.subscribe_queues

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly ``queues``, whoever else reads them, from where the group is in each.

        Raises ``NoRoute``, ``WrongUse`` after ``subscribe``, or whatever kept a broker from
        saying where the group is.
        """
        core = self._open
        self._choose_mode("assign")
        wanted = list(queues)
        for topic in dict.fromkeys(queue.topic for queue in wanted):
            await self.queues_of(topic)
        await core.client.heartbeat()
        await core.membership.hold_exactly(wanted)

    # Messages

    def _deliver(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        self._buffer.append((held, deque(messages)))
        self._arrived.set()

    def _skip(self, held: HeldQueue) -> None:
        # A pull that found nothing to deliver may have gone past messages of other tags.
        if not held.messages.count and held.queue in self._positions:
            self._positions[held.queue] = held.messages.next_offset

    async def poll(self, timeout_s: float = 5.0) -> list[ReceivedMessage]:
        """Messages of one queue in their order, at most ``poll_messages_max``; [] after a wait.

        With ``auto_commit``, asking for more says that what was returned before is done with.
        """
        core = self._open
        if self._options.auto_commit:
            interval_s = self._options.offset_persist_interval_s
            if trio.current_time() - self._committed_s >= interval_s:
                await self.commit(wait=False)
        with trio.move_on_after(timeout_s):
            while True:
                messages = self._take()
                if messages:
                    return messages
                assert core is self._core
                self._arrived = trio.Event()
                await self._arrived.wait()
        return []

    def _take(self) -> list[ReceivedMessage]:
        buffer, limit = self._buffer, self._options.poll_messages_max
        while buffer:
            held, messages = buffer[0]
            if held.dropped:
                buffer.popleft()
                continue
            if len(messages) <= limit:
                buffer.popleft()
                taken = list(messages)
            else:
                taken = [messages.popleft() for _ in range(limit)]
            self._positions[held.queue] = held.settle(taken)
            return taken
        return []

    # Progress

    async def commit(self, *, wait: bool = True) -> None:
        """Report everything that ``poll`` returned as consumed.

        With ``wait`` the brokers have it on return; a failure is logged, and the next commit
        makes up for it.
        """
        core = self._open
        self._committed_s = trio.current_time()
        for queue, offset in self._positions.items():
            if queue in core.membership.held:
                core.offsets.update(queue, offset)
        await core.offsets.persist(wait=wait)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The next offset of the group in ``queue`` as it was made to last; None if never."""
        return await self._open.offsets.load(queue)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Have ``poll`` go on from ``offset`` (counts messages) in a queue that is read.

        Raises ``WrongUse`` if it is not among ``queues``, and for a negative offset.
        """
        membership = self._open.membership
        if queue not in membership.held:
            raise WrongUse(f"{queue} is not read by this consumer at the moment; see `queues`")
        if offset < 0:
            raise WrongUse(f"an offset counts messages from 0, {offset} does not exist")
        membership.restart(queue, offset)
        self._positions[queue] = offset

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """``seek`` to the oldest message that the broker has."""
        self.seek(queue, await self._open.calls.min_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """``seek`` behind the newest message."""
        self.seek(queue, await self._open.calls.max_offset(queue))


@asynccontextmanager
async def open_lite_pull_consumer(
    group: str,
    *,
    name_servers: str | Sequence[str],
    options: LitePullOptions | None = None,
    dial: Dial = dial_tcp,
    clock_ms: Callable[[], int] = now_ms,
) -> AsyncIterator[LitePullConsumer]:
    """Open a consumer that reads nothing yet: call ``subscribe`` or ``assign``.

    When the block ends, progress is reported and awaited: with ``auto_commit`` everything that
    ``poll`` returned. When it is left by an error or a cancellation, what the last polls
    returned counts as not done with, unless it was committed.

    Raises ``InvalidName``.
    """
    check_group(group)
    options = options or LitePullOptions()
    async with open_client(name_servers, options.client, dial=dial, clock_ms=clock_ms) as client:
        consumer = LitePullConsumer()
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
                    deliver=consumer._deliver,
                    progress=consumer._skip,
                )
                consumer._core, consumer._options = core, options
                answer_brokers(core, None)
                nursery.start_soon(core.persist_loop)
                yield consumer
                core.membership.stop()
                if options.auto_commit:
                    await consumer.commit()
                nursery.cancel_scope.cancel()
        finally:
            consumer._core = None
            if core is not None:
                await core.leave()
