"""Generated from lanemq.sdk by sdk/tools/generate_faces.py."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import final

from lanemq.wire.bodies import MessageQueue

from .. import _batching_sender as _core_batching_sender
from .. import _producer as _core_producer
from .. import _staged_producer as _core_staged_producer
from .. import _transactions as _core_transactions
from .._messages import Message, ReceivedMessage, SendResult
from .._producer import BATCH_BYTES
from .._transactions import Execute, TransactionResult
from ..producer._on_sent import OnSent
from ..producer._selectors import Target
from ._bridge import Bridge


@final
class StagedSender:
    """Takes messages in the order of their stages; made by ``Producer.staged``."""

    def __init__(self, core: _core_staged_producer.StagedSender, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge

    @property
    def number(self) -> int:
        """The number of messages taken so far."""
        return self._core.number

    @property
    def queue(self) -> MessageQueue | None:
        """The queue that all messages go to; None before the first."""
        return self._core.queue

    async def send(self, message: Message) -> str:
        """Send the next message; return its unique key once it is on its way.

        The first message of a stage waits until all of the stage before are stored; any waits
        while ``concurrency`` others are on their way. Whether a message arrived is known when
        its stage ends: at the first message of the next one, or at the end of the block.

        Raises ``StagedSendFailed`` there; then nothing more can be sent. Raises
        ``MessageRejected`` and ``InvalidName`` for a message that cannot be sent as it is; such
        a one is not counted.
        """
        return await self._bridge.call(self._core.send, message)

    async def wait(self) -> None:
        """Wait until everything taken so far is stored. Raises ``StagedSendFailed``."""
        await self._bridge.call(self._core.wait)


@final
class BatchingSender:
    """Sends messages in batches of one topic; made by `Producer.batching`.

    Any number of tasks may use it at once.
    """

    def __init__(self, core: _core_batching_sender.BatchingSender, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge

    @property
    def pending(self) -> int:
        """The number of messages that are neither stored nor failed yet."""
        return self._core.pending

    async def send(self, message: Message, *, queue_key: str | int | None = None) -> SendResult:
        """Send a message with others of its topic; wait until it is stored.

        The result is this message's own. Messages with one ``queue_key`` go to one queue, in order.
        One with a delay is sent by itself. Waits for room first. Raises as ``Producer.send``; a
        failure is that of the whole batch. A cancelled call leaves its message to be sent.
        """
        return await self._bridge.call(self._core.send, message, queue_key=queue_key)

    async def post(
        self, message: Message, *, queue_key: str | int | None = None, on_sent: OnSent | None = None
    ) -> None:
        """Leave a message to be sent; wait only for room.

        ``on_sent`` is called with the message and its result, or its error; without it, the next
        ``flush`` or the end of the block raises that. Raises ``MessageRejected``, ``InvalidName``.
        """
        await self._bridge.call(
            self._core.post, message, queue_key=queue_key, on_sent=self._bridge.on_sent(on_sent)
        )

    async def flush(self) -> None:
        """Send what lingers, and wait until everything sent before has a result.

        Raises ``BatchingFailed`` if posted messages could not be sent; it has them all.
        """
        await self._bridge.call(self._core.flush)


class Producer:
    """Sends messages; made by `open_producer`. Any number of tasks may use it at once."""

    def __init__(self, core: _core_producer.Producer, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.group: str = core.group
        """The group it was opened for."""
        self.client_id: str = core.client_id
        """The id by which brokers know this producer."""

    def __repr__(self) -> str:
        return repr(self._core)

    async def close(self) -> None:
        """Close this client as the end of its `async with` block does; a repeat is harmless."""
        await self._bridge.close()

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
        return await self._bridge.send(
            self._core, message, queue=queue, queue_key=queue_key, timeout_s=timeout_s
        )

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
        return await self._bridge.call(
            self._core.send_batch, messages, queue=queue, queue_key=queue_key, timeout_s=timeout_s
        )

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
        return await self._bridge.call(
            self._core.send_batches,
            messages,
            batch_bytes=batch_bytes,
            queue=queue,
            queue_key=queue_key,
            timeout_s=timeout_s,
        )

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Recall a message by ``SendResult.recall_handle``; returns its key. Raises as ``send``."""
        return await self._bridge.call(self._core.recall, topic, recall_handle)

    async def send_oneway(
        self, message: Message, *, queue: Target | None = None, queue_key: str | int | None = None
    ) -> str:
        """Send one message without waiting for an answer; return its unique key.

        It may be lost without notice. Raises as ``send`` where it could not even be written.
        """
        return await self._bridge.call(
            self._core.send_oneway, message, queue=queue, queue_key=queue_key
        )

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
        return await self._bridge.call(
            self._core.request, message, queue=queue, queue_key=queue_key, timeout_s=timeout_s
        )

    async def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that a message of ``topic`` may be sent to.

        For a topic that does not exist yet: those it would get. Raises ``NoRoute``,
        ``BrokerUnreachable``, ``RequestTimedOut``.
        """
        return await self._bridge.call(self._core.publish_queues, topic)

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
        return self._bridge.open(
            StagedSender,
            self._core.staged,
            queue_key,
            definitions,
            concurrency=concurrency,
            attempts=attempts,
        )

    def batching(
        self,
        *,
        linger_s: float = 0.005,
        batch_messages: int = 500,
        batch_bytes: int = BATCH_BYTES,
        pending_messages: int = 10000,
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
        return self._bridge.open(
            BatchingSender,
            self._core.batching,
            linger_s=linger_s,
            batch_messages=batch_messages,
            batch_bytes=batch_bytes,
            pending_messages=pending_messages,
            pending_bytes=pending_bytes,
        )


@final
class TransactionProducer(Producer):
    """A producer that also sends in transactions; made by `open_transaction_producer`."""

    def __init__(self, core: _core_transactions.TransactionProducer, bridge: Bridge) -> None:
        super().__init__(core, bridge)
        self._core: _core_transactions.TransactionProducer = core

    async def send_in_transaction(
        self, message: Message, execute: Execute, *, timeout_s: float | None = None
    ) -> TransactionResult:
        """Store the half message, await ``execute``, and tell the broker what it returned.

        When ``execute`` raises, the state is UNKNOWN, since it may have got far enough; the
        exception leaves this call after the broker was told. After a cancellation the broker is
        not told, and asks. A half message that was stored less safely than asked for is rolled
        back without ``execute`` being called.

        Raises as ``Producer.send``, before ``execute`` is called; ``RefusedByBroker`` from
        brokers without transactions. Telling the broker may fail unnoticed: it asks then.
        """
        return await self._bridge.call(
            self._core.send_in_transaction,
            message,
            self._bridge.callback(execute),
            timeout_s=timeout_s,
        )
