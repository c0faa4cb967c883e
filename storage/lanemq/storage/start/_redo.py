"""Redo: bringing an index up to the end of the log, record by record, from its watermark on.

What an index does with a record must be the same the second time: whatever lies between the
watermark and the end of the log may be in the index, in part, or not at all.
"""

from typing import Final, Protocol, final

from lanemq.local import get_logger

from .._errors import MessageIllegal
from .._layouts import BLANK_SIZE
from ..derive._sequence import UnitTarget
from ..derive._units import Derivation, DerivedUnit
from ..index._index import TURN_MAX, Index
from ..log._damage import walk_over_damage
from ..log._records import Record
from ..log._segments import Segments
from ..queues._queues import QueueTable
from ..queues._slots import expected_at, holds_message, is_right
from ..queues.files._consume_queue import FileConsumeQueue

LOGGER: Final = get_logger(__name__)


class RedoTarget(UnitTarget, Protocol):
    """An index of the log. ``watermark``: every record before it is in the index durably, and it
    wants those at or behind it."""

    name: str
    watermark: int

    def take(self, record: Record, decided_to: int) -> None:
        """Take a record; the units of all before ``decided_to`` were put, or passed over."""

    def truncate(self, log_end: int) -> int:
        """Drop what points at or behind the end of the log; returns how many entries that was."""


@final
class KeyRedo:
    """The redo of the key index."""

    name = "key index"

    def __init__(self, index: Index, watermark: int) -> None:
        self._index = index
        self.watermark = watermark

    def put(self, unit: DerivedUnit) -> None:
        """Do nothing: keys do not depend on queues."""

    def pass_over(self, unit: DerivedUnit, slot: int | None) -> None:
        """Do nothing: a message is found by its keys all the same."""

    def expected(self, _unit: DerivedUnit) -> tuple[int, int] | None:
        return None

    def is_known(self, _unit: DerivedUnit) -> bool:
        return False

    def take(self, record: Record, decided_to: int) -> None:
        message = (
            record.topic,
            record.position,
            record.store_timestamp_ms,
            record.sys_flag,
            record.properties,
        )
        self._index.submit((message,))
        if self._index.waiting.is_behind:  # messages with more keys than are indexed as they come
            self._index.drain(TURN_MAX)

    def truncate(self, log_end: int) -> int:
        if self._index.newest[1] >= log_end > 0:
            self._index.drain()
            self._index.cut(log_end)
        return 0


@final
class FileRedo:
    """The redo of the queue files. An existing unit stays if it names the right record.

    One that names another stands in a wrong slot, and so may all behind it: they are dropped,
    and the walk brings them again. A gap is closed with units of older records, or with units
    that stand for messages that are gone; the reference lets every later message move up into
    the wrong place.
    """

    name = "queue files"

    def __init__(
        self,
        queues: QueueTable,
        *,
        segments: Segments,
        derivation: Derivation,
        watermark: int,
    ) -> None:
        self._queues = queues
        self._segments = segments
        self._derivation = derivation
        self._older: dict[tuple[str, int], dict[int, DerivedUnit]] | None = None
        self.watermark = watermark
        self.moved = 0
        """Number of units in wrong slots, or of messages that are no longer the queue's."""

    def take(self, record: Record, decided_to: int) -> None:
        """Do nothing: only units count here."""

    def truncate(self, log_end: int) -> int:
        return self._queues.truncate(log_end) if self._queues.max_log_end() > log_end else 0

    def expected(self, unit: DerivedUnit) -> tuple[int, int] | None:
        """Return the answer for ``Sequences.expected``, by the files."""
        queue = self._queues.find(unit.topic, unit.queue_id)
        segments = self._segments
        if queue is None:
            return None
        return expected_at(
            queue,
            unit.log_position,
            log_begin=segments.begin,
            is_right=lambda offset: is_right(queue, offset, segments),
        )

    def is_known(self, unit: DerivedUnit) -> bool:
        """Return whether the files have the message in this slot."""
        queue = self._queues.find(unit.topic, unit.queue_id)
        return queue is not None and holds_message(queue, unit.queue_offset, unit.log_position)

    def pass_over(self, unit: DerivedUnit, slot: int | None) -> None:
        """Leave a slot for a message whose offset is damaged."""
        queue = self._queues.find(unit.topic, unit.queue_id)
        if queue is not None and slot == queue.end:
            queue.append_blanks(1)

    def put(self, unit: DerivedUnit) -> None:
        """Put a unit into its slot."""
        try:
            queue = self._queues.make(unit.topic, unit.queue_id)
        except MessageIllegal as error:
            LOGGER.warning("the record at %d has no queue: %s", unit.log_position, error)
            return
        offset = unit.queue_offset
        if offset < queue.end:
            if self._has(queue, unit):
                return
            self.moved += queue.end - offset
            LOGGER.warning(
                "queue %d of %s: unit %d names another message; %d units are made again",
                queue.queue_id,
                queue.topic,
                offset,
                queue.end - offset,
            )
            queue.cut(offset)
        elif unit.log_position + unit.size_bytes <= queue.log_end:
            return  # of a topic that was deleted and made again
        if offset > queue.end:
            self._close_gap(queue, offset)
        _append(queue, unit)

    def _has(self, queue: FileConsumeQueue, wanted: DerivedUnit) -> bool:
        if wanted.queue_offset < queue.file_begin:
            return True  # expired
        unit = queue.unit(wanted.queue_offset)
        if unit is None:
            return True
        return unit.size_bytes != BLANK_SIZE and unit.log_position == wanted.log_position

    def _close_gap(self, queue: FileConsumeQueue, offset: int) -> None:
        if self._older is None:
            self._older = self._without_unit()
        older = self._older.get((queue.topic, queue.queue_id), {})
        missing, found = offset - queue.end, 0
        if queue.log_end <= self._segments.begin:
            # None of its messages is left: blanks from the begin of a file on are enough.
            first = min((known for known in older if queue.end <= known < offset), default=offset)
            queue.restart_at(first)
        while queue.end < offset:
            unit = older.get(queue.end)
            if unit is None:
                queue.append_blanks(1)
            else:
                found += 1
                _append(queue, unit)
        LOGGER.warning(
            "queue %d of %s lacked %d units before %d: %d were found in the log",
            queue.queue_id,
            queue.topic,
            missing,
            offset,
            found,
        )

    def _without_unit(self) -> dict[tuple[str, int], dict[int, DerivedUnit]]:
        older: dict[tuple[str, int], dict[int, DerivedUnit]] = {}
        records = walk_over_damage(self._segments, self._segments.begin, self.watermark)
        for unit in self._derivation.walk(records):
            key = unit.topic, unit.queue_id
            queue = self._queues.find(*key)
            if unit.queue_offset >= (queue.end if queue is not None else 0):
                older.setdefault(key, {})[unit.queue_offset] = unit
        return older


def _append(queue: FileConsumeQueue, unit: DerivedUnit) -> None:
    queue.append(unit.log_position, unit.size_bytes, unit.tags_code)
