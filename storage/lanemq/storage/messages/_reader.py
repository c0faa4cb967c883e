"""The read path: from a place in a queue to records.

Source: RocketMQ 4.9.8, DefaultMessageStore.getMessage.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias, final

from lanemq.wire import ProtocolError, RemoteProtocolError
from lanemq.wire.message import StoredMessage, decode_message, record_outline

from .._layouts import BLANK_SIZE, EXT_ADDRESS_MAX, Unit, iter_units
from .._statistics import Counters
from ..log._commit_log import CommitLog
from ..log._damage import KnownDamage
from ..log._records import Broken, Record, check_record
from ..log._segments import Segments
from ..queues._queues import ConsumeQueue, Queues
from ._displaced import is_displaced
from ._extended import ExtendedUnits
from ._messages import GetStatus, Got
from ._plain import Content
from ._queued import is_queued
from ._runs import QueueRuns, read_close, read_runs

Matches: TypeAlias = Callable[[bytes], bool | None]
"""A filter of whole records; None for one that is not wanted and the last to be looked at now."""

SCAN_UNITS: Final = 800


class ReadLimits(NamedTuple):
    """The most that one read gives: of messages in memory, and of those that may not be."""

    warm_count: int = 32
    warm_bytes: int = 262_144
    cold_count: int = 8
    cold_bytes: int = 65_536


READ_LIMITS: Final = ReadLimits()


@final
class Reader:
    """The reader of committed messages. No method waits, but a cold read may wait for the disk."""

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: Queues,
        counters: Counters,
        cold_bytes: int,
        damage: KnownDamage,
        extended: ExtendedUnits,
    ) -> None:
        """Take the parts of the store; messages in ``damage`` are passed over."""
        self._log = log
        self._queues = queues
        self._counters = counters
        self._cold_bytes = cold_bytes
        self._damage = damage
        self._extended = extended

    def is_cold(self, log_position: int) -> bool:
        return self._log.end - log_position > self._cold_bytes

    @property
    def has_cold(self) -> bool:
        log = self._log  # most logs are smaller than the memory for it
        return log.end > self._cold_bytes and self.is_cold(log.min_position)

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_count: int,
        limits: ReadLimits,
        tag_codes: frozenset[int] | None,
        matches: Matches | None,
    ) -> Got:
        got = self._get(topic, queue_id, queue_offset, max_count, limits, tag_codes, matches)
        counters = self._counters
        if got.records:
            counters.get_found += 1
            counters.got_messages += len(got.records)
            counters.got_bytes += sum(map(len, got.records))
        else:
            counters.get_missed += 1
        return got

    def _get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        limits: ReadLimits,
        tag_codes: frozenset[int] | None,
        matches: Matches | None,
    ) -> Got:
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return Got(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])
        begin, end = queue.min, queue.end
        if end == 0:
            return Got(GetStatus.NO_MESSAGE_IN_QUEUE, 0, begin, end, [])
        if offset < begin:
            return Got(GetStatus.OFFSET_TOO_SMALL, begin, begin, end, [])
        if offset == end:
            return Got(GetStatus.OFFSET_OVERFLOW_ONE, offset, begin, end, [])
        if offset > end:
            return Got(GetStatus.OFFSET_OVERFLOW_BADLY, end, begin, end, [])
        filtered = tag_codes is not None or matches is not None
        # Some may be gone; and each has its price where they are rows of a database.
        scan = (
            max(SCAN_UNITS, max_count)
            if filtered
            else 2 * min(max_count, max(limits.warm_count, limits.cold_count))
        )
        units = queue.read(offset, max(scan, 1))
        if not units:
            resume_at = queue.resume_at(offset)
            return Got(GetStatus.OFFSET_FOUND_NULL, resume_at, queue.min, queue.end, [])
        found = list(iter_units(units))
        records = None if filtered else self._read_close(found, max_count, limits)
        if records is not None:
            status = GetStatus.FOUND
            return Got(status, offset + len(records), queue.min, queue.end, records)
        return self._scan(queue, offset, found, max_count, limits, tag_codes, matches)

    def _read_close(
        self, units: list[tuple[int, int, int]], max_count: int, limits: ReadLimits
    ) -> list[bytes] | None:
        """Return the records that ``_scan`` finds without a filter, if nothing is to be looked at:
        none is known to be damaged, all are warm, and lie close to one another. Else None."""
        log, damage, first = self._log, self._damage, units[0][0]
        if damage or first < damage.unchecked_end or first < log.end - self._cold_bytes:
            return None
        return read_close(log, units, min(max_count, limits.warm_count), limits.warm_bytes)

    def _scan(
        self,
        queue: ConsumeQueue,
        offset: int,
        units: list[tuple[int, int, int]],
        max_count: int,
        limits: ReadLimits,
        tag_codes: frozenset[int] | None,
        matches: Matches | None,
    ) -> Got:
        log, damage = self._log, self._damage
        unchecked_end = damage.unchecked_end
        cold_below = log.end - self._cold_bytes
        records: list[bytes] = []
        total = scanned = gone_below = 0
        status = GetStatus.NO_MATCHED_MESSAGE
        read = log.read
        if len(units) > 1 and max_count > 1:
            bytes_max = limits.cold_bytes if units[0][0] < cold_below else limits.warm_bytes
            count_max = min(max_count, max(limits.warm_count, limits.cold_count))
            read = QueueRuns(log, units, tag_codes, count_max, bytes_max).read
        for position, size, code in units:
            if records:
                count_max, bytes_max = limits.warm_count, limits.warm_bytes
                if position < cold_below:
                    count_max, bytes_max = limits.cold_count, limits.cold_bytes
                if (
                    len(records) >= max_count
                    or len(records) >= count_max
                    or total + size > bytes_max
                ):
                    break
            scanned += 1
            if position < gone_below:
                continue
            if (
                tag_codes is not None
                and code not in tag_codes
                and (code > EXT_ADDRESS_MAX or not self._is_wanted(position, size, tag_codes))
            ):
                continue
            record = read(position, size) if size != BLANK_SIZE else None
            if record is None:
                if not records:
                    status = GetStatus.MESSAGE_WAS_REMOVING
                gone_below = log.segments.begin  # messages before the log's begin are gone
                continue
            if (damage and damage.covers(position)) or (
                position < unchecked_end
                and self._is_damaged(record, position, queue, offset + scanned - 1)
            ):
                # As what is gone: clients cannot tell a body that changed, or, where it is
                # compressed, drop it with all behind it in the answer.
                if not records:
                    status = GetStatus.MESSAGE_WAS_REMOVING
                continue
            if matches is not None and not (verdict := matches(record)):
                if not records:
                    status = GetStatus.NO_MATCHED_MESSAGE
                if verdict is None:
                    break
                continue
            records.append(record)
            total += size
        if records:
            status = GetStatus.FOUND
        return Got(status, offset + scanned, queue.min, queue.end, records)

    def _is_damaged(self, record: bytes, position: int, queue: ConsumeQueue, slot: int) -> bool:
        damage = self._damage
        if damage.is_damaged(record, position):
            return True
        return is_displaced(record, slot, log=self._log, queue=queue, damage=damage)

    def units(self, topic: str, queue_id: int, start: int, count: int) -> list[Unit]:
        queue = self._queues.find(topic, queue_id)
        if queue is None or start < queue.min:
            return []
        data = queue.read(start, count)
        return [
            Unit(*fields) if fields[2] > EXT_ADDRESS_MAX else self._plain(Unit(*fields))
            for fields in iter_units(data)
        ]

    def _plain(self, unit: Unit) -> Unit:
        code = self._extended.tags_code(unit.log_position, unit.size_bytes)
        return unit if code is None else unit._replace(tags_code=code)

    def _is_wanted(self, position: int, size_bytes: int, tag_codes: frozenset[int]) -> bool:
        code = self._extended.tags_code(position, size_bytes)
        return code is None or code in tag_codes  # what is gone or damaged is answered as such

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        queue = self._queues.find(topic, queue_id)
        return (queue.min, queue.end) if queue is not None else (0, 0)

    # By position and by key

    def record_at(self, log_position: int, *, queued: bool = False) -> bytes | None:
        """Return a whole record; with ``queued`` only one that its queue has there.

        The body of a message may hold what looks like a record at its own position.
        """
        found = self.look_at(log_position)
        if not isinstance(found, bytes) or (queued and not self._is_queued(found, log_position)):
            return None
        return found

    def _is_queued(self, record: bytes, log_position: int) -> bool:
        try:
            message = decode_message(record)
        except ProtocolError:
            return False
        queue = self._queues.find(message.topic, message.queue_id)
        return queue is not None and is_queued(record, log_position, queue)

    def message_at(self, log_position: int) -> StoredMessage | None:
        """Return the decoded ``record_at`` a position. Raises ``ProtocolError``."""
        record = self.record_at(log_position)
        return decode_message(record) if record is not None else None

    def contents_at(self, places: Sequence[tuple[int, int]]) -> list[Content | None]:
        """Return the content of the record at each place (position and size), as ``record_at``."""
        return read_runs(self._log, places, self.record_at)

    def outline_at(self, log_position: int, size_bytes: int) -> tuple[int, bytes] | None:
        """Return the store time and the property string of a record, whose body is not read; None
        where it is damaged or gone."""
        read = self._log.read
        try:
            return record_outline(
                size_bytes, lambda at, count: read(log_position + at, count) or b""
            )
        except RemoteProtocolError:
            return None

    def why_damaged(self, log_position: int) -> str:
        found = self.look_at(log_position)
        return found.why if isinstance(found, Broken) else ""

    @property
    def segments(self) -> Segments:
        """The files of the log."""
        return self._log.segments

    def look_at(self, log_position: int) -> bytes | Broken | None:
        """Return a whole record, or the fault of its body; None where none begins."""
        if not max(self._log.min_position, 0) <= log_position < self._log.end:
            return None
        head = self._log.read(log_position, 4)
        if head is None:
            return None
        size = int.from_bytes(head, "big", signed=True)
        record = self._log.read(log_position, size)
        if record is None:
            return None
        found = check_record(record, 0, log_position, size, check_crc=True)
        if isinstance(found, Record):
            return record
        found_again = check_record(record, 0, log_position, size, check_crc=False)
        return found if isinstance(found, Broken) and isinstance(found_again, Record) else None
