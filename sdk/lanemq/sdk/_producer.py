"""The producer: what applications send with.

Source: RocketMQ 4.9.8, DefaultMQProducer.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import final

from lanemq.wire import MessageQueue

from ._client import Client, now_ms, open_client
from ._errors import ClientClosed, InvalidName
from ._link import Dial
from ._messages import Message, SendResult
from ._options import ProducerOptions
from ._outgoing import prepare, prepare_batch
from ._remoting import dial_tcp
from ._sender import Sender
from ._staged_producer import StagedSender, open_staged_sender
from ._validate import check_group, check_send_topic


@final
class Producer:
    """Sends messages; made by `open_producer`. Any number of tasks may use it at once."""

    def __init__(self, client: Client, group: str, options: ProducerOptions) -> None:
        self._client = client
        self._options = options
        self._sender = Sender(client, group, options)
        self._closed = False
        client.add_producer(group)

    @property
    def client_id(self) -> str:
        """By which brokers know this producer."""
        return self._client.client_id

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send one message and wait until its broker has stored it.

        Without ``queue`` the queues of the topic take turns, and a failed attempt is repeated
        on another broker (``ProducerOptions.retries``), all within ``timeout_s`` seconds
        (``send_timeout_s`` by default). With ``queue`` there is one attempt, there.

        Raises ``MessageRejected`` and ``InvalidName`` before anything is sent, ``NoRoute``,
        ``RefusedByBroker``, ``BrokerUnreachable`` and ``RequestTimedOut``. After the last two,
        and after a cancellation, the message may or may not have been stored.
        """
        if self._closed:
            raise ClientClosed("producer")
        client, options = self._client, self._options
        outgoing = prepare(message, options, client.unique_keys, client.clock_ms())
        if queue is not None:
            _check_queue(queue, message.topic)
        return await self._sender.send(
            outgoing, queue, options.send_timeout_s if timeout_s is None else timeout_s
        )

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send messages of one topic as one request: all of them are stored, or none.

        They take consecutive places in one queue. Arguments and errors are those of ``send``;
        together they may have at most ``message_bytes_max`` bytes.
        """
        if self._closed:
            raise ClientClosed("producer")
        client, options = self._client, self._options
        outgoing = prepare_batch(messages, options, client.unique_keys, client.clock_ms())
        if queue is not None:
            _check_queue(queue, outgoing.topic)
        return await self._sender.send(
            outgoing, queue, options.send_timeout_s if timeout_s is None else timeout_s
        )

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> str:
        """Send one message without waiting for an answer; return its unique key.

        It may be lost without notice. Raises as ``send`` where it could not even be written.
        """
        if self._closed:
            raise ClientClosed("producer")
        client = self._client
        outgoing = prepare(message, self._options, client.unique_keys, client.clock_ms())
        if queue is not None:
            _check_queue(queue, message.topic)
        await self._sender.send_oneway(outgoing, queue)
        return outgoing.message_id

    async def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that a message of ``topic`` may be sent to.

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

    def _close(self) -> None:
        self._closed = True


def _check_queue(queue: MessageQueue, topic: str) -> None:
    if queue.topic != topic:
        raise InvalidName(f"the queue belongs to topic {queue.topic}, the message to {topic}")


@asynccontextmanager
async def open_producer(
    group: str,
    *,
    name_servers: str | Sequence[str],
    options: ProducerOptions | None = None,
    dial: Dial = dial_tcp,
    clock_ms: Callable[[], int] = now_ms,
) -> AsyncIterator[Producer]:
    """Open a producer of ``group``; nothing is sent before the first message.

    ``name_servers`` are addresses, as ``"10.0.0.1:9876;10.0.0.2:9876"`` or a sequence. ``dial``
    and ``clock_ms`` are the seams to network and time of day, for tests.

    Raises ``InvalidName`` for a bad group or address.
    """
    check_group(group)
    options = options or ProducerOptions()
    async with open_client(
        name_servers,
        options.client,
        default_topic=options.default_topic,
        default_topic_queues=options.default_topic_queues,
        dial=dial,
        clock_ms=clock_ms,
    ) as client:
        producer = Producer(client, group, options)
        try:
            yield producer
        finally:
            producer._close()
