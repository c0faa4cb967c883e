"""The partitions of namespaces that one broker has, and the brokers of the others.

The log of a partition is a logical queue of the namespace's topic, so it is placed and moved as
queues are. The broker of the queue's open end has the partition: it alone writes and reads it,
once it has the state that the queue's earlier records make.
"""

from collections.abc import Mapping
from typing import final

from attrs import define, field

from lanemq.storage import KvStates
from lanemq.storage.kv import NO_QUEUE, KvState
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import Moved, encode_answer, kv_topic, parse_partition, partition_name
from lanemq.wire.logical import Segment, SegmentState

from ...logical.rules._gate import Gate
from ...logical.rules._mapping import TopicMapping

LOST = (
    "the keys of namespace {} are lost: bring back the directory kv of the store from a copy, or "
    "import a snapshot with `lanemq kv import FILE --replace`"
)


@final
@define(eq=False, kw_only=True, repr=False)
class Partitions:
    """The partitions of one broker. ``mappings`` are its logical queues, by topic."""

    _broker_name: str
    _gate: Gate
    _mappings: Mapping[str, TopicMapping]
    _states: KvStates
    waits_for: dict[str, str] = field(init=False, factory=dict)
    """Name of a partition that is being taken over -> what it waits for. Until then its state
    may lack what its log has."""

    def find(self, namespace: str, partition: int, partitions: int) -> KvState:
        """Return the state of a partition that is open here.

        Raises ``Refused``: KV_MOVED for one that is elsewhere, or of a namespace that has another
        number of partitions, KV_NAMESPACE_NOT_EXIST, SYSTEM_BUSY while it moves,
        SERVICE_NOT_AVAILABLE while that is not known, KV_STATE_LOST.
        """
        state = self.open(namespace, partition, partitions)
        if state.meta.lost:
            raise Refused(ResponseCode.KV_STATE_LOST, LOST.format(namespace))
        return state

    def open(self, namespace: str, partition: int, partitions: int) -> KvState:
        """Return the state as ``find`` does, even if it is lost."""
        name = partition_name(namespace, partition)
        state = self._states.states.get(name)
        if state is None or not self.is_open(name):
            raise self._elsewhere(namespace, partition, partitions)
        if state.meta.partitions not in (0, partitions):
            raise self._moved(namespace, state.meta.partitions, None)
        return state

    def check_new(self, header: KvWrite) -> None:
        """Check that a partition which is not here may be one that never existed.

        Raises ``Refused`` as ``open`` where it is another broker's, or where the write does not
        say that it is to be made (see ``KvWrite``).
        """
        namespace, partition = header.namespace, header.partition
        end = self.end_of(partition_name(namespace, partition))
        is_elsewhere = end is not None and end.broker_name != self._broker_name
        is_known = self._has(namespace)
        if is_elsewhere or (is_known and header.create_at is None):
            raise self._elsewhere(namespace, partition, header.partitions)
        known = self._partitions_of(namespace, header.partitions)
        if is_known and known != header.partitions:
            raise self._moved(namespace, known, None)

    def _has(self, namespace: str) -> bool:
        return any(parse_partition(name)[0] == namespace for name in self._states.states)

    def is_open(self, name: str) -> bool:
        """Return whether a partition whose state is here takes reads and writes."""
        if name in self.waits_for:
            return False
        meta = self._states.states[name].meta
        namespace, partition = parse_partition(name)
        topic = kv_topic(namespace)
        mapping = self._mappings.get(topic)
        if mapping is None:  # made before namespaces had logical queues; that ends soon
            return meta.queue_id != NO_QUEUE
        segment = mapping.latest(meta.queue_id)
        return (
            segment is not None
            and segment.state is SegmentState.NORMAL
            and segment.logical_index == partition
            and segment.shift == meta.shift
            and (topic, meta.queue_id) not in self._gate.withheld
        )

    def end_of(self, name: str) -> Segment | None:
        """Return the open end of a partition's log, as far as it is known here."""
        namespace, partition = parse_partition(name)
        mapping = self._mappings.get(kv_topic(namespace))
        return None if mapping is None else mapping.chain(partition).normal

    def no_namespace(self, namespace: str) -> Refused:
        """Return the refusal for a namespace that is not here."""
        remark = f"there is no namespace {namespace!r} of keys at broker {self._broker_name}"
        return Refused(ResponseCode.KV_NAMESPACE_NOT_EXIST, remark)

    def _elsewhere(self, namespace: str, partition: int, partitions: int) -> Refused:
        """Return the refusal for a partition that is not open here; ``partitions`` is their number
        by the client."""
        name = partition_name(namespace, partition)
        end = self.end_of(name)
        if end is not None and end.broker_name != self._broker_name:
            return self._moved(namespace, self._partitions_of(namespace, partitions), end)
        if end is not None:
            unknown = self._gate.withheld.get((end.topic, end.queue_id))
            if unknown is not None:
                remark = f"partition {partition} of {namespace} is not open yet: {unknown}"
                return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
            if name in self.waits_for:
                remark = f"partition {partition} of {namespace} is moving: {self.waits_for[name]}"
                return Refused(ResponseCode.SYSTEM_BUSY, remark)
        if name in self._states.states:
            remark = f"partition {partition} of {namespace} is moving; try again in a moment"
            return Refused(ResponseCode.SYSTEM_BUSY, remark)
        if end is not None:
            remark = (
                f"partition {partition} of {namespace} was not made to the end: make it again, as "
                f"with `lanemq kv create --namespace {namespace} --partitions {partitions}`"
            )
            return Refused(ResponseCode.KV_NAMESPACE_NOT_EXIST, remark)
        if self._has(namespace):
            return self._moved(namespace, self._partitions_of(namespace, partitions), None)
        return self.no_namespace(namespace)

    def _partitions_of(self, namespace: str, otherwise: int) -> int:
        """Return the number of partitions as far as a state here knows it."""
        found = [
            state.meta.partitions
            for name, state in self._states.states.items()
            if parse_partition(name)[0] == namespace
        ]
        return max(found, default=0) or otherwise

    def _moved(self, namespace: str, partitions: int, end: Segment | None) -> Refused:
        remark = f"namespace {namespace} has {partitions} partitions, and this one is elsewhere"
        moved = Moved(partitions)
        if end is not None:
            moved = Moved(partitions, end.broker_name, end.broker_address)
            remark = f"this partition of {namespace} is at broker {end.broker_name}"
        return Refused(ResponseCode.KV_MOVED, remark, encode_answer(moved))
