"""Messages that are delivered if, and only if, something else was done.

The broker keeps a *half* message from consumers until the producer says what became of the local
transaction. If it never does, the broker asks any live producer of the group.
Source: RocketMQ 4.9.8, TransactionMQProducer, DefaultMQProducerImpl.sendMessageInTransaction,
checkTransactionState.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final, Unpack, final

from msgspec.structs import replace

from lanemq.wire import RequestCode, SysFlag
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import CheckTransactionState, EndTransaction
from lanemq.wire.message import Property, StoredMessage, decode_message, decode_offset_id

from ._errors import LanemqError, MessageRejected
from ._messages import Message, ReceivedMessage, SendResult, SendStatus
from ._namespace import in_namespace, queue_out
from ._options import ProducerOptions
from ._producer import Producer
from ._unpacking import unpack
from .net._client import Client, now_ms
from .net._discovery import NameServersLike
from .net._link import Dial
from .net._remoting import dial_tcp
from .observe._log import get_logger
from .opening._mistakes import check_awaitable
from .opening._settings import ProducerSettings, with_settings
from .opening._unopened import opener
from .opening._url import connect
from .producer._opening import full_names, opened
from .producer._tracer import Tracer

LOGGER = get_logger("lanemq.sdk.transactions")
CHECKS = get_logger("lanemq.sdk.transactions.checks", by_peers=True)


class TransactionState(Enum):
    """The outcome of a local transaction."""

    COMMIT = SysFlag.TRANSACTION_COMMIT
    """Done: deliver the message."""
    ROLLBACK = SysFlag.TRANSACTION_ROLLBACK
    """Given up for good: forget the message."""
    UNKNOWN = 0
    """Undecided: the broker asks again later, up to 15 times."""


TRACE_NAMES: Final = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}

Execute = Callable[[Message, str], Awaitable[TransactionState]]
"""Does the local transaction of a message whose half is stored: (message, transaction id)."""

Check = Callable[[ReceivedMessage], Awaitable[TransactionState]]
"""Decides about the local transaction of a message; ``message_id`` is its id."""


@final
@dataclass(frozen=True, slots=True)
class TransactionResult:
    """The end of a transaction as seen here. ``state`` UNKNOWN leaves it to the checks."""

    sent: SendResult
    state: TransactionState

    @property
    def transaction_id(self) -> str:
        """The unique key of the message, by which ``check`` knows it too."""
        return self.sent.message_id


@final
class TransactionProducer(Producer):
    """A producer that also sends in transactions; made by `open_transaction_producer`."""

    def __init__(
        self,
        client: Client,
        group: str,
        options: ProducerOptions,
        tracer: Tracer | None,
        check: Check,
    ) -> None:
        super().__init__(client, group, options, tracer)
        self._check = check
        client.remoting.handle(RequestCode.CHECK_TRANSACTION_STATE, self._answer_check)

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
        check_awaitable(execute, "the local transaction")
        if message.is_delayed:
            raise MessageRejected("a message of a transaction cannot be delayed")
        sent = await self._send_half(message, timeout_s)
        if sent.status is not SendStatus.OK:
            state = TransactionState.ROLLBACK
            await self._end(message, sent, state, None)
            return TransactionResult(sent, state)
        try:
            state = await execute(message, sent.message_id)
        except Exception as error:  # the application's own
            await self._end(message, sent, TransactionState.UNKNOWN, error)
            raise
        state = _checked(state)
        await self._end(message, sent, state, None)
        return TransactionResult(sent, state)

    async def _end(
        self, message: Message, sent: SendResult, state: TransactionState, error: Exception | None
    ) -> None:
        header = EndTransaction(
            producer_group=self.group,
            tran_state_table_offset=(
                sent.queue_offset if sent.origin_offset is None else sent.origin_offset
            ),
            commit_log_offset=decode_offset_id(sent.offset_id)[1],
            commit_or_rollback=state.value,
            msg_id=sent.message_id,
            transaction_id=sent.transaction_id or sent.message_id,
            topic=in_namespace(self._client.options.namespace, message.topic),
        )
        address = self._client.routes.master((sent.origin or sent.queue).broker_name)
        if address is None:
            LOGGER.warning("%s: its broker is gone; the broker will ask about it", sent.message_id)
            return
        await self._tell(address, header, error)
        self._trace(message, sent.message_id, state, address)

    async def _tell(self, address: str, header: EndTransaction, error: Exception | None) -> None:
        """Send 37; the broker asks again where it is lost."""
        remark = None if error is None else f"{type(error).__name__}: {error}"
        frame = request(RequestCode.END_TRANSACTION, header.to_fields(), oneway=True)
        try:
            await self._client.remoting.oneway(address, replace(frame, remark=remark))
        except LanemqError as failure:
            LOGGER.warning("%s: its broker could not be told its end: %s", header.msg_id, failure)

    def _trace(
        self,
        message: Message | ReceivedMessage,
        message_id: str,
        state: TransactionState,
        address: str,
    ) -> None:
        if self._tracer is not None:
            self._tracer.transaction_ended(message, message_id, TRACE_NAMES[state], address)

    # The broker's checks

    async def _answer_check(self, frame: Frame, address: str) -> None:
        """Tell the broker the state of a transaction: CHECK_TRANSACTION_STATE (39)."""
        header = CheckTransactionState.from_fields(frame.fields)
        stored = decode_message(frame.body)
        properties = stored.properties
        group = properties.get(Property.PGROUP)
        if group != self.group:
            CHECKS.warning("%s asked for a transaction of group %s", address, group)
            return
        message = self._received(stored)
        await unpack((message,))
        state, error = await self._ask(message)
        await self._tell(
            address,
            EndTransaction(
                producer_group=group,
                tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset,
                commit_or_rollback=state.value,
                from_transaction_check=True,
                msg_id=message.message_id,
                transaction_id=header.transaction_id,
                topic=stored.topic,
            ),
            error,
        )
        self._trace(message, message.message_id, state, address)

    def _received(self, stored: StoredMessage) -> ReceivedMessage:
        """Return the half message; its queue is the one it was sent to, at a broker of unknown
        name."""
        namespace = self._client.options.namespace
        queue = MessageQueue(stored.topic, "", stored.queue_id)
        return ReceivedMessage(stored, queue_out(namespace, queue), namespace)

    async def _ask(self, message: ReceivedMessage) -> tuple[TransactionState, Exception | None]:
        try:
            state = await self._check(message)
        except Exception as error:  # the application's own
            CHECKS.exception("the check of %s failed; it will be asked for again", message)
            return TransactionState.UNKNOWN, error
        return _checked(state), None


def _checked(state: object) -> TransactionState:
    """Return what an application's function returned; not all applications check their types."""
    if isinstance(state, TransactionState):
        return state
    LOGGER.error("%r is not a TransactionState; treated as UNKNOWN", state)
    return TransactionState.UNKNOWN


@opener
async def open_transaction_producer(
    group: str | None = None,
    *,
    check: Check,
    name_servers: NameServersLike = None,
    topics: Iterable[str] = (),
    options: ProducerOptions | None = None,
    dial: Dial = dial_tcp,
    clock_ms: Callable[[], int] = now_ms,
    **settings: Unpack[ProducerSettings],
) -> AsyncIterator[TransactionProducer]:
    """Open a producer of transactions of ``group``.

    ``check`` is awaited when a broker asks for the state of a transaction, which may be one of
    another producer of the group, of another process, or of before a restart: it must look it
    up where the local transaction left its mark.

    Inside the block the brokers of ``topics`` know this producer, so that they can ask it even
    if it never sends; without ``topics`` these are all brokers of the cluster. Name the topics
    of the group's transactions where a cluster is large. A broker that cannot be reached is
    tried again. Other arguments are those of `open_producer`.
    """
    check_awaitable(check, "check")
    group, name_servers, found = connect(group, name_servers, settings, ProducerOptions)
    options = with_settings(ProducerOptions, options, found)
    names = full_names(topics, options)
    make = partial(TransactionProducer, check=check)
    async with opened(make, group, name_servers, options, dial, clock_ms) as producer:
        if names:
            await producer._client.connect(names)
        else:
            await producer._client.connect_to_cluster()
        yield producer
