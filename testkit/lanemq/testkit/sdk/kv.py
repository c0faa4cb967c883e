"""The cluster in memory with keys: partitions at brokers that redirect, move, and are busy.

What a client can tell apart: who has which partition, what was asked how often, and results that
are remembered by the numbers of writes. Name servers learn of a move when a test says so.
"""

from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec
import trio

from lanemq.wire import Refused, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvGet, KvMultiGet, KvScan, KvStatus, KvWatch, KvWrite
from lanemq.wire.kv import (
    LONE_BROKER,
    OF_LEASES,
    Action,
    Change,
    ChangeKind,
    Changes,
    Entry,
    LoadedEntry,
    Moved,
    NamespaceStatus,
    OpType,
    Page,
    Step,
    StepResult,
    WriteAnswer,
    decode_key,
    decode_load,
    decode_steps,
    decode_terms,
    encode_answer,
    kv_topic,
    partition_of,
)
from lanemq.wire.logical import Chain, LogicalQueues, Segment, SegmentState

from .cluster import FakeBroker, FakeCluster, Peer

KvRequest = KvWrite | KvGet | KvMultiGet | KvScan | KvWatch | KvStatus
HEADERS: dict[int, type[KvRequest]] = {
    RequestCode.KV_WRITE: KvWrite,
    RequestCode.KV_GET: KvGet,
    RequestCode.KV_MULTI_GET: KvMultiGet,
    RequestCode.KV_SCAN: KvScan,
    RequestCode.KV_WATCH: KvWatch,
    RequestCode.KV_STATUS: KvStatus,
}
BUSY = Refused(ResponseCode.SYSTEM_BUSY, "the partition is being moved")

UNCONDITIONAL = frozenset(
    {OpType.CLEAR, OpType.LOAD, OpType.CREATE, OpType.IMPORT, OpType.IMPORTED}
)


@dataclass
class FakePartition:
    """The state of a partition, which goes with it wherever it is."""

    number: int
    partitions: int
    holder: str
    entries: dict[bytes, Entry] = field(default_factory=dict)
    position: int = 0
    changes: list[Change] = field(default_factory=list)
    leases: set[int] = field(default_factory=set)
    """The leases that are granted; they end when they are revoked, and not by their time."""
    results: dict[tuple[str, int], WriteAnswer] = field(default_factory=dict)
    is_moving: bool = False
    arrived: trio.Event = field(default_factory=trio.Event)

    def write(self, op_type: str, header: KvWrite, body: bytes) -> WriteAnswer:
        """Apply a write, or tell the result of one that was repeated."""
        key = (header.client or "", header.sequence or 0)
        if header.client is not None and key in self.results:
            return self.results[key]
        is_kept = op_type in (OpType.ALIVE, OpType.REVOKE)
        if is_kept and decode_terms(op_type, body).lease not in self.leases:
            raise Refused(ResponseCode.KV_LEASE_NOT_EXIST, "there is no such lease")
        answer = self._apply(op_type, body)
        if header.client is not None:
            self.results[key] = answer
        self.position += 1
        arrived, self.arrived = self.arrived, trio.Event()
        arrived.set()
        return answer

    def _apply(self, op_type: str, body: bytes) -> WriteAnswer:
        if op_type in (OpType.CLEAR, OpType.IMPORT):
            self.entries.clear()
        if op_type == OpType.LOAD:
            for one in decode_load(body):
                self._load(one)
        if op_type in OF_LEASES:
            return WriteAnswer(self._lease(op_type, body), self.position)
        if op_type in UNCONDITIONAL:
            return WriteAnswer(True, self.position)
        steps = decode_steps(op_type, body)
        for step in steps:
            assert partition_of(step.key, self.partitions) == self.number, "another one's key"
        results = tuple(self._judge(step) for step in steps)
        done = all(result.holds for result in results)
        if done:
            results = tuple(self._do(step, index) for index, step in enumerate(steps))
        return WriteAnswer(done, self.position, results)

    def _lease(self, op_type: str, body: bytes) -> bool:
        lease = decode_terms(op_type, body).lease
        if op_type == OpType.LEASE:
            is_new = lease not in self.leases
            self.leases.add(lease)
            return is_new
        if op_type == OpType.REVOKE:
            self.leases.remove(lease)
            for key in [key for key, one in self.entries.items() if one.lease == lease]:
                self._do(Step(key, Action.DELETE), len(self.changes))
        return True

    def _load(self, one: LoadedEntry) -> None:
        assert partition_of(one.key, self.partitions) == self.number, "another one's key"
        times = one.create_time_ms, one.update_time_ms, one.expires_ms
        self.entries[one.key] = Entry(one.key, one.value, one.version, self.position, *times)

    def _judge(self, step: Step) -> StepResult:
        entry = self.entries.get(step.key)
        version, value = (entry.version, entry.value) if entry else (0, None)
        holds = step.if_version in (None, version) and step.if_value in (None, value)
        return StepResult(version, holds)

    def _do(self, step: Step, index: int) -> StepResult:
        old = self.entries.get(step.key)
        version = old.version if old else 0
        if step.action == Action.PUT:
            version += 1
            assert not step.lease or step.lease in self.leases, "it is granted first"
            self.entries[step.key] = Entry(
                step.key, step.value, version, self.position, 1, 2, lease=step.lease
            )
            put = (ChangeKind.PUT, step.key, version, step.value)
            self.changes.append(Change(self.position, index, *put))
        elif step.action == Action.DELETE and self.entries.pop(step.key, None) is not None:
            gone = (ChangeKind.DELETE, step.key, version)
            self.changes.append(Change(self.position, index, *gone))
        return StepResult(version)

    @property
    def state_hash(self) -> str:
        rows = sorted((e.key, e.value, e.version) for e in self.entries.values())
        return blake2b(repr(rows).encode(), digest_size=32).hexdigest()


class KvBroker(FakeBroker):
    """A broker with keys."""

    def __init__(self, nursery: trio.Nursery, address: str, name: str) -> None:
        super().__init__(nursery, address, name)
        self.kv: KvCluster
        self.knows_holders = True
        """True if its redirects say where a partition is."""
        self.page_entries_max = 1000
        self.watches_max = 1000
        """The requests that may wait here at once, for changes."""
        self.waiting: list[tuple[str, int]] = []
        """The partitions whose watchers wait here now."""
        for code in HEADERS:
            self.handlers[code] = self._keys
        self.waiters[RequestCode.KV_WATCH] = self._watch

    def asked(self, code: int) -> list[tuple[int | None, int]]:
        """The partition, and the number of partitions, of each request of a code."""
        kind = HEADERS[code]
        headers = [kind.from_fields(f.fields) for f in self.requests if f.code == code]
        return [(header.partition, header.partitions) for header in headers]

    def _keys(self, frame: Frame, peer: Peer) -> Frame:
        header = HEADERS[frame.code].from_fields(frame.fields)
        try:
            state = self._partition(header)
        except _PartitionMoved as error:
            return frame.reply(ResponseCode.KV_MOVED, body=encode_answer(error.moved))
        try:
            return frame.reply(body=encode_answer(self._found(state, header, frame.body)))
        except RemoteProtocolError as error:
            return frame.reply(ResponseCode.INVALID_PARAMETER, remark=str(error))

    def _partition(self, header: KvRequest) -> FakePartition:
        parts = self.kv.namespaces.setdefault(header.namespace or "", {})
        number = header.partition or 0
        there = next(iter(parts.values()), None)
        if there is not None and there.partitions != header.partitions:
            raise _PartitionMoved(self._moved(parts.get(number), there.partitions))
        state = parts.get(number)
        if state is None:
            wanted = header.create_at if isinstance(header, KvWrite) else None
            if wanted not in (self.name, LONE_BROKER):
                code = ResponseCode.KV_NAMESPACE_NOT_EXIST
                raise Refused(code, f"there is no namespace {header.namespace!r} at {self.name}")
            state = parts[number] = FakePartition(number, header.partitions, self.name)
            self.kv.publish(header.namespace or "")
        if state.holder != self.name:
            raise _PartitionMoved(self._moved(state, state.partitions))
        if state.is_moving:
            raise BUSY
        return state

    def _moved(self, state: FakePartition | None, partitions: int) -> Moved:
        if state is None or not self.knows_holders:
            return Moved(partitions)
        return Moved(partitions, state.holder, self.kv.named(state.holder).address)

    def _found(self, state: FakePartition, header: KvRequest, body: bytes) -> object:
        match header:
            case KvWrite():
                return state.write(header.op_type, header, body)
            case KvGet():
                return state.entries.get(decode_key(header.key))
            case KvMultiGet():
                keys = msgspec.msgpack.decode(body, type=list[bytes])
                # One at a time, as where values are large.
                return [state.entries.get(key) for key in keys[:1]]
            case KvScan():
                return self._page(state, header)
            case KvStatus():
                return [self._status(state, header)]
        raise AssertionError(header)

    def _page(self, state: FakePartition, header: KvScan) -> Page:
        prefix, cursor = decode_key(header.prefix), decode_key(header.cursor or "")
        keys = sorted(k for k in state.entries if k.startswith(prefix) and k >= cursor)
        count = min(header.limit, self.page_entries_max)
        more = keys[count] if len(keys) > count else None
        snapshot = None if more is None or header.snapshot is None else f"s{state.position}"
        found = [state.entries[key] for key in keys[:count]]
        return Page(found, more, state.position, 1000 + state.number, snapshot)

    def _status(self, state: FakePartition, header: KvStatus) -> NamespaceStatus:
        return NamespaceStatus(
            header.namespace or "",
            len(state.entries),
            sum(len(e.key) + len(e.value) for e in state.entries.values()),
            state.position,
            1000 + state.number,
            state.state_hash,
            0,
            lost=False,
            engine="memory",
            partition=state.number,
            partitions=state.partitions,
            broker=self.name,
        )

    async def _watch(self, frame: Frame, peer: Peer) -> Frame:
        header = KvWatch.from_fields(frame.fields)
        place = header.namespace, header.partition
        try:
            state = self._partition(header)
        except _PartitionMoved as error:
            return frame.reply(ResponseCode.KV_MOVED, body=encode_answer(error.moved))
        except Refused as error:
            return frame.reply(error.code, remark=error.remark)
        if header.wait_millis and len(self.waiting) >= self.watches_max:
            return frame.reply(BUSY.code, remark=f"{len(self.waiting)} watches wait")
        self.waiting.append(place)
        try:
            with trio.move_on_after(header.wait_millis / 1000):
                while not self._changes(state, header):
                    await state.arrived.wait()
        finally:
            self.waiting.remove(place)
        found = self._changes(state, header)
        if len(found) > header.limit:
            after = found[header.limit]
            answer = Changes(found[: header.limit], after.position, after.index)
        else:
            answer = Changes(found, state.position)
        return frame.reply(body=encode_answer(answer))

    @staticmethod
    def _changes(state: FakePartition, header: KvWatch) -> list[Change]:
        prefix, begin = decode_key(header.prefix), (header.position, header.index)
        return [
            change
            for change in state.changes
            if (change.position, change.index) >= begin and change.key.startswith(prefix)
        ]


class _PartitionMoved(Exception):  # noqa: N818 - an answer
    def __init__(self, moved: Moved) -> None:
        self.moved = moved


class KvCluster(FakeCluster):
    """A name server and brokers with keys."""

    def __init__(self, nursery: trio.Nursery, *, brokers: int) -> None:
        super().__init__(nursery)
        self.namespaces: dict[str, dict[int, FakePartition]] = {}
        self.add_name_server()
        self.kv_brokers: list[KvBroker] = []
        for _ in range(brokers):
            broker = self.add_broker(KvBroker)
            assert isinstance(broker, KvBroker)
            broker.kv = self
            self.kv_brokers.append(broker)

    def named(self, name: str) -> KvBroker:
        return next(broker for broker in self.kv_brokers if broker.name == name)

    def make(self, partitions: int, namespace: str = "default", *, listed: bool = True) -> None:
        """Make a namespace whose partitions are at the brokers in turn."""
        names = [broker.name for broker in self.kv_brokers]
        self.namespaces[namespace] = {
            number: FakePartition(number, partitions, names[number % len(names)])
            for number in range(partitions)
        }
        if listed:
            self.publish(namespace)

    def move(self, partition: int, to: str, *, listed: bool = True) -> None:
        """Have another broker take over a partition of the namespace ``default``."""
        self.namespaces["default"][partition].holder = to
        if listed:
            self.publish("default")

    def publish(self, namespace: str, *, without: frozenset[int] = frozenset()) -> None:
        """Register the partitions at the name servers; those ``without`` have no open end."""
        topic = kv_topic(namespace)
        parts = self.namespaces[namespace].values()
        for broker in self.kv_brokers:
            chains = [
                Chain(part.number, [_segment(topic, broker, part, part.number in without)])
                for part in parts
                if part.holder == broker.name
            ]
            broker.topics.pop(topic, None)
            broker.chains.pop(topic, None)
            if chains:
                broker.create_topic(topic, len(chains))
                broker.chains[topic] = LogicalQueues(chains)

    def publish_without_logical_queues(self, namespace: str = "default") -> None:
        """Register the topic alone, as older brokers do."""
        self.publish(namespace)
        for broker in self.kv_brokers:
            broker.chains.pop(kv_topic(namespace), None)

    def written(self, namespace: str = "default") -> dict[bytes, bytes]:
        """The entries of all partitions."""
        parts = self.namespaces[namespace].values()
        return {e.key: e.value for part in parts for e in part.entries.values()}


def _segment(topic: str, broker: KvBroker, part: FakePartition, is_sealed: bool) -> Segment:
    return Segment(
        MessageQueue(topic, broker.name, part.number),
        part.number,
        delta=0,
        state=SegmentState.READ_ONLY if is_sealed else SegmentState.NORMAL,
        offset_max=part.position if is_sealed else -1,
        broker_address=broker.address,
    )
