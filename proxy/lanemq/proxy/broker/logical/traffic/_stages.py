"""Stages of a group in a logical queue whose commits and earlier segments may be on other brokers.

A pull of the segment that the queue ends with is judged by what this broker keeps. Behind it,
commits go to the broker of the end, which is asked; and the first pull of a segment asks the
broker of the one before how far the group was counted there.
"""

from collections.abc import Mapping
from typing import Final, Self, final

from attrs import define, field

from lanemq.storage import OffsetTable
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import SubscriptionGroupConfig
from lanemq.wire.frame import request
from lanemq.wire.headers import QueryConsumerOffset
from lanemq.wire.logical import NOT_SET, Segment, parse_progress_topic, progress_topic
from lanemq.wire.message import StageRecord

from ....logical.rules._mapping import TopicMapping
from ....net._turns import Steps, step_by_step
from ....sessions.state._stages import SHADOW_PREFIX, GroupStages, Key, Part, stages_of
from ....sessions.values._framed import GroupOffset
from ...cluster._peers import Peers
from ...context._context import BrokerContext
from ...state._groups import Groups
from ..state._progress import LogicalProgress
from ..state._view import ASK_S

KNOWN_MAX: Final = 10_000
"""Most groups' offsets from other brokers that are remembered; beyond it all are asked for
again."""


class AskFirst(Exception):  # noqa: N818 - what it is, not a fault
    """The answer to a pull depends on other brokers, which have to be asked first."""

    def __init__(self, part: Part, segment: Segment) -> None:
        super().__init__(str(segment))
        self.part = part
        self.segment = segment


@final
@define(eq=False, kw_only=True, repr=False)
class StageCounts:
    """The counts of groups with stages, up to the ends of sealed segments."""

    _groups: Groups
    _mappings: Mapping[str, TopicMapping]
    _stages: GroupStages

    @classmethod
    def of(cls, broker: BrokerContext) -> Self:
        """Return those of ``broker``."""
        return cls(groups=broker.groups, mappings=broker.logical.mappings, stages=broker.stages)

    def count_out(self, shadow: str, kept_topic: str, index: int) -> Steps[None]:
        """Count a group to the end of a sealed segment, in steps, before its record is told to
        others.

        ``shadow`` and ``kept_topic`` are names as records of stages are kept by; others mean
        nothing.
        """
        place = parse_progress_topic(kept_topic)
        if place is None or not shadow.startswith(SHADOW_PREFIX):
            return
        group, mapping = shadow.removeprefix(SHADOW_PREFIX), self._mappings.get(place.topic)
        config = self._groups.get(group)
        for segment in mapping.chain(index) if mapping is not None and config is not None else ():
            assert mapping is not None
            assert config is not None
            if segment.delta == place.delta and mapping.is_own(segment) and not segment.is_empty:
                yield from self._stages.count_out(stages_of(config), _part(group, segment))


@final
@define(eq=False, kw_only=True, repr=False)
class LogicalStages:
    """One broker's knowledge of groups with stages in logical queues."""

    _broker_name: str
    _counts: StageCounts
    _logical_progress: LogicalProgress
    _mappings: Mapping[str, TopicMapping]
    _offsets: OffsetTable
    _peers: Peers
    _stages: GroupStages
    _committed: dict[Key, int | None] = field(factory=dict, init=False)

    @classmethod
    def of(cls, broker: BrokerContext) -> Self:
        """Return the knowledge of ``broker``."""
        return cls(
            broker_name=broker.config.broker_name,
            counts=StageCounts.of(broker),
            logical_progress=broker.logical_progress,
            mappings=broker.logical.mappings,
            offsets=broker.store.tables.consumer_offsets,
            peers=broker.peers,
            stages=broker.stages,
        )

    def part(
        self,
        group: SubscriptionGroupConfig,
        mapping: TopicMapping,
        queue_id: int,
        queue_offset: int,
        *,
        may_ask: bool,
    ) -> Part:
        """Return the part that a pull reads. With ``may_ask`` it raises ``AskFirst`` where too
        little is known."""
        name, topic = group.group_name, mapping.topic
        segment = mapping.at(queue_id, queue_offset)
        if segment is None or segment.delta < 0 or not stages_of(group):
            return Part.whole(name, topic, queue_id)
        part = _part(name, segment)
        part = part._replace(committed=self._committed.get(part.key))
        if may_ask and self._is_little_known(part, segment, mapping):
            raise AskFirst(part, segment)
        return part

    def _is_little_known(self, part: Part, segment: Segment, mapping: TopicMapping) -> bool:
        if segment.is_sealed:
            return True  # commits go elsewhere
        if not _before(mapping, segment):
            return False
        record = self._stages.record(part.key)
        if record is None or record.queue_offset < part.begin:
            return True
        kept = self._offsets.get(*part.key)
        return kept is None and part.key not in self._committed

    async def learn(self, asked: AskFirst) -> None:
        """Ask the other brokers. One that does not answer is passed over."""
        part, segment = asked.part, asked.segment
        stages, mapping = self._stages, self._mappings[segment.topic]
        record = stages.record(part.key)
        before = _before(mapping, segment)
        if before and (record is None or record.queue_offset < part.begin):
            found = await self._find(SHADOW_PREFIX + part.key[0], before)
            there = None if found is None else StageRecord.unpack(found)
            if there is None:
                there = record
            if there is not None:
                stages.put(part.key, StageRecord(part.begin, there.stage_offset))
        chain = [s for s in reversed(mapping.chain(segment.logical_index)) if s.delta >= 0]
        committed = await self._find(part.key[0], chain)
        if len(self._committed) >= KNOWN_MAX:
            self._committed.clear()
        self._committed[part.key] = committed

    async def _find(self, group: str, segments: list[Segment]) -> int | None:
        """Return the first offset that any broker of ``segments`` keeps."""
        for segment in segments:
            topic, index = progress_topic(segment.topic, segment.delta), segment.logical_index
            if segment.broker_name == self._broker_name:
                await step_by_step(self._counts.count_out(group, topic, index))
                kept = self._logical_progress.kept(group, topic, index)
                if kept is not None:
                    return kept
                continue
            header = QueryConsumerOffset(group, topic, index, set_zero_if_not_found=False)
            asked = request(RequestCode.QUERY_CONSUMER_OFFSET, header.to_fields())
            name, address = segment.broker_name, segment.broker_address
            try:
                answer = await self._peers.call(name, address, asked, ASK_S)
            except Refused:
                continue
            kept = GroupOffset.read(answer).offset
            if answer.code == ResponseCode.SUCCESS and kept != NOT_SET:
                return kept
        return None


def _before(mapping: TopicMapping, segment: Segment) -> list[Segment]:
    """Return the segments of the logical queue before a given one, the latest first."""
    chain = mapping.chain(segment.logical_index)
    found = [s for s in chain if 0 <= s.delta < segment.delta and not s.is_empty]
    return found[::-1]


def _part(group: str, segment: Segment) -> Part:
    return Part(
        segment.topic,
        segment.queue_id,
        (group, progress_topic(segment.topic, segment.delta), segment.logical_index),
        segment.shift,
        segment.delta,
        segment.end_offset,
    )
