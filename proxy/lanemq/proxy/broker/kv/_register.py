"""Reads of keys, and the registration of all requests for keys and values."""

import logging
from collections.abc import Callable
from typing import Final, final

import msgspec
import trio
from attrs import define, field

from lanemq.storage import KvStates
from lanemq.storage.kv import Frozen, KvState, SnapshotGone, read_entry, read_page, read_rows
from lanemq.wire import Refused, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvGet, KvMultiGet, KvScan, KvStatus, KvWatch, KvWrite
from lanemq.wire.headers import KvState as KvStateHeader
from lanemq.wire.kv import (
    STEPS_MAX,
    VALUE_BYTES_MAX,
    Entry,
    NamespaceStatus,
    check_key,
    parse_partition,
    partition_name,
)

from ...net._dispatch import Handlers, by_header, typed
from ...net._session import Session
from ..context._context import BrokerContext
from ..logical.state._view import LogicalView
from ..settings._config import BrokerConfig
from ._checks import decoded_key
from ._fetching import StateFetcher
from ._leftovers import Leftovers
from ._namespaces import NewNamespaces
from ._partitions import Partitions
from ._queues import PartitionQueues
from ._result import KvResult, add_encoder
from ._snapshots import NEW, Snapshots
from ._takeovers import Takeovers
from ._watches import Watches
from ._writes import KvWrites

LOGGER = logging.getLogger("lanemq.proxy.kv")
TICK_S: Final = 0.25
CONSISTENCIES: Final = frozenset({"linearizable", "local"})
_KEYS: Final = msgspec.msgpack.Decoder(list[bytes])


@final
@define(eq=False, kw_only=True, repr=False)
class KvRequests:
    """Answers requests for keys and values; ``run`` is its task.

    A broker that holds the log of a namespace applies a record before it answers its writer. So
    what it has applied is all that anybody can know of, and a read of it is linearizable.
    """

    _config: BrokerConfig
    _now_ms: Callable[[], int]
    _now_s: Callable[[], float]
    _partitions: Partitions
    _states: KvStates
    takeovers: Takeovers
    """The partitions that come and go; its ``run`` is a task."""
    writes: KvWrites
    _snapshots: Snapshots = field(init=False, factory=Snapshots)

    async def run(self) -> None:
        """Let entries expire, and answer writers whose time is up, until cancelled."""
        await self._states.in_use.wait()
        try:
            while True:
                await trio.sleep(TICK_S)
                if not self._states.states:
                    continue
                self.writes.expire(self._now_s())
                self._snapshots.expire(self._now_s())
                try:
                    self.writes.tick(self._now_ms())
                except Refused as error:
                    LOGGER.warning("entries do not expire now: %s", error.remark)
        finally:
            self._snapshots.clear()

    # Reads

    def get(self, header: KvGet) -> KvResult:
        """Answer an entry, or nil where there is none."""
        _check_consistency(header.consistency)
        key = decoded_key(header.key, "key")
        _checked(key)
        return KvResult.of(read_entry(self._state(header), key))

    def multi_get(self, header: KvMultiGet, frame: Frame, session: Session) -> KvResult:
        """Answer the entries of the first keys, as many as have 4 MiB of values together."""
        _check_consistency(header.consistency)
        try:
            keys = _KEYS.decode(frame.body)
        except msgspec.MsgspecError as error:
            remark = f"the keys cannot be read: {error}"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark) from error
        if len(keys) > STEPS_MAX:
            remark = f"{len(keys)} keys are asked for, at most {STEPS_MAX} are taken"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        state = self._state(header)
        found: list[Entry | None] = []
        size_bytes = 0
        for key in keys:
            _checked(key)
            entry = read_entry(state, key)
            found.append(entry)
            size_bytes += len(entry.value) if entry is not None else 0
            if size_bytes > VALUE_BYTES_MAX:
                break
        return KvResult.of(found)

    def scan(self, header: KvScan) -> KvResult:
        """Answer a page of entries under a prefix."""
        now_s = self._now_s()
        whole = self._state(header)
        state: KvState | Frozen = whole
        partition = partition_name(header.namespace, header.partition)
        name = header.snapshot
        if name == NEW:
            self._snapshots.expire(now_s)
            self._snapshots.check_room()
            state = whole.freeze()
            name = self._snapshots.add(partition, state, now_s)
        elif name is not None:
            state = self._snapshots.get(name, partition, now_s)
        try:
            page = read_page(
                state,
                decoded_key(header.prefix, "prefix"),
                cursor=None if header.cursor is None else decoded_key(header.cursor, "cursor"),
                limit=header.limit,
                keys_only=header.keys_only,
            )
        except SnapshotGone as error:
            raise Refused(ResponseCode.KV_COMPACTED, f"{error}: begin anew") from error
        if name is not None:
            if page.cursor is None:
                self._snapshots.remove(name)
            else:
                page = msgspec.structs.replace(page, snapshot=name)
        return KvResult.of(page)

    def status(self, header: KvStatus) -> KvResult:
        """Answer the status of one partition, or of all that are here of a namespace, or of all."""
        namespace, partition = header.namespace, header.partition
        if namespace is not None and partition is not None:
            self._partitions.open(namespace, partition, header.partitions)
            names = [partition_name(namespace, partition)]
        else:
            names = sorted(
                name
                for name in self._states.states
                if namespace is None or parse_partition(name)[0] == namespace
            )
            if namespace is not None and not names:
                raise self._partitions.no_namespace(namespace)
        asked = header.partitions
        return KvResult.of([self._status(name, asked) for name in names])

    def _status(self, name: str, partitions: int) -> NamespaceStatus:
        state = self._states.states[name]
        meta = state.meta
        return NamespaceStatus(
            parse_partition(name)[0],
            meta.entries,
            meta.entry_bytes,
            meta.next,
            meta.clock_ms,
            state.hash,
            meta.changes_from,
            meta.lost,
            self._states.engine_name,
            parse_partition(name)[1],
            meta.partitions or partitions,
            self._config.broker_name,
            self._partitions.is_open(name),
        )

    async def state(self, header: KvStateHeader) -> KvResult:
        """Answer rows of a partition that is closed here, to the broker that it moves to."""
        name = partition_name(header.namespace, header.partition)
        state = await self.takeovers.made_for(name, header.position)
        if state is None and name in self._partitions.waits_for:
            remark = f"partition {header.partition} of {header.namespace} is on its way here"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        if state is None:
            raise self._partitions.no_namespace(header.namespace)
        if self._partitions.is_open(name) or state.meta.next != header.position:
            remark = (
                f"partition {header.partition} of {header.namespace} is at record "
                f"{state.meta.next} here, and {header.position} is asked for"
            )
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        cursor = None if header.cursor is None else decoded_key(header.cursor, "cursor")
        return KvResult.of(read_rows(state, cursor))

    def _state(self, header: KvGet | KvMultiGet | KvScan) -> KvState:
        return self._partitions.find(header.namespace, header.partition, header.partitions)


def _check_consistency(name: str) -> None:
    if name not in CONSISTENCIES:
        remark = f"there is no consistency {name!r}; there are linearizable and local"
        raise Refused(ResponseCode.INVALID_PARAMETER, remark)


def _checked(key: bytes) -> None:
    try:
        check_key(key)
    except RemoteProtocolError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error


def register(
    handlers: Handlers,
    broker: BrokerContext,
    *,
    is_alone: Callable[[], bool],
    view: LogicalView,
) -> KvRequests | None:
    """Register the requests for keys and values; None, without any, where they are switched off.

    ``is_alone`` says whether the broker has never had another one beside it.
    """
    states = broker.store.kv
    if states is None:
        return None
    broker_name = broker.config.broker_name
    partitions = Partitions(
        broker_name=broker_name,
        gate=broker.logical.gate,
        mappings=broker.logical.mappings,
        states=states,
    )
    queues = PartitionQueues(
        announced=broker.announced,
        logical=broker.logical,
        states=states,
        topics=broker.topics,
        view=view,
    )
    watches = Watches(partitions=partitions, states=states)
    fetcher = StateFetcher(peers=broker.peers, states=states)
    takeovers = Takeovers(
        bounds=broker.store.bounds,
        broker_name=broker_name,
        fetcher=fetcher,
        leftovers=Leftovers(
            broker_name=broker_name, fetcher=fetcher, partitions=partitions, states=states
        ),
        logical=broker.logical,
        partitions=partitions,
        queues=queues,
        states=states,
        wake=watches.wake,
    )
    broker.on_mapping_changed.append(takeovers.changed)
    writes = _writes(broker, states, partitions, queues, is_alone)
    requests = KvRequests(
        config=broker.config,
        now_ms=broker.now_ms,
        now_s=broker.now_s,
        partitions=partitions,
        states=states,
        takeovers=takeovers,
        writes=writes,
    )
    add_encoder(handlers)
    handlers.add(RequestCode.KV_WRITE, typed(KvWrite, writes.write))
    handlers.add(RequestCode.KV_GET, by_header(KvGet, requests.get))
    handlers.add(RequestCode.KV_MULTI_GET, typed(KvMultiGet, requests.multi_get))
    handlers.add(RequestCode.KV_SCAN, by_header(KvScan, requests.scan))
    handlers.add(RequestCode.KV_WATCH, by_header(KvWatch, watches.watch))
    handlers.add(RequestCode.KV_STATUS, by_header(KvStatus, requests.status))
    handlers.add(RequestCode.KV_STATE, by_header(KvStateHeader, requests.state))
    return requests


def _writes(
    broker: BrokerContext,
    states: KvStates,
    partitions: Partitions,
    queues: PartitionQueues,
    is_alone: Callable[[], bool],
) -> KvWrites:
    new = NewNamespaces(
        config=broker.config,
        is_alone=is_alone,
        partitions=partitions,
        queues=queues,
        states=states,
    )
    return KvWrites(
        commit=broker.commit,
        now_ms=broker.now_ms,
        now_s=broker.now_s,
        on_unwritten=broker.on_unwritten,
        store=broker.store,
        store_host=broker.store_host,
        writer=broker.writer,
        new=new,
        partitions=partitions,
        states=states,
    )
