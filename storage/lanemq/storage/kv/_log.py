"""The log of a partition, as the state machine sees it: numbered records, one after another."""

import re
from typing import Final, Protocol, final

from lanemq.local import get_logger
from lanemq.wire import RemoteProtocolError
from lanemq.wire.kv import (
    BOUNDS_PROPERTY,
    CLIENT_PROPERTY,
    IDENTITY_PROPERTY,
    LESSOR_PROPERTY,
    OP_TYPE_PROPERTY,
    TIME_PROPERTY,
    encode_key,
    identity_problem,
    kv_topic,
)
from lanemq.wire.kv import KEY_PROPERTY as KEY_PROPERTY_NAME
from lanemq.wire.message import decode_properties, encode_properties, record_content

from ..messages._reader import Reader
from ._outcomes import LogRecord
from .engines._rows import NO_QUEUE, Meta

LOGGER = get_logger(__name__)
READ_BYTES: Final = 1 << 20
"""Bytes of records beyond which one read ends."""
NO_OPERATION: Final = ""
_OURS: Final = re.compile(
    rb"(?:%b\x01([!-9;-~]+):([0-9]{1,18}):([0-9]{1,18})\x02)?(?:%b\x01[!-~]*\x02)?%b\x01([a-z]+)\x02?"
    % (CLIENT_PROPERTY.encode(), KEY_PROPERTY_NAME.encode(), OP_TYPE_PROPERTY.encode())
).fullmatch
"""The properties as ``operation_properties`` writes them, which are read at once."""

_WRITER: Final = re.compile("([^:]*):([0-9]{1,18}):([0-9]{1,18})").fullmatch
"""A writer and its numbers, which are ``SEQUENCE_MAX`` at most: a session keeps such."""
_TIME: Final = re.compile("[0-9]{1,15}").fullmatch
_LESSOR: Final = re.compile("[!-~]{1,64}").fullmatch


class KvLog(Protocol):
    """The log that a state follows. Positions count records.

    To append is its owner's part: a broker's records pass the one gate to its log.
    """

    def bounds(self) -> tuple[int, int]:
        """Return the position of the first record that is still there, and the end."""

    def read(self, position: int, count: int) -> list[LogRecord]:
        """Read up to ``count`` records from a position on, which is within the bounds; fewer
        where they are long, but one at least."""

    def time_of(self, position: int) -> int:
        """Return the log's time at a record, whose body is not read; 0 where it is not there, or
        damaged."""

    def place(self, position: int) -> int | None:
        """Return where in the broker's log a record lies; None at the end."""


@final
class QueueLog:
    """A queue of a store as the log of a partition, or its part since the partition is here.

    There are no records of it where ``meta`` names no queue.
    """

    def __init__(self, reader: Reader, namespace: str, meta: Meta) -> None:
        self._reader = reader
        self._topic = kv_topic(namespace)
        self._queue_id = meta.queue_id
        self._shift = meta.shift
        self._first = meta.first

    def bounds(self) -> tuple[int, int]:
        if self._queue_id == NO_QUEUE:
            return 0, 0
        begin, end = self._reader.bounds(self._topic, self._queue_id)
        return max(begin + self._shift, self._first), max(end + self._shift, self._first)

    def read(self, position: int, count: int) -> list[LogRecord]:
        if self._queue_id == NO_QUEUE:
            return []
        offset = position - self._shift
        units = self._reader.units(self._topic, self._queue_id, offset, count)
        size_bytes = 0
        for number, unit in enumerate(units):
            size_bytes += unit.size_bytes
            if size_bytes > READ_BYTES:
                del units[number + 1 :]
                break
        places = [(unit.log_position, unit.size_bytes) for unit in units]
        return [
            operation_record(position + number, *content)
            if content is not None
            else self._damaged(position + number, places[number][0])
            for number, content in enumerate(self._reader.contents_at(places))
        ]

    def time_of(self, position: int) -> int:
        if self._queue_id == NO_QUEUE:
            return 0
        units = self._reader.units(self._topic, self._queue_id, position - self._shift, 1)
        outline = None
        if units:
            outline = self._reader.outline_at(units[0].log_position, units[0].size_bytes)
        if outline is None:
            return 0
        stored_ms, properties = outline
        return operation_record(position, stored_ms, b"", properties).time_ms

    def place(self, position: int) -> int | None:
        if self._queue_id == NO_QUEUE:
            return None
        units = self._reader.units(self._topic, self._queue_id, position - self._shift, 1)
        return units[0].log_position if units else None

    def _damaged(self, position: int, log_position: int) -> LogRecord:
        LOGGER.error(
            "record %d of %s, at %d of the log, is damaged: it changes nothing",
            position,
            self._topic,
            log_position,
        )
        return LogRecord(position, 0, NO_OPERATION, b"")


def log_record(position: int, data: bytes) -> LogRecord:
    """Read a record of the broker's log; one that is not ours has no operation."""
    return operation_record(position, *record_content(data))


def operation_record(position: int, time_ms: int, body: bytes, properties: bytes) -> LogRecord:
    """Make a record of a body and properties; one that is not ours has no operation."""
    ours = _OURS(properties)
    if ours is not None:
        writer, first, second, kind = ours.groups()
        if writer is None:
            return LogRecord(position, time_ms, kind.decode(), body)
        numbers = int(first), int(second)
        return LogRecord(position, time_ms, kind.decode(), body, writer.decode(), *numbers)
    named = decode_properties(properties)
    op_type = named.get(OP_TYPE_PROPERTY, NO_OPERATION)
    told = named.get(TIME_PROPERTY, "")
    log_ms = int(told) if _TIME(told) else time_ms
    apart_ms, time_ms = log_ms - time_ms, log_ms
    try:
        client, sequence, waits = _writer(named.get(CLIENT_PROPERTY, ""))
    except RemoteProtocolError:
        return LogRecord(position, time_ms, NO_OPERATION, b"")
    identity = named.get(IDENTITY_PROPERTY, "")
    if identity and identity_problem(identity) is not None:
        identity = ""
    lessor = named.get(LESSOR_PROPERTY, "")
    return LogRecord(
        position,
        time_ms,
        op_type,
        body,
        client,
        sequence,
        waits,
        identity,
        apart_ms,
        lessor if _LESSOR(lessor) else "",
        BOUNDS_PROPERTY in named,
    )


def _writer(text: str) -> tuple[str, int, int]:
    if not text:
        return "", 0, 0
    found = _WRITER(text)
    if found is None:
        raise RemoteProtocolError("a record's writer cannot be read")
    client, sequence, waits = found.groups()
    return client, int(sequence), int(waits)


def operation_properties(
    op_type: str,
    *,
    key: bytes | None = None,
    client: str = "",
    sequence: int = 0,
    waits: int = 0,
    identity: str = "",
    time_ms: int | None = None,
    lessor: str = "",
    bounds: bool = False,
) -> bytes:
    """Make the properties of a record; ``key`` is that of an operation on one key, ``time_ms`` the
    log's time where that of its storing is another, ``lessor`` that of one about leases. With
    ``bounds`` it is one from which on there are bounds in bytes (``BOUNDS_PROPERTY``)."""
    # No checksum covers properties. Half a record may be left by a crash, with zeros behind: so
    # the one without which it is not an operation is the last.
    named = {}
    if client:
        named[CLIENT_PROPERTY] = f"{client}:{sequence}:{waits}"
    if key is not None:
        named[KEY_PROPERTY_NAME] = encode_key(key)
    if identity:
        named[IDENTITY_PROPERTY] = identity
    if time_ms is not None:
        named[TIME_PROPERTY] = str(time_ms)
    if lessor:
        named[LESSOR_PROPERTY] = lessor
    if bounds:
        named[BOUNDS_PROPERTY] = "1"
    named[OP_TYPE_PROPERTY] = op_type
    return encode_properties(named)
