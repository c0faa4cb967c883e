"""Stages kept apart by the broker, for clients that know nothing of them.

A group's settings may have stages, ``"stages": [10, 20, 70]``. Then no pull reaches beyond the
end of a stage, and the next stage of a queue is given out only when the group's committed offset
is there: all messages of the stage before are settled. Messages are counted as the group's
subscription delivers them, from where the group stood when its stages were set.

A logical queue's stages are counted through its segments, in logical offsets, under the name that
the group's progress in it has (``lanemq.wire.logical.progress_topic``): the gate and the commits
read one key.

How far a queue is (``lanemq.wire.StageRecord``: the first message of the stage that is open, and
its number) is kept with the offsets, under the name of a shadow group. Nothing like this is in
RocketMQ; the idea is its proposal RIP-22.
"""

from time import perf_counter
from typing import Final, NamedTuple, final

from lanemq.storage import Store, Unit
from lanemq.wire import RETRY_PREFIX
from lanemq.wire.bodies import SubscriptionGroupConfig
from lanemq.wire.message import BROKER_STAGE_PREFIX, StageRecord, Stages, record_properties

from ...net._turns import Steps
from ._pull_filters import Wanted

MEMBER: Final = "stages"
"""The member of a group's settings that holds the sizes of its stages."""
SHADOW_PREFIX: Final = BROKER_STAGE_PREFIX
"""Prefix that makes the name of a group's records from the group's name. Staged clients that keep
records of their own have them under ``lanemq.wire.STAGE_PREFIX``; the two do not meet."""
SCAN_UNITS: Final = 512
LOOKS_MAX: Final = 1 << 13
"""Messages at which one of a pull's three counts looks, at some microsecond each."""
JUDGING_S: Final = 0.02
"""Seconds that all of them judge messages by properties; each looks at one message at least."""

Key = tuple[str, str, int]
"""Group, topic and queue id under which the group's offset is kept."""


@final
class Part(NamedTuple):
    """The part of a message queue that a group reads: all of it, or a segment of a logical
    queue."""

    topic: str
    queue_id: int
    key: Key
    """The key of the group's offset."""
    shift: int = 0
    """Difference from an offset of the message queue to one as the group commits it."""
    begin: int = 0
    """The first offset, as the group commits it."""
    end: int | None = None
    """The offset behind the last, of a segment that is sealed."""
    committed: int | None = None
    """The group's offset at other brokers, which alone are told once the segment is sealed."""

    @classmethod
    def whole(cls, group: str, topic: str, queue_id: int) -> "Part":
        """Make the part that is a whole message queue, read as it is."""
        return cls(topic, queue_id, (group, topic, queue_id))


def stages_of(group: SubscriptionGroupConfig) -> Stages:
    """Parse the stages in a group's settings. Raises ``ValueError`` for an invalid member."""
    sizes = group.extra.get(MEMBER)
    if not sizes:
        return NO_STAGES
    if not isinstance(sizes, list):
        raise ValueError(f"stages are a list of sizes, not {sizes!r}")
    return Stages(sizes)


NO_STAGES: Final = Stages()


class Room(NamedTuple):
    """The limit of a pull."""

    messages: int | None = None
    """Most messages; None for any number, 0 while the next stage waits."""
    opens_at: int = 0
    """The committed offset that opens the next stage, where ``messages`` is 0."""
    is_counting: bool = False
    """True if the count goes on with the next pull: this one has taken its time."""


ANY: Final = Room()
COUNTING: Final = Room(0, is_counting=True)


class _Looks:
    """The looks at messages that one pull may take."""

    __slots__ = ("are_over", "left", "until_s")

    def __init__(self) -> None:
        self.until_s = perf_counter() + JUDGING_S
        self.left = LOOKS_MAX
        self.are_over = False  # True if a count has ended for want of looks or time


@final
class _Gate:
    """The count of one queue: message ``number`` is the first at or behind ``offset``.

    Counting begins at the first message of the open stage and stops behind its last.
    """

    __slots__ = ("behind", "number", "offset", "other", "record", "wanted")

    def __init__(self, record: StageRecord, wanted: Wanted) -> None:
        self.record = record
        self.behind: _Gate | None = None
        """The count of the same messages for a consumer that is further behind."""
        self.other: _Gate | None = None
        """The count for another subscription."""
        self.wanted = wanted
        self.offset = record.queue_offset
        self.number = record.stage_offset


@final
class GroupStages:
    """The stages of a broker's groups."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._offsets = store.tables.consumer_offsets
        self._gates: dict[Key, _Gate] = {}

    def shadow(self, group: SubscriptionGroupConfig) -> str | None:
        """Return the name under which the group's records are kept; None for one without stages."""
        return SHADOW_PREFIX + group.group_name if stages_of(group) else None

    def room(
        self, group: SubscriptionGroupConfig, part: Part, queue_offset: int, wanted: Wanted
    ) -> Room:
        """Return the limit of a pull from ``queue_offset`` of the message queue."""
        stages = NO_STAGES if part.topic.startswith(RETRY_PREFIX) else stages_of(group)
        if not stages:
            return ANY
        offset = queue_offset + part.shift
        committed = self._committed(part) or 0
        gate = self._gate(part, offset, wanted)
        first, number = gate.record.queue_offset, gate.record.stage_offset
        if committed < first == part.begin and number and stages.is_boundary(number):
            return Room(0, first)  # the stage before ended with the segment before
        low, high = self._bounds(part)
        looks = _Looks()
        while True:
            end = stages.end_of(gate.record.stage_offset)
            if end is None:
                return ANY
            to_offset = min(max(committed, offset), high)
            is_at_end = self._count(gate, part, to_offset, low, end, looks)
            if looks.are_over:
                return COUNTING
            if not is_at_end or gate.offset > committed:
                break
            # Every message of the stage is settled: the next one is open.
            gate = self._open(part.key, StageRecord(gate.offset, end), wanted)
        if gate.offset == part.end != gate.record.queue_offset:
            # The broker of the next segment continues with this number.
            self._open(part.key, StageRecord(gate.offset, gate.number), wanted)
            return ANY
        if offset >= gate.offset:
            return Room(end - gate.number, gate.offset)
        # Behind the counted messages: a consumer begins again at the first one not committed.
        first = gate.record.queue_offset
        looks.left = LOOKS_MAX
        before = self._matches(part, offset, first, low, wanted, looks)
        if before or looks.are_over:
            return Room(max(before, 1))  # at least the first of the open stage is behind them
        looks.left = LOOKS_MAX
        there, to_offset = gate.behind, max(offset, first)
        if there is None or there.offset > to_offset:
            there = gate.behind = _Gate(gate.record, wanted)
        self._count(there, part, to_offset, low, end, looks)
        return COUNTING if looks.are_over else Room(end - there.number, there.offset)

    def _committed(self, part: Part) -> int | None:
        kept = self._offsets.get(*part.key)
        if part.committed is None or (kept is not None and part.end is None):
            return kept
        return part.committed

    def count_out(self, stages: Stages, part: Part) -> Steps[None]:
        """Count to the end of a sealed segment, or of the stage, behind which its group reads; in
        steps, as the segment may have any number of messages."""
        record, end = self.record(part.key), part.end
        stage_end = None if record is None else stages.end_of(record.stage_offset)
        if record is None or end is None or stage_end is None or record.queue_offset >= end:
            return
        gate = self._gates.get(part.key) or _Gate(record, Wanted())
        while True:
            looks = _Looks()
            self._count(gate, part, end, self._bounds(part)[0], stage_end, looks)
            if not looks.are_over:
                break
            yield None
            if self.record(part.key) != record:
                return  # it was counted otherwise meanwhile
        self._open(part.key, StageRecord(end, gate.number), gate.wanted)

    def record(self, key: Key) -> StageRecord | None:
        """Return the progress of a group's count; None if nothing was counted yet."""
        group, topic, queue_id = key
        number = self._offsets.get(SHADOW_PREFIX + group, topic, queue_id)
        return None if number is None else StageRecord.unpack(number)

    def put(self, key: Key, record: StageRecord) -> None:
        """Keep the progress of a group's count."""
        group, topic, queue_id = key
        self._offsets.put(SHADOW_PREFIX + group, topic, queue_id, record.pack())

    def _bounds(self, part: Part) -> tuple[int, int]:
        low, high = self._store.bounds(part.topic, part.queue_id)
        low, high = max(low + part.shift, part.begin), high + part.shift
        return low, high if part.end is None else min(high, part.end)

    def _gate(self, part: Part, offset: int, wanted: Wanted) -> _Gate:
        key, record = part.key, self.record(part.key)
        if record is None:
            # The first pull since the group has stages: counting begins where the group is.
            committed = self._committed(part)
            start = offset if committed is None else committed
            return self._open(key, StageRecord(max(start, part.begin), 0), wanted)
        gate = self._gates.get(key)
        if gate is None or gate.record != record:
            gate = self._gates[key] = _Gate(record, wanted)
        elif gate.wanted != wanted:  # as while a subscription changes, from member to member
            other = gate.other
            if other is None or other.wanted != wanted:
                other = _Gate(record, wanted)
            other.other, gate.other = gate, None
            gate = self._gates[key] = other
        return gate

    def _open(self, key: Key, record: StageRecord, wanted: Wanted) -> _Gate:
        self.put(key, record)
        gate = self._gates[key] = _Gate(record, wanted)
        return gate

    def _count(
        self, gate: _Gate, part: Part, to_offset: int, low: int, end: int, looks: _Looks
    ) -> bool:
        """Count up to ``to_offset`` or to number ``end``, as far as there are ``looks``; returns
        whether number ``end`` was reached."""
        gate.offset = max(gate.offset, low)  # messages that the queue lost count as consumed
        while gate.number < end and gate.offset < to_offset:
            if looks.left <= 0:
                looks.are_over = True
                break
            count = min(SCAN_UNITS, to_offset - gate.offset)
            units = self._store.units(part.topic, part.queue_id, gate.offset - part.shift, count)
            if not units:
                break
            looks.left -= len(units)
            for unit in units:
                gate.offset += 1
                if self._is_wanted(unit, gate.wanted):
                    gate.number += 1
                    if gate.number == end:
                        break
                if gate.wanted.matches is not None and perf_counter() >= looks.until_s:
                    looks.left = 0
                    break
        return gate.number >= end

    def _matches(
        self, part: Part, offset: int, end_offset: int, low: int, wanted: Wanted, looks: _Looks
    ) -> int:
        """Read the wanted messages from ``offset`` to ``end_offset``, a little more than a pull
        brings at most."""
        probe = _Gate(StageRecord(offset, 0), wanted)
        self._count(probe, part, end_offset, low, SCAN_UNITS, looks)
        return probe.number

    def _is_wanted(self, unit: Unit, wanted: Wanted) -> bool:
        if wanted.tag_codes is not None and unit.tags_code not in wanted.tag_codes:
            return False
        if wanted.matches is None:
            return True
        record = self._store.record_at(unit.log_position)
        return record is not None and wanted.matches(record_properties(record))

    def restart(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Count again from ``offset``, to which an operator has moved the group."""
        key = group, topic, queue_id
        if self._offsets.get(SHADOW_PREFIX + group, topic, queue_id) is not None:
            self.put(key, StageRecord(offset, 0))

    def is_behind(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Return whether ``offset`` is before the open stage."""
        record = self.record((group, topic, queue_id))
        return record is not None and offset < record.queue_offset

    def forget(self, group: str) -> None:
        """Forget a group whose offsets were deleted."""
        self._offsets.remove_group(SHADOW_PREFIX + group)


def waiting_topic(group: str, topic: str) -> str:
    """Return the topic for parking a pull that waits for the next stage: no message arrives
    there."""
    return f"{SHADOW_PREFIX}{group}@{topic}"
