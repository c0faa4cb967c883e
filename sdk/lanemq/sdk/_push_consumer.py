"""The push consumer: messages come to a listener.

Source: RocketMQ 4.9.8, DefaultMQPushConsumer.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Unpack, final

import trio

from lanemq.wire import SystemTopic
from lanemq.wire.bodies import MessageQueue

from ._interceptors import inbound
from ._namespace import in_namespace, queue_in, queue_out
from ._options import PushOptions
from ._tasks import open_quiet_nursery
from ._validate import check_group
from ._values import check_whole
from .consumer._broker_requests import Listener, answer_brokers
from .consumer._consumer_core import ConsumerCore
from .consumer._expressions import Expression
from .consumer._queue_progress import end_offsets_of, lag_of, position_in, report_statistics
from .consumer.pool._pools import Pool
from .consumer.push._push_parts import PushParts, assemble
from .listeners._listener import Handle
from .net._client import now_ms, open_client
from .net._discovery import NameServersLike
from .net._link import Dial
from .net._remoting import dial_tcp
from .observe._consume_hooks import hooked
from .opening._mistakes import as_listener, check_subscriptions
from .opening._settings import PushSettings, with_settings
from .opening._unopened import opener
from .opening._url import connect
from .producer._tracer import Tracer, open_tracer


@final
class PushConsumer:
    """A running consumer, made by `open_push_consumer`; it ends with its block."""

    def __init__(self, core: ConsumerCore, pool: Pool) -> None:
        self.client_id: str = core.client.client_id
        """The id by which brokers and the group know this consumer."""
        self._core = core
        self._pool = pool

    def __repr__(self) -> str:
        core = self._core
        queues = len(self.queues)
        return f"<PushConsumer of group {core.group!r}, {self.client_id}, {queues} queues>"

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues it reads at the moment, sorted."""
        held = self._core.rebalance.held
        return tuple(sorted(queue_out(self._namespace, queue) for queue in held))

    @property
    def _namespace(self) -> str:
        return self._core.client.options.namespace

    def _full(self, queue: MessageQueue) -> MessageQueue:
        return queue_in(self._namespace, queue)

    async def subscribe(self, topic: str, expression: Expression = "*") -> None:
        """Read ``topic`` as well, or by another expression than before.

        ``expression`` is as in ``subscriptions`` of `open_push_consumer`. On return the consumer
        has its queues, unless a broker could not be asked; then it goes on trying. After a
        change of the expression whatever is not settled yet is judged by the new one; a queue
        whose listener runs at the moment is read again when that has returned. All consumers of
        a group should change alike. A listener may call this.

        Raises ``InvalidName``, ``RefusedByBroker`` from a broker that does not filter so, and
        ``BrokerUnreachable`` or ``RequestTimedOut`` if no name server answers; then nothing has
        changed.
        """
        check_subscriptions({topic: expression})
        await self._core.change_subscription(in_namespace(self._namespace, topic), expression)

    async def unsubscribe(self, topic: str) -> None:
        """Read ``topic`` no longer.

        On return nothing more of it is handed to the listener; what the listener has already
        counts, and is reported when it returns. Messages pulled and not handed over come to
        the consumer that subscribes next. A listener may call this.
        """
        await self._core.unsubscribe(in_namespace(self._namespace, topic))

    def committed_offset(self, queue: MessageQueue) -> int | None:
        """Return the next offset to read of ``queue``, or None if nothing is settled."""
        return self._core.offsets.get(self._full(queue))

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the first message that is not finished, of one of ``queues``.

        Messages above it may be finished as well. Raises ``WrongUse`` for another queue.
        """
        return position_in(self._core, queue)

    async def end_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the offset that the next message of each queue will get.

        Queues need not be read by this consumer. Raises whatever kept a broker from answering.
        """
        return await end_offsets_of(self._core, queues)

    async def lag(self) -> dict[MessageQueue, int]:
        """Return for each of ``queues`` the number of messages from its position to its end."""
        return await lag_of(self._core, self.queues)

    @property
    def concurrency(self) -> int:
        """The number of listeners that may run at once, by the listener or ``set_concurrency``."""
        return self._pool.concurrency

    def set_concurrency(self, concurrency: int) -> None:
        """Set how many listeners run at once from now on, at least one.

        Where more are running, they finish; none is cancelled.
        """
        check_whole("concurrency", concurrency, least=1)
        self._pool.resize(concurrency)

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pull nothing from ``queues``, or from any queue, until ``resume``.

        The consumer keeps its queues. Messages pulled before still come to the listener; that
        is at most what ``FlowLimits`` let it hold.
        """
        self._core.pauses.pause(None if queues is None else map(self._full, queues))

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Go on with ``queues``; without an argument, end every pause."""
        self._core.pauses.resume(None if queues is None else map(self._full, queues))

    @property
    def paused(self) -> tuple[MessageQueue, ...]:
        """The paused ones among ``queues``."""
        paused = self._core.pauses.now
        return tuple(queue for queue in self.queues if paused.holds(self._full(queue)))


@opener
async def open_push_consumer(
    group: str | None = None,
    *,
    name_servers: NameServersLike = None,
    subscriptions: Mapping[str, Expression],
    listener: Listener | Handle,
    options: PushOptions | None = None,
    dial: Dial = dial_tcp,
    clock_ms: Callable[[], int] = now_ms,
    **settings: Unpack[PushSettings],
) -> AsyncIterator[PushConsumer]:
    """Consume with ``listener`` while the block runs.

    ``subscriptions`` maps topics to tags, ``"*"``, ``"A"``, ``"A || B"``, or to a condition,
    ``Sql("a > 5")``. All consumers of a group must have the same ones. A function for
    ``listener`` is short for ``ConcurrentListener(function)``. Inside the block the
    consumer has its queues, unless a broker could not be asked; then it goes on trying.

    When the block ends, pulling stops, listeners that run may finish (``shutdown_grace_s``),
    progress is reported and awaited, and the brokers are told. When it is left by an error or
    a cancellation, running listeners are cancelled; their messages come again, and what was
    settled before is reported all the same.

    Raises ``InvalidName`` for bad names, ``RefusedByBroker`` from a broker that does not
    filter by SQL. With ``require_route`` raises ``NoRoute`` for a topic without a route, and
    ``BrokerUnreachable`` or ``RequestTimedOut`` if no name server answers.
    """
    group, name_servers, found = connect(group, name_servers, settings, PushOptions)
    options = with_settings(PushOptions, options, found)
    namespace = options.client.namespace
    full_group = in_namespace(namespace, group)
    check_group(full_group)
    check_subscriptions(subscriptions)
    listener = as_listener(listener)
    async with (
        open_client(
            name_servers,
            options.client,
            default_topic=SystemTopic.AUTO_CREATE,  # traces may have to make their topic
            dial=dial,
            clock_ms=clock_ms,
        ) as client,
        open_tracer(client, group, "CONSUME") as tracer,
    ):
        listener = _watched(listener, group, options, tracer, clock_ms)
        parts: PushParts | None = None
        try:
            async with open_quiet_nursery() as nursery:
                parts = assemble(client, full_group, options, listener, nursery)
                core, pool = parts.core, parts.pool
                for topic, expression in subscriptions.items():
                    core.subscribe(in_namespace(namespace, topic), expression)
                core.membership.check_topics()
                await _join(parts, listener, nursery)
                yield PushConsumer(core, pool)
                core.rebalance.stop()
                with trio.move_on_after(options.shutdown_grace_s):
                    await pool.close()
                nursery.cancel_scope.cancel()
        finally:
            if parts is not None:
                await parts.core.leave()
                for leave in parts.leave:
                    await leave()


def _watched(
    listener: Listener,
    group: str,
    options: PushOptions,
    tracer: Tracer | None,
    clock_ms: Callable[[], int],
) -> Listener:
    """Wrap a listener in codec and interceptors, and in hooks, traces and telemetry."""
    handle = inbound(listener.handle, options.interceptors, options.codec, options.decode_errors)
    listener = replace(listener, handle=handle)
    hooks = options.hooks if tracer is None else (*options.hooks, tracer.consume_hook)
    if hooks:
        listener = replace(listener, handle=hooked(listener.handle, group, hooks, clock_ms))
    if options.client.telemetry:
        from .observe._telemetry import traced  # may not be installed

        listener = replace(listener, handle=traced(listener.handle, group))
    return listener


async def _join(parts: PushParts, listener: Listener, nursery: trio.Nursery) -> None:
    """Join the group, and begin to pull."""
    core, pool = parts.core, parts.pool
    core.subscribe_retries()
    answer_brokers(
        core,
        listener,
        is_locked=parts.is_locked,
        concurrency=lambda: pool.concurrency,
    )
    await core.join()
    nursery.start_soon(core.rebalance.run, await core.rebalance.divide())
    for task in (core.changes.run, core.persist_loop, pool.watch, *parts.tasks):
        nursery.start_soon(task)
    nursery.start_soon(report_statistics, core)
