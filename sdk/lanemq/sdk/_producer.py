"""The producer, with which applications send messages.

Source: RocketMQ 4.9.8, DefaultMQProducer.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Unpack

import trio

from lanemq.wire.bodies import MessageQueue

from ._batching_sender import BatchingLimits, BatchingSender, open_batching_sender
from ._errors import ClientClosed, LanemqError, NoReply
from ._messages import Message, ReceivedMessage, SendResult
from ._options import ProducerOptions
from ._staged_producer import StagedSender, open_staged_sender
from ._validate import check_send_topic
from ._values import check_seconds
from .net._client import Client, now_ms
from .net._discovery import NameServersLike
from .net._link import Dial
from .net._remoting import dial_tcp
from .opening._settings import ProducerSettings, with_settings
from .opening._unopened import opener
from .opening._url import connect
from .producer._batches import prepare_batch, prepare_batches
from .producer._opening import full_names, opened
from .producer._outgoing import Outgoing, prepare, seconds_within
from .producer._recall import recall
from .producer._request_reply import REPLY_S_MAX, Replies, as_request
from .producer._selectors import Target, target_of
from .producer._sender import Sender
from .producer._tracer import Tracer

BATCH_BYTES = 1 << 20


class Producer:
    """Sends messages; made by `open_producer`. Any number of tasks may use it at once."""

    def __init__(
        self, client: Client, group: str, options: ProducerOptions, tracer: Tracer | None
    ) -> None:
        self.group = group
        """The group it was opened for."""
        self.client_id: str = client.client_id
        """The id by which brokers know this producer."""
        self._client = client
        self._options = options
        self._tracer = tracer
        hooks = options.hooks if tracer is None else (*options.hooks, tracer.send_hook)
        self._sender = Sender(client, group, options, hooks)
        self._first_attempt = self._sender.firsts.prepare  # of a ``send``, for any thread
        self._replies = Replies(client)
        self._closed = False
        client.add_producer(group)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"knows {len(self._client.routes.watched)} topics"
        return f"<{type(self).__name__} of group {self.group!r}, {self.client_id}, {state}>"

    async def send(
        self,
        message: Message,
        *,
        queue: Target | None = None,
        queue_key: str | int | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send one message and wait until its broker has stored it.

        Without ``queue`` the queues of the topic take turns, and a failed attempt is repeated
        on another broker (``ProducerOptions.retries``), all within ``timeout_s`` seconds
        (``send_timeout_s`` by default). With a ``queue``, or one that a `QueueSelector`
        chooses, there is one attempt, there. ``queue_key`` is short for
        ``queue=HashSelector(queue_key)``: messages of one key keep their order.

        Raises ``MessageRejected`` and ``InvalidName`` before anything is sent, ``NoRoute``,
        ``RefusedByBroker``, ``BrokerUnreachable`` and ``RequestTimedOut``. After the last two,
        and after a cancellation, the message may or may not have been stored.
        """
        outgoing = self._prepared(message)
        target = None
        if queue is not None or queue_key is not None:
            target = target_of(queue, queue_key, message)
        return await self._sender.send(outgoing, target, seconds_within(timeout_s, self._options))

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: Target | None = None,
        queue_key: str | int | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send messages of one topic as one request: all of them are stored, or none.

        They take consecutive places in one queue. Arguments and errors are those of ``send``
        (a selector is shown the first message); together they may have at most
        ``message_bytes_max`` bytes.
        """
        client, options = self._client, self._options
        messages = self._outbound(messages)
        outgoing = prepare_batch(messages, options, client.unique_keys, client.clock_ms())
        target = target_of(queue, queue_key, messages[0])
        return await self._sender.send(outgoing, target, seconds_within(timeout_s, self._options))

    async def send_batches(
        self,
        messages: Sequence[Message],
        *,
        batch_bytes: int = BATCH_BYTES,
        queue: Target | None = None,
        queue_key: str | int | None = None,
        timeout_s: float | None = None,
    ) -> list[SendResult]:
        """Send any number of messages of one topic, in as few batches as hold them.

        Batches have at most ``batch_bytes`` bytes each (1 MiB, and never more than
        ``message_bytes_max``); each is stored whole or not at all, in order, one after the
        other, within ``timeout_s`` seconds each. Nothing is sent if one of the messages cannot
        be. An error in between has a note that says how many messages were stored before it.
        """
        client, options = self._client, self._options
        within_s = seconds_within(timeout_s, options)
        messages = self._outbound(messages)
        batches = prepare_batches(
            messages,
            options,
            client.unique_keys,
            client.clock_ms(),
            batch_bytes=min(batch_bytes, options.message_bytes_max),
        )
        target = target_of(queue, queue_key, messages[0])
        results: list[SendResult] = []
        stored = 0
        for outgoing in batches:
            try:
                results.append(await self._sender.send(outgoing, target, within_s))
            except LanemqError as error:
                error.add_note(f"{stored} of {len(messages)} messages had been stored before")
                raise
            stored += outgoing.message_id.count(",") + 1
        return results

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Recall a message by ``SendResult.recall_handle``; returns its key. Raises as ``send``."""
        if self._closed:
            raise ClientClosed("producer")
        return await recall(self._client, self.group, self._options, topic, recall_handle)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: Target | None = None,
        queue_key: str | int | None = None,
    ) -> str:
        """Send one message without waiting for an answer; return its unique key.

        It may be lost without notice. Raises as ``send`` where it could not even be written.
        """
        outgoing = self._prepared(message)
        await self._sender.send_oneway(outgoing, target_of(queue, queue_key, message))
        return outgoing.message_id

    async def request(
        self,
        message: Message,
        *,
        queue: Target | None = None,
        queue_key: str | int | None = None,
        timeout_s: float = 3.0,
    ) -> ReceivedMessage:
        """Send a message and wait until one of its consumers replies (see `reply_to`).

        Raises ``NoReply`` when the message was stored and no reply came within ``timeout_s``
        seconds, all together; otherwise as ``send``.
        """
        if self._closed:
            raise ClientClosed("producer")
        check_seconds("timeout_s", timeout_s, zero=True, most_s=REPLY_S_MAX)
        deadline_s = trio.current_time() + timeout_s
        with self._replies.expect(timeout_s) as expected:
            message = as_request(message, expected)
            outgoing = self._prepared(message)
            with trio.move_on_at(deadline_s):
                await self._introduce(message.topic)
            target = target_of(queue, queue_key, message)
            left_s = max(0.0, deadline_s - trio.current_time())
            await self._sender.send(outgoing, target, left_s)
            with trio.move_on_at(deadline_s):
                return await expected.wait()
        raise NoReply(message.topic, timeout_s)

    async def _send_half(self, message: Message, timeout_s: float | None) -> SendResult:
        """Store a half message, which becomes a message when its transaction is committed."""
        outgoing = self._prepared(message)
        outgoing.make_half(self.group)
        deadline_s = trio.current_time() + seconds_within(timeout_s, self._options)
        with trio.move_on_at(deadline_s):
            await self._introduce(message.topic)
        return await self._sender.send(outgoing, None, max(0.0, deadline_s - trio.current_time()))

    def _outbound(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages as they are sent: past interceptors and codec."""
        if self._closed:
            raise ClientClosed("producer")
        return self._options.outbound(messages)

    def _prepared(self, message: Message) -> Outgoing:
        (message,) = self._outbound((message,))
        client = self._client
        return prepare(message, self._options, client.unique_keys, client.clock_ms())

    async def _introduce(self, topic: str) -> None:
        """Make this producer known to the brokers of ``topic`` before it needs them to know it."""
        await self._sender.route(topic)
        await self._client.introduce()

    async def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that a message of ``topic`` may be sent to.

        For a topic that does not exist yet: those it would get. Raises ``NoRoute``,
        ``BrokerUnreachable``, ``RequestTimedOut``.
        """
        if self._closed:
            raise ClientClosed("producer")
        check_send_topic(topic)
        return (await self._sender.route(topic)).publish_queues

    def staged(
        self,
        queue_key: str | int | MessageQueue,
        definitions: Iterable[int],
        *,
        concurrency: int = 64,
        attempts: int = 5,
    ) -> AbstractAsyncContextManager[StagedSender]:
        """Send messages of one topic to one queue, stage by stage.

        ``async with producer.staged("prizes", [10, 20, 70]) as stage: await stage.send(...)``
        sends the first 10 messages at once, up to ``concurrency`` of them, and begins with the
        next 20 when all of them are stored; what follows the last stage has no order. The queue
        is that of ``queue_key``'s hash, or ``queue_key`` itself. A send that fails retriably is
        repeated inside its stage, ``attempts`` times in all; a message whose answer was lost
        may be stored twice, and then counts twice.

        The block ends when everything is stored. Raises ``StagedSendFailed`` at the end of the
        stage in which a message failed for good, and ``ValueError`` for sizes below 1.
        """
        return open_staged_sender(
            self._client,
            self._sender,
            self._options,
            queue_key=queue_key,
            definitions=definitions,
            concurrency=concurrency,
            attempts=attempts,
            is_closed=lambda: self._closed,
        )

    def batching(
        self,
        *,
        linger_s: float = 0.005,
        batch_messages: int = 500,
        batch_bytes: int = BATCH_BYTES,
        pending_messages: int = 10_000,
        pending_bytes: int = 32 << 20,
    ) -> AbstractAsyncContextManager[BatchingSender]:
        """Collect messages of many tasks and store those of a topic in batches.

        ``async with producer.batching() as sender: await sender.send(message)``. A batch goes
        when its first message has waited for ``linger_s`` seconds, or when it has
        ``batch_messages`` messages or ``batch_bytes`` bytes, and only after the batch before it;
        messages that come meanwhile make the next one. A call waits while ``pending_messages``
        or ``pending_bytes`` are not stored yet. The block ends when everything has a result.
        When it is left by an error or a cancellation, what was not sent is dropped.
        """
        return open_batching_sender(
            self._client,
            self._sender,
            self._options,
            limits=BatchingLimits(
                linger_s=linger_s,
                batch_messages=batch_messages,
                batch_bytes=batch_bytes,
                pending_messages=pending_messages,
                pending_bytes=pending_bytes,
            ),
            is_closed=lambda: self._closed,
        )

    def _close(self) -> None:
        self._closed = True
        self._sender.firsts.close()


@opener
async def open_producer(
    group: str | None = None,
    *,
    name_servers: NameServersLike = None,
    topics: Iterable[str] = (),
    options: ProducerOptions | None = None,
    dial: Dial = dial_tcp,
    clock_ms: Callable[[], int] = now_ms,
    **settings: Unpack[ProducerSettings],
) -> AsyncIterator[Producer]:
    """Open a producer of ``group``, which a connection string may name.

    It connects to the brokers of ``topics`` before anything is sent, so that the first sends
    need not wait for that and ``producerConnection`` lists it; to those of other topics with
    the first message for them. An unreachable broker is tried again, and is not an error.

    ``name_servers`` are addresses, as ``"10.0.0.1:9876;10.0.0.2:9876"`` or a sequence, or an
    endpoint that lists them, ``"http://host/path"``, or a connection string,
    ``"rocketmq://host:port/?group=…"``; without any the environment variables ``LANEMQ_URL`` and
    ``NAMESRV_ADDR`` say. ``settings`` are single options, those of `ProducerOptions`,
    `ClientOptions` and `RemotingOptions`, as ``send_timeout_s=5``. ``dial`` and ``clock_ms``
    are the seams to network and time of day, for tests.

    Raises ``InvalidName`` for a bad group or address.
    """
    group, name_servers, found = connect(group, name_servers, settings, ProducerOptions)
    options = with_settings(ProducerOptions, options, found)
    names = full_names(topics, options)
    async with opened(Producer, group, name_servers, options, dial, clock_ms) as producer:
        if names:
            await producer._client.connect(names)
        yield producer
