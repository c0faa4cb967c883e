"""Stages kept apart by the broker, for clients that know nothing of them.

A group's settings may have stages, ``"stages": [10, 20, 70]``. Then no pull reaches beyond the
end of a stage, and the next stage of a queue is given out only when the group's committed offset
is there: all messages of the stage before are settled. Messages are counted as the group's
subscription delivers them, from where the group stood when its stages were set.

How far a queue is (``lanemq.wire.StageRecord``: the first message of the stage that is open, and
its number) is kept with the offsets, under the name of a shadow group. Nothing like this is in
RocketMQ; the idea is its proposal RIP-22.
"""

from typing import Final, NamedTuple, final

from lanemq.storage import Store, Unit
from lanemq.wire import (
    RETRY_PREFIX,
    StageRecord,
    Stages,
    SubscriptionGroupConfig,
    record_properties,
)

from ._filter import Wanted

MEMBER: Final = "stages"
"""The member of a group's settings that has the sizes."""
SHADOW_PREFIX: Final = "%BROKER_STAGE%"
"""Before the name of a group: under which name its records are. Staged clients that keep records
of their own have them under ``lanemq.wire.STAGE_PREFIX``; the two do not meet."""
SCAN_UNITS: Final = 512

Key = tuple[str, str, int]
"""group, topic, queue id"""


def stages_of(group: SubscriptionGroupConfig) -> Stages:
    """The stages in a group's settings. Raises ``ValueError`` for a member that is none."""
    sizes = group.extra.get(MEMBER)
    if not sizes:
        return NO_STAGES
    if not isinstance(sizes, list):
        raise ValueError(f"stages are a list of sizes, not {sizes!r}")
    return Stages(sizes)


NO_STAGES: Final = Stages()


class Room(NamedTuple):
    """What a pull may be given."""

    messages: int | None = None
    """How many; None for any number, 0 while the next stage waits."""
    opens_at: int = 0
    """Where ``messages`` is 0: the committed offset at which the next stage is open."""


ANY: Final = Room()


@final
class _Gate:
    """How far one queue was counted: message ``number`` is the first at ``offset`` or behind.

    Counting begins at the first message of the open stage and stops behind its last.
    """

    __slots__ = ("number", "offset", "record", "wanted")

    def __init__(self, record: StageRecord, wanted: Wanted) -> None:
        self.record = record
        self.wanted = wanted
        self.offset = record.queue_offset
        self.number = record.stage_offset


@final
class GroupStages:
    """The stages of all groups of a broker that have any."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._offsets = store.tables.consumer_offsets
        self._gates: dict[Key, _Gate] = {}

    def room(self, group: SubscriptionGroupConfig, key: Key, offset: int, wanted: Wanted) -> Room:
        """What a pull from ``offset`` may be given."""
        _, topic, queue_id = key
        stages = NO_STAGES if topic.startswith(RETRY_PREFIX) else stages_of(group)
        if not stages:
            return ANY
        gate = self._gate(key, offset, wanted)
        committed = self._offsets.get(*key) or 0
        low, high = self._store.bounds(topic, queue_id)
        while True:
            end = stages.end_of(gate.record.stage_offset)
            if end is None:
                return ANY
            to_offset = min(max(committed, offset), high)
            if not self._count(gate, key, to_offset, low, end) or gate.offset > committed:
                break
            # Every message of the stage is settled: the next one is open.
            gate = self._open(key, StageRecord(gate.offset, end), wanted)
        if offset >= gate.offset:
            return Room(end - gate.number, gate.offset)
        # Behind what was counted: a consumer begins again at what was not committed.
        first = gate.record.queue_offset
        before = self._matches(key, offset, first, low, wanted)
        if before:
            return Room(before)
        there = _Gate(gate.record, wanted)
        self._count(there, key, max(offset, first), low, end)
        return Room(end - there.number, there.offset)

    def _gate(self, key: Key, offset: int, wanted: Wanted) -> _Gate:
        group, topic, queue_id = key
        number = self._offsets.get(SHADOW_PREFIX + group, topic, queue_id)
        record = None if number is None else StageRecord.unpack(number)
        if record is None:
            # The first pull since the group has stages: counting begins where the group is.
            committed = self._offsets.get(*key)
            start = offset if committed is None else committed
            return self._open(key, StageRecord(start, 0), wanted)
        gate = self._gates.get(key)
        if gate is None or gate.record != record or gate.wanted != wanted:
            gate = self._gates[key] = _Gate(record, wanted)
        return gate

    def _open(self, key: Key, record: StageRecord, wanted: Wanted) -> _Gate:
        group, topic, queue_id = key
        self._offsets.put(SHADOW_PREFIX + group, topic, queue_id, record.pack())
        gate = self._gates[key] = _Gate(record, wanted)
        return gate

    def _count(self, gate: _Gate, key: Key, to_offset: int, low: int, end: int) -> bool:
        """Count on up to ``to_offset`` or to number ``end``; whether that was reached."""
        gate.offset = max(gate.offset, low)  # what the queue lost is through
        while gate.number < end and gate.offset < to_offset:
            count = min(SCAN_UNITS, to_offset - gate.offset)
            units = self._store.units(key[1], key[2], gate.offset, count)
            if not units:
                break
            for unit in units:
                gate.offset += 1
                if self._is_wanted(unit, gate.wanted):
                    gate.number += 1
                    if gate.number == end:
                        break
        return gate.number >= end

    def _matches(self, key: Key, offset: int, end_offset: int, low: int, wanted: Wanted) -> int:
        """Messages wanted from ``offset`` to ``end_offset``; more than a pull brings is enough."""
        probe = _Gate(StageRecord(offset, 0), wanted)
        self._count(probe, key, end_offset, low, SCAN_UNITS)
        return probe.number

    def _is_wanted(self, unit: Unit, wanted: Wanted) -> bool:
        if wanted.tag_codes is not None and unit.tags_code not in wanted.tag_codes:
            return False
        if wanted.matches is None:
            return True
        record = self._store.record_at(unit.log_position)
        return record is not None and wanted.matches(record_properties(record))

    def restart(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Count anew from ``offset``: an operator moved the group there."""
        if self._offsets.get(SHADOW_PREFIX + group, topic, queue_id) is not None:
            record = StageRecord(offset, 0)
            self._offsets.put(SHADOW_PREFIX + group, topic, queue_id, record.pack())

    def is_behind(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Whether ``offset`` is in front of the stage that is open."""
        number = self._offsets.get(SHADOW_PREFIX + group, topic, queue_id)
        record = None if number is None else StageRecord.unpack(number)
        return record is not None and offset < record.queue_offset

    def forget(self, group: str) -> None:
        """The group's offsets were deleted."""
        self._offsets.remove_group(SHADOW_PREFIX + group)


def waiting_topic(group: str, topic: str) -> str:
    """What a pull that waits for the next stage is parked on: no message arrives there."""
    return f"{SHADOW_PREFIX}{group}@{topic}"
