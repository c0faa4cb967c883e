"""The push consumer: messages come to a listener.

Source: RocketMQ 4.9.8, DefaultMQPushConsumer.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import final

import trio

from lanemq.wire import ConsumeType, MessageQueue, SystemTopic

from ._client import Client, now_ms, open_client
from ._consume_hooks import hooked
from ._consumer_core import ConsumerCore
from ._consumer_requests import Listener, answer_brokers
from ._discovery import NameServersLike
from ._errors import InvalidName
from ._expressions import Expression
from ._held_queue import HeldQueue
from ._link import Dial
from ._listener import ConcurrentListener
from ._listener_pool import ListenerPool
from ._log import get_logger
from ._messages import ReceivedMessage
from ._namespace import in_namespace, queue_in, queue_out
from ._options import PushOptions
from ._ordered_consumer import OrderedConsumer, assemble_ordered, without_stages
from ._ordered_listeners import StagedConcurrentListener
from ._ordered_pool import OrderedPool
from ._pull_loop import Deliver
from ._remoting import dial_tcp
from ._send_back import SendBack
from ._tasks import open_quiet_nursery
from ._tracer import open_tracer
from ._validate import check_group

LOGGER = get_logger("lanemq.sdk.consumer")

# Neither a send-back nor a copy worked: the listener gets the messages again after this.
LOCAL_RETRY_S = 5.0
NO_LIMIT = 2**31 - 1  # of deliveries; a Java int


@final
class PushConsumer:
    """A consumer at work; made by `open_push_consumer`, ends with its block."""

    def __init__(self, core: ConsumerCore, pool: ListenerPool | OrderedPool) -> None:
        self._core = core
        self._pool = pool

    @property
    def client_id(self) -> str:
        """By which brokers and the group know this consumer."""
        return self._core.client.client_id

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues it reads at the moment, sorted."""
        held, namespace = self._core.membership.held, self._core.client.options.namespace
        return tuple(sorted(queue_out(namespace, queue) for queue in held))

    def _full(self, queue: MessageQueue) -> MessageQueue:
        return queue_in(self._core.client.options.namespace, queue)

    def committed_offset(self, queue: MessageQueue) -> int | None:
        """How far ``queue`` is settled (the next offset to read), or None if nothing is."""
        return self._core.offsets.get(self._full(queue))

    @property
    def concurrency(self) -> int:
        """How many listeners may run at once, as the listener or ``set_concurrency`` said."""
        return self._pool.concurrency

    def set_concurrency(self, concurrency: int) -> None:
        """Let so many listeners run at once from now on, at least one.

        Where more are running, they finish; none is cancelled.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {concurrency}")
        self._pool.resize(concurrency)

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pull nothing from ``queues``, or from any queue, until ``resume``.

        The consumer keeps its queues. What was pulled before still comes to the listener; that
        is at most what ``FlowLimits`` let it hold.
        """
        self._core.pauses.pause(None if queues is None else map(self._full, queues))

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Go on with ``queues``; without an argument, end every pause."""
        self._core.pauses.resume(None if queues is None else map(self._full, queues))

    @property
    def paused(self) -> tuple[MessageQueue, ...]:
        """Those of ``queues`` that are paused."""
        pauses = self._core.pauses
        return tuple(queue for queue in self.queues if pauses.hold(self._full(queue)))


@final
class _Settling:
    """What becomes of messages once their listener has returned."""

    def __init__(
        self, core: ConsumerCore, send_back: SendBack, options: PushOptions, deliver: Deliver
    ) -> None:
        self._core = core
        self._send_back = send_back
        self._options = options
        self._deliver = deliver

    def succeed(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        held.settle(messages)
        self._core.offsets.update(held.queue, held.messages.commit_offset)

    async def retry(
        self, held: HeldQueue, messages: Sequence[ReceivedMessage], timed_out: bool
    ) -> None:
        if self._core.broadcasting:
            LOGGER.warning("a broadcasting group delivers nothing again; dropped: %s", messages)
            self.succeed(held, messages)
            return
        level = self._options.consume_timeout_delay_level if timed_out else 0
        kept = []
        for message in messages:
            if not await self._send_back.send(message, delay_level=level):
                kept.append(message)
        if held.dropped:
            return
        self.succeed(held, [message for message in messages if message not in kept])
        if kept:
            self._core.nursery.start_soon(self._later, held, kept)

    async def _later(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        await trio.sleep(LOCAL_RETRY_S)
        if not held.dropped:
            self._deliver(held, messages)


def _assemble(
    client: Client,
    group: str,
    options: PushOptions,
    listener: Listener,
    nursery: trio.Nursery,
) -> tuple[ConsumerCore, ListenerPool | OrderedConsumer]:
    """Tie pulls, listener and progress together."""
    if isinstance(listener, StagedConcurrentListener) and not listener.stages:
        times = listener.max_reconsume_times
        options = replace(options, max_reconsume_times=NO_LIMIT if times is None else times)
        return _assemble_concurrent(client, group, options, without_stages(listener), nursery)
    if isinstance(listener, ConcurrentListener):
        return _assemble_concurrent(client, group, options, lambda _: listener, nursery)
    return assemble_ordered(client, group, options, listener, nursery)


def _assemble_concurrent(
    client: Client,
    group: str,
    options: PushOptions,
    listener_of: Callable[[ConsumerCore], ConcurrentListener],
    nursery: trio.Nursery,
) -> tuple[ConsumerCore, ListenerPool]:
    """The pool is made last: it needs the core."""
    pool: ListenerPool

    def deliver(held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        pool.submit(held, messages)

    core = ConsumerCore(
        client,
        group,
        options,
        nursery,
        consume_type=ConsumeType.PASSIVELY,
        batch=options.pull_batch,
        deliver=deliver,
    )
    send_back = SendBack(client, core.calls, group, max_reconsume_times=options.max_reconsume_times)
    settling = _Settling(core, send_back, options, deliver)
    pool = ListenerPool(
        nursery,
        listener_of(core),
        succeed=settling.succeed,
        retry=settling.retry,
        stats=core.topic_stats,
        clock_ms=client.clock_ms,
        timeout_s=options.consume_timeout_s,
    )
    return core, pool


@asynccontextmanager
async def open_push_consumer(
    group: str,
    *,
    name_servers: NameServersLike = None,
    subscriptions: Mapping[str, Expression],
    listener: Listener,
    options: PushOptions | None = None,
    dial: Dial = dial_tcp,
    clock_ms: Callable[[], int] = now_ms,
) -> AsyncIterator[PushConsumer]:
    """Consume with ``listener`` while the block runs.

    ``subscriptions`` maps topics to tags, ``"*"``, ``"A"``, ``"A || B"``, or to a condition,
    ``Sql("a > 5")``. All consumers of a group must have the same ones. Inside the block the
    consumer has its queues, unless a broker could not be asked; then it goes on trying.

    When the block ends, pulling stops, listeners that run may finish (``shutdown_grace_s``),
    progress is reported and awaited, and the brokers are told. When it is left by an error or
    a cancellation, running listeners are cancelled; their messages come again, and what was
    settled before is reported all the same.

    Raises ``InvalidName`` for bad names, ``RefusedByBroker`` from a broker that does not
    filter by SQL, ``BrokerUnreachable`` or ``RequestTimedOut`` if no name server answers.
    """
    options = options or PushOptions()
    namespace = options.client.namespace
    full_group = in_namespace(namespace, group)
    check_group(full_group)
    if not subscriptions:
        raise InvalidName("a consumer needs at least one subscription, as {'my-topic': '*'}")
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
        hooks = options.hooks if tracer is None else (*options.hooks, tracer.consume_hook)
        if hooks:
            handle = hooked(listener.handle, group, hooks, clock_ms)
            listener = replace(listener, handle=handle)
        if options.client.telemetry:
            from ._telemetry import traced  # may not be installed

            listener = replace(listener, handle=traced(listener.handle, group))
        core: ConsumerCore | None = None
        pool: ListenerPool | OrderedConsumer | None = None
        try:
            async with open_quiet_nursery() as nursery:
                core, pool = _assemble(client, full_group, options, listener, nursery)
                for topic, expression in subscriptions.items():
                    core.subscribe(in_namespace(namespace, topic), expression)
                core.subscribe_retries()
                is_locked = pool.owns if isinstance(pool, OrderedConsumer) else None
                workers = pool.pool if isinstance(pool, OrderedConsumer) else pool
                answer_brokers(
                    core, listener, is_locked=is_locked, concurrency=lambda: workers.concurrency
                )
                await core.join()
                nursery.start_soon(core.membership.run, await core.membership.rebalance())
                nursery.start_soon(core.persist_loop)
                nursery.start_soon(pool.watch)
                yield PushConsumer(core, workers)
                core.membership.stop()
                with trio.move_on_after(options.shutdown_grace_s):
                    await pool.close()
                nursery.cancel_scope.cancel()
        finally:
            if core is not None:
                await core.leave()
            if isinstance(pool, OrderedConsumer):
                await pool.leave()
