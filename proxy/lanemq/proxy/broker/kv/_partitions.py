"""The partitions of namespaces that one broker has, and the brokers of the others.

The log of a partition is a logical queue of the namespace's topic, so it is placed and moved as
queues are. The broker of the queue's open end has the partition: it alone writes and reads it,
once it has the state that the queue's earlier records make.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, final

from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import KvStates
from lanemq.storage.kv import NO_QUEUE, KvLog, KvState
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import Moved, encode_answer, kv_topic, parse_partition, partition_name
from lanemq.wire.logical import Segment, SegmentState

from ...logical.rules._gate import Gate
from ...logical.rules._mapping import TopicMapping
from ...sessions.keys._checks import check_place
from ...sessions.keys._remarks import DELETED, IMPORTING, LOST

LOGGER: Final = get_logger("lanemq.proxy.kv", by_peers=True)
REMOVED = "what is left of the deleted namespace {!r} is being removed; try again in a moment"


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
    followed: set[str] = field(init=False, factory=set)
    """Partitions whose logs end here, and whose states were looked for since the start: only of
    these a missing state means that the partition was not created to the end."""

    _removing: set[str] = field(init=False, factory=set)

    @contextmanager
    def removing(self, names: Iterable[str]) -> Iterator[None]:
        """Create none of these partitions within the block: what was deleted is being removed."""
        added = set(names) - self._removing
        self._removing |= added
        try:
            yield
        finally:
            self._removing -= added

    def find(self, namespace: str, partition: int, partitions: int) -> KvState:
        """Return the state of a partition that is open here.

        Raises ``Refused``: KV_MOVED for one that is elsewhere, or of a namespace that has another
        number of partitions, KV_NAMESPACE_NOT_EXIST, SYSTEM_BUSY while it moves,
        SERVICE_NOT_AVAILABLE while that is not known, KV_STATE_LOST.
        """
        state = self.open(namespace, partition, partitions)
        if state.meta.importing:
            raise Refused(ResponseCode.SYSTEM_BUSY, IMPORTING.format(namespace))
        if state.meta.lost:
            raise Refused(ResponseCode.KV_STATE_LOST, LOST.format(namespace))
        return state

    def log(self, namespace: str, partition: int) -> KvLog:
        """Return the log of a partition whose state is here, or the part of it that is."""
        return self._states.logs[partition_name(namespace, partition)]

    def open(self, namespace: str, partition: int, partitions: int) -> KvState:
        """Return the state as ``find`` does, even if it is lost."""
        check_place(partition, partitions)
        name = partition_name(namespace, partition)
        state = self._states.states.get(name)
        if state is not None and state.meta.deleted:
            raise Refused(ResponseCode.KV_NAMESPACE_NOT_EXIST, DELETED.format(namespace))
        if state is None or not self.is_open(name):
            raise self._elsewhere(namespace, partition, partitions)
        if state.meta.partitions not in (0, partitions):
            raise self.moved(namespace, state.meta.partitions, None)
        return state

    def check_deleted(self, name: str, header: KvWrite) -> None:
        """Refuse (SYSTEM_BUSY) to create a partition while its deleted state is being removed."""
        state = self._states.states.get(name)
        if state is not None and state.meta.deleted and header.create_at is not None:
            raise Refused(ResponseCode.SYSTEM_BUSY, REMOVED.format(header.namespace))

    def check_new(self, header: KvWrite) -> None:
        """Check that a partition which is not here may be one that never existed.

        Raises ``Refused`` as ``open`` where it is another broker's, or where the write does not
        say that it is to be made (see ``KvWrite``).
        """
        namespace, partition = header.namespace, header.partition
        name = partition_name(namespace, partition)
        end = self.end_of(name)
        is_elsewhere = end is not None and end.broker_name != self._broker_name
        is_awaited = end is not None and name not in self.followed
        if name in self._removing:
            raise Refused(ResponseCode.SYSTEM_BUSY, REMOVED.format(namespace))
        is_known = self.has(namespace)
        is_awaited = is_awaited or (is_known and bool(self._states.why_closed(name)))
        if is_elsewhere or is_awaited or (is_known and header.create_at is None):
            raise self._elsewhere(namespace, partition, header.partitions)
        known = self._partitions_of(namespace, header.partitions)
        if is_known and known != header.partitions:
            raise self.moved(namespace, known, None)

    @property
    def count_here(self) -> int:
        """The number of partitions at this broker, without those that were deleted or have gone."""
        return sum(
            not state.meta.deleted and state.meta.queue_id != NO_QUEUE
            for state in self._states.states.values()
        )

    def has(self, namespace: str) -> bool:
        """Return whether anything of a namespace is known here: a log, or a state of an old one.

        A log is known from the start on; its state may come later.
        """
        mapping = self._mappings.get(kv_topic(namespace))
        if mapping is not None and any(map(len, mapping.queues.values())):
            return True
        return any(parse_partition(name)[0] == namespace for name in self._states.states)

    def is_open(self, name: str) -> bool:
        """Return whether a partition whose state is here takes reads and writes."""
        if name in self.waits_for or self._states.why_closed(name):
            return False
        meta = self._states.states[name].meta
        if meta.deleted:
            return False
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

    def ends_here(self, name: str) -> bool:
        """Return whether the log of a partition continues at this broker, whatever else is here."""
        end = self.end_of(name)
        if end is not None:
            return end.broker_name == self._broker_name
        state, (namespace, _) = self._states.states.get(name), parse_partition(name)
        is_old = kv_topic(namespace) not in self._mappings  # before logical queues
        return is_old and state is not None and state.meta.queue_id != NO_QUEUE

    def end_of(self, name: str) -> Segment | None:
        """Return the open end of a partition's log, as far as it is known here."""
        namespace, partition = parse_partition(name)
        mapping = self._mappings.get(kv_topic(namespace))
        return None if mapping is None else mapping.chain(partition).normal

    def no_partition(self, namespace: str) -> Refused:
        """Return the refusal where no state of a namespace is here: "not yet" if its log is."""
        if self.has(namespace):
            remark = f"the keys of namespace {namespace} are not open yet; try again in a moment"
            return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        return self.no_namespace(namespace)

    def not_here(self, namespace: str, partition: int, position: int) -> Refused:
        """Return the refusal where a state is asked for that is not here, and cannot be made."""
        end = self.end_of(partition_name(namespace, partition))
        if end is None or end.broker_name == self._broker_name:
            return self.no_partition(namespace)
        remark = (
            f"the state of partition {partition} of {namespace} at record {position} is no longer "
            f"here, and cannot be made here: it went to broker {end.broker_name}"
        )
        return Refused(ResponseCode.KV_NAMESPACE_NOT_EXIST, remark)

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
            return self.moved(namespace, self._partitions_of(namespace, partitions), end)
        closed = self._states.why_closed(name)
        if closed and self.has(namespace):
            return self._not_yet(namespace, partition, closed)
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
        if end is not None and name not in self.followed:
            remark = f"partition {partition} of {namespace} is not open yet: its state is awaited"
            return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        if end is not None:
            remark = (
                f"partition {partition} of {namespace} was not made to the end: create the "
                f"namespace again, with {partitions} partitions"
            )
            return Refused(ResponseCode.KV_NAMESPACE_NOT_EXIST, remark)
        if self.has(namespace):
            return self.moved(namespace, self._partitions_of(namespace, partitions), None)
        return self.no_namespace(namespace)

    def _not_yet(self, namespace: str, partition: int, why: str) -> Refused:
        remark = f"partition {partition} of {namespace} is not open yet ({why}); try again soon"
        return Refused(ResponseCode.SYSTEM_BUSY, remark)

    def unreadable(self, namespace: str, partition: int, error: OSError) -> Refused:
        """Return the refusal for an error of the disk: not yet, for what is damaged is made
        again."""
        LOGGER.error("partition %d of %s cannot be read: %s", partition, namespace, error)
        why = self._states.why_closed(partition_name(namespace, partition))
        return self._not_yet(namespace, partition, why or "it cannot be read now")

    def _partitions_of(self, namespace: str, otherwise: int) -> int:
        """Return the number of partitions as far as a state here knows it."""
        found = [
            state.meta.partitions
            for name, state in self._states.states.items()
            if parse_partition(name)[0] == namespace
        ]
        return max(found, default=0) or otherwise

    def moved(self, namespace: str, partitions: int, end: Segment | None) -> Refused:
        """Return the refusal (KV_MOVED) for a partition whose log continues at ``end``, or for a
        namespace with another number of partitions."""
        remark = f"namespace {namespace} has {partitions} partitions, and this one is elsewhere"
        moved = Moved(partitions)
        if end is not None:
            moved = Moved(partitions, end.broker_name, end.broker_address)
            remark = f"this partition of {namespace} is at broker {end.broker_name}"
        return Refused(ResponseCode.KV_MOVED, remark, encode_answer(moved))
