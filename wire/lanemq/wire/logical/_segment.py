"""A segment: the part of a logical queue that lives on one physical queue.

A segment maps the physical offsets ``[offset_delta, offset_max)`` of its queue to the logical
offsets that begin at ``delta``. All numbers count messages; an end is exclusive; a negative
number is one that is not known or not set.
Source: RocketMQ 5.0.0-PREVIEW, LogicalQueueRouteData.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self, final

from ..bodies._body import Body
from ..bodies._queues import MessageQueue
from ._segment_json import compact, read_arguments
from ._segment_state import SegmentState

NOT_SET = -1


@final
class SegmentKey(NamedTuple):
    """The identity of a segment: equal in all accounts of the same segment."""

    topic: str
    broker_name: str
    queue_id: int
    offset_delta: int


@final
@dataclass(frozen=True, slots=True)
class Segment(Body):
    """One segment of a logical queue; all but ``message_queue`` and ``offset_delta`` may change.

    Reading fills in what is missing, but a segment has to have a message queue: one without is
    refused (Java takes it for a key to search with).
    """

    NAMES: ClassVar = {
        "logical_index": "logicalQueueIndex",
        "delta": "logicalQueueDelta",
        "first_time_ms": "firstMsgTimeMillis",
        "last_time_ms": "lastMsgTimeMillis",
        "broker_address": "brokerAddr",
        "migration": "lanemqMigration",
        "is_forced": "lanemqForced",
    }

    message_queue: MessageQueue
    logical_index: int = NOT_SET
    delta: int = NOT_SET
    """The first logical offset. Unknown in a ``WriteOnly`` segment until its time has come."""
    state: SegmentState = SegmentState.NORMAL
    offset_delta: int = 0
    """The first physical offset."""
    offset_max: int = NOT_SET
    """The physical offset behind the last message; not set while the segment is open."""
    first_time_ms: int = NOT_SET
    """Store time of the first message; 0 if it could not be read when the segment was sealed."""
    last_time_ms: int = NOT_SET
    """Store time of the last message; see ``first_time_ms``."""
    broker_address: str | None = None
    """``host:port`` of the master when this was written: a hint, the name counts."""
    migration: int | None = None
    """lanemq's own: number of the migration that opened the segment, or that is to open it.

    Each migration of a logical queue has a greater number than all before it, so a segment with
    this number or a greater one is the proof that the migration took place. None where the
    queue began, and at brokers that do not number migrations.
    """
    is_forced: bool | None = None
    """lanemq's own: True where the queue went on here by an operator's word, past its source.

    Some readers may have been given messages of the source that have no place in the queue: the
    offsets behind ``delta`` may be of those.
    """

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read one as ``Body.from_json``, in a quarter of the time where it has its usual form."""
        arguments = read_arguments(value)
        return super(Segment, cls).from_json(value) if arguments is None else cls(*arguments)

    def to_json(self) -> dict[str, object]:
        """Return the members as ``Body.to_json``, without a look at the declaration."""
        return {
            "brokerAddr": self.broker_address,
            "firstMsgTimeMillis": self.first_time_ms,
            "lanemqForced": self.is_forced,
            "lanemqMigration": self.migration,
            "lastMsgTimeMillis": self.last_time_ms,
            "logicalQueueDelta": self.delta,
            "logicalQueueIndex": self.logical_index,
            "messageQueue": self.message_queue,
            "offsetDelta": self.offset_delta,
            "offsetMax": self.offset_max,
            "state": self.state,
        }

    def compact_json(self) -> bytes:
        """Return what ``fastjson.dumps`` writes of it, in a quarter of the time."""
        return compact(self.to_json(), self.message_queue)

    @property
    def topic(self) -> str:
        return self.message_queue.topic

    @property
    def broker_name(self) -> str:
        return self.message_queue.broker_name

    @property
    def queue_id(self) -> int:
        return self.message_queue.queue_id

    @property
    def key(self) -> SegmentKey:
        """The identity of the segment."""
        queue = self.message_queue
        return SegmentKey(queue.topic, queue.broker_name, queue.queue_id, self.offset_delta)

    @property
    def is_writable(self) -> bool:
        return self.state.is_writable

    @property
    def is_readable(self) -> bool:
        return self.state.is_readable

    @property
    def is_sealed(self) -> bool:
        """True if the end is known; no message was or will be added behind it."""
        return self.offset_max >= 0

    @property
    def count(self) -> int:
        """The number of messages in a sealed segment; 0 for an open one."""
        if self.offset_delta >= 0 and self.offset_max >= 0:
            return self.offset_max - self.offset_delta
        return 0

    @property
    def is_empty(self) -> bool:
        """True if it was sealed without any message: it overlaps nothing, wherever it stands."""
        return self.is_sealed and self.count == 0

    @property
    def meant(self) -> str:
        """The segment's ``SEGMENT_FIELD``: its name beside topic, broker and queue id, and its
        place in the logical queue where that is known."""
        name = f"{self.logical_index}:{self.offset_delta}"
        return name if self.delta < 0 else f"{name}:{self.delta}"

    def is_meant(self, said: str) -> bool:
        """Return whether a ``SEGMENT_FIELD`` names this segment, at no other place than its own."""
        index, _, rest = said.partition(":")
        begin, _, delta = rest.partition(":")
        return (
            index == str(self.logical_index)
            and begin == str(self.offset_delta)
            and (not delta or self.delta < 0 or delta == str(self.delta))
        )

    @staticmethod
    def place_meant(said: str) -> int | None:
        """Return the place that a ``SEGMENT_FIELD`` names; None where it names none."""
        delta = said.rpartition(":")[2]
        return int(delta) if said.count(":") == 2 and delta.isdecimal() else None

    @property
    def shift(self) -> int:
        """The logical offset of a message less its physical one. ``delta`` has to be known."""
        return self.delta - self.offset_delta

    @property
    def order(self) -> tuple[int, int]:
        """The sort key of the segments that a logical queue ended with one after the other."""
        return self.delta, self.migration or 0

    @property
    def next_delta(self) -> int:
        """The first logical offset behind a sealed segment: its end, and the successor's begin."""
        return self.delta + self.count

    @property
    def end_offset(self) -> int | None:
        """The logical offset behind the last message; None where it is open or not known."""
        return self.next_delta if self.is_sealed and self.delta >= 0 else None

    def to_logical(self, queue_offset: int) -> int:
        """Return the logical offset of a physical one, in range or not; -1 while it is not
        known."""
        return NOT_SET if self.delta < 0 else queue_offset - self.offset_delta + self.delta

    def to_physical(self, logical_offset: int) -> int:
        """Return the physical offset of a logical one, in range or not. ``delta`` has to be
        known."""
        return logical_offset - self.delta + self.offset_delta

    def contains_physical(self, queue_offset: int) -> bool:
        return self.offset_delta <= queue_offset and self.keeps(queue_offset)

    def keeps(self, queue_offset: int) -> bool:
        """Return True if a message that was read here stands before the segment's end."""
        return self.offset_max < 0 or queue_offset < self.offset_max

    def clamp_min(self, queue_min_offset: int) -> int:
        """Return the least physical offset of the segment, given that of the whole queue."""
        return max(queue_min_offset, self.offset_delta)

    def clamp_max(self, queue_max_offset: int) -> int:
        """Return the physical offset behind the last message, given that of the whole queue."""
        return min(queue_max_offset, self.offset_max) if self.is_sealed else queue_max_offset

    def clamp_progress(self, logical_offset: int) -> int:
        """Bound an offset that a group committed here by the segment's end, where that is known.

        A segment that was superseded may have had more messages than it has a place for. The
        offsets behind its end are those of others, which nobody has read here.
        """
        end = self.end_offset
        return logical_offset if end is None else min(logical_offset, end)

    def clamp_count(self, queue_offset: int, wanted: int) -> int:
        """Return the number of readable messages from ``queue_offset`` on, at most ``wanted``."""
        if not self.is_sealed:
            return wanted
        return max(0, min(wanted, self.offset_max - queue_offset))

    def sealed(
        self,
        offset_max: int,
        *,
        first_time_ms: int = 0,
        last_time_ms: int = 0,
        has_messages: bool = True,
    ) -> Self:
        """Return the segment with its end. Without any message (left) it is expired at once.

        Raises ``ValueError`` for an end before the begin.
        """
        if offset_max < self.offset_delta:
            raise ValueError(
                f"{self}: sealed at {offset_max}, before its begin at {self.offset_delta}"
            )
        is_empty = offset_max == self.offset_delta or not has_messages
        return replace(
            self,
            state=SegmentState.EXPIRED if is_empty else SegmentState.READ_ONLY,
            offset_max=offset_max,
            first_time_ms=first_time_ms,
            last_time_ms=last_time_ms,
        )

    def with_state(self, state: SegmentState) -> Self:
        return replace(self, state=state)

    def with_delta(self, delta: int) -> Self:
        return replace(self, delta=delta)

    def with_migration(self, migration: int | None) -> Self:
        return replace(self, migration=migration)

    def for_clients(self) -> Self:
        """Return the segment without the members that are for brokers and tools of lanemq alone."""
        return replace(self, migration=None, is_forced=None)

    def with_address(self, broker_address: str | None) -> Self:
        return replace(self, broker_address=broker_address)

    def __str__(self) -> str:
        queue = self.message_queue
        end = "" if self.offset_max < 0 else self.offset_max
        return (
            f"{queue.topic}:{queue.broker_name}/{queue.queue_id}[{self.offset_delta}..{end})"
            f" -> {self.logical_index}({self.delta}-) {self.state.value}"
        )


SortKey = tuple[int, int, int, str, str, int, int]


def sort_key(segment: Segment) -> SortKey:
    """Return the sort key of a chain: known deltas first, then state, queue and first offset."""
    queue = segment.message_queue
    return (
        segment.delta < 0,
        max(segment.delta, 0),
        segment.state.ordinal,
        _utf16(queue.topic),
        _utf16(queue.broker_name),
        queue.queue_id,
        segment.offset_delta,
    )


def _utf16(text: str) -> str:
    """Return a text that sorts by UTF-16 units, as Java's strings do."""
    if text.isascii():
        return text
    data = text.encode("utf-16-be", "surrogatepass")
    units = (int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
    return "".join(map(chr, units))
