"""Dead letters of a group: why they died, and sending them to their group again."""

from collections.abc import AsyncGenerator, Container
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count

from lanemq.wire import LONG_MAX, RequestCode, SysFlag, SystemGroup, dlq_topic, retry_topic
from lanemq.wire.headers import SendMessage
from lanemq.wire.message import Property, StoredMessage, encode_properties

from .._errors import LanemqError, WrongUse
from .._values import check_text, check_whole
from ..net._client import now_ms
from ._client import AdminClient, queues_of
from .requests._messages import message_id

PAGE = 32
# Made for the deliveries that failed; they would mislead the next.
DROPPED = (
    Property.DLQ_REASON,
    Property.DLQ_ATTEMPTS,
    Property.DELAY,
    Property.REAL_TOPIC,
    Property.REAL_QID,
    Property.TRAN_MSG,
    Property.WAIT,
    Property.RECONSUME_TIME,
    Property.MAX_RECONSUME_TIMES,
    Property.CONSUME_START_TIME,
    Property.CRC32,
)


class DeadLettersUnreadable(WrongUse):
    """The dead-letter topic of a group lets nobody read, as brokers make it."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"{topic} may not be read: set its permission to 6 first")
        self.topic = topic


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a group gave up."""

    message: StoredMessage
    """The record in the group's dead-letter topic."""
    message_id: str
    """The id that its producer got."""
    topic: str
    """The topic that it was sent to."""
    reason: str | None
    """The first line of the last error; None where another client gave it up."""
    attempts: int
    """The deliveries before it was given up."""


async def dead_letters_of(
    admin: AdminClient,
    group: str,
    *,
    begin_ms: int = 0,
    end_ms: int = LONG_MAX,
    max_count: int = 1000,
) -> list[DeadLetter]:
    """Return the dead letters of ``group``, at most ``max_count``, queue by queue from the oldest.

    Only those that were stored from ``begin_ms`` to ``end_ms``, milliseconds since 1970. Raises
    ``NoRoute`` for a group that has none, ``WrongUse`` where they may not be read.
    """
    check_whole("max_count", max_count, least=1)
    found: list[DeadLetter] = []
    async with aclosing(_read(admin, group, begin_ms, end_ms)) as letters:
        async for letter in letters:
            found.append(letter)
            if len(found) == max_count:
                break
    return found


async def resend_dead_letters(
    admin: AdminClient,
    group: str,
    *,
    message_ids: Container[str] | None = None,
    begin_ms: int = 0,
    end_ms: int = LONG_MAX,
) -> list[str]:
    """Send dead letters of ``group`` to it again; return their message ids.

    They go to the group's retry topic, so that no other group gets them, and count as new:
    all their deliveries are before them. Chosen are those with ``message_ids`` (None: all) that
    were stored from ``begin_ms`` to ``end_ms``, of those that are there at the call.

    They stay among the dead letters as well: a second call sends them again. Raises as
    ``dead_letters_of``, and what keeps a broker from taking one, with a note of how many were
    sent before it.
    """
    queues = list(queues_of(await admin.route(retry_topic(group)), retry_topic(group)))
    if not queues:
        raise LanemqError(f"no broker has a queue of {retry_topic(group)} that can be read")
    turns = count()
    sent: list[str] = []
    async with aclosing(_read(admin, group, begin_ms, end_ms)) as letters:
        async for letter in letters:
            if message_ids is not None and letter.message_id not in message_ids:
                continue
            address, queue = queues[next(turns) % len(queues)]
            try:
                await _send(admin, address, queue.topic, queue.queue_id, letter)
            except LanemqError as error:
                error.add_note(f"{len(sent)} dead letters had been sent before")
                raise
            sent.append(letter.message_id)
    return sent


async def _read(
    admin: AdminClient, group: str, begin_ms: int, end_ms: int
) -> AsyncGenerator[DeadLetter, None]:
    check_text("group", group)
    topic = dlq_topic(group)
    queues = list(queues_of(await admin.route(topic), topic))
    if not queues:
        raise DeadLettersUnreadable(topic)
    for address, queue in queues:
        offset, end = await admin.min_offset(address, queue), await admin.max_offset(address, queue)
        if begin_ms > 0:
            offset = max(offset, await admin.search_offset(address, queue, begin_ms))
        while offset < end:
            pulled = await admin.pull(address, queue, offset, max_count=PAGE)
            for message in pulled.messages:
                if message.queue_offset < end and begin_ms <= message.store_timestamp_ms <= end_ms:
                    yield _dead_letter(message)
            if pulled.next_offset <= offset:
                break  # nothing is left of what was there
            offset = pulled.next_offset


def _dead_letter(message: StoredMessage) -> DeadLetter:
    properties = message.properties
    attempts = properties.get(Property.DLQ_ATTEMPTS, "")
    return DeadLetter(
        message=message,
        message_id=message_id(message),
        topic=properties.get(Property.RETRY_TOPIC, message.topic),
        reason=properties.get(Property.DLQ_REASON),
        attempts=(
            int(attempts)
            if attempts.isascii() and attempts.isdecimal() and len(attempts) < len(str(LONG_MAX))
            else message.reconsume_times
        ),
    )


async def _send(
    admin: AdminClient, address: str, topic: str, queue_id: int, letter: DeadLetter
) -> None:
    message = letter.message
    properties = {k: v for k, v in message.properties.items() if k not in DROPPED}
    properties.setdefault(Property.RETRY_TOPIC, letter.topic)
    properties.setdefault(Property.ORIGIN_MESSAGE_ID, letter.message_id)
    header = SendMessage(
        producer_group=SystemGroup.CLIENT_INNER_PRODUCER,
        topic=topic,
        default_topic=topic,
        default_topic_queue_nums=1,
        queue_id=queue_id,
        sys_flag=message.sys_flag & (SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK),
        born_timestamp=now_ms(),
        flag=message.flag,
        properties=encode_properties(properties).decode(),
        reconsume_times=0,
    )
    await admin._caller.ask(address, RequestCode.SEND_MESSAGE, header, body=message.body)
