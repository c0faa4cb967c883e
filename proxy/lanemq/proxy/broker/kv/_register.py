"""Reads of keys, and the registration of all requests for keys and values."""

from collections.abc import Callable
from typing import Final, final

import msgspec
import trio
from attrs import define
from msgspec.structs import replace

from lanemq.local import get_logger
from lanemq.storage import KvStates
from lanemq.wire import Refused, RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    KvFollow,
    KvGet,
    KvLeases,
    KvMultiGet,
    KvRange,
    KvScan,
    KvStatus,
    KvWatch,
    KvWrite,
)
from lanemq.wire.headers import KvState as KvStateHeader
from lanemq.wire.kv import (
    NamespaceStatus,
    parse_partition,
    partition_name,
)

from ...acl import reads_keys
from ...net._dispatch import Handlers, by_header, typed
from ...net._page_turns import Turns
from ...net._session import Session
from ...sessions.keys._leases import LeaseReads
from ...sessions.keys._pages import Pages
from ...sessions.keys._ranges import Ranges
from ...sessions.keys._result import KvResult, add_encoder, status_of
from ...sessions.keys._watches import Watches
from ...sessions.values._rights import RightsOf
from ..context._context import BrokerContext
from ..logical.state._view import LogicalView
from ..settings._config import BrokerConfig
from ._bases import BaseKeeper
from ._claims import Claims
from ._deletions import Deletions
from ._fetching import StateFetcher
from ._leftovers import Leftovers
from ._namespaces import NewNamespaces
from ._partitions import Partitions
from ._queues import PartitionQueues
from ._remaking import Remaker
from ._state_pages import StatePages
from ._takeovers import Takeovers
from ._writes import KvWrites

LOGGER = get_logger("lanemq.proxy.kv", by_peers=True)
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
    _rights: RightsOf
    _states: KvStates
    turns: Turns
    """The pages that wait for their turns; its ``run`` is a task."""
    pages: Pages
    takeovers: Takeovers
    """The partitions that come and go; its ``run`` is a task."""
    writes: KvWrites
    claims: Claims
    """The claims at name servers; its ``run`` is a task."""
    deletions: Deletions
    """The deletions of namespaces; its ``run`` is a task."""
    watches: Watches

    async def run(self) -> None:
        """Let entries expire, and answer writers whose time is up, until cancelled."""
        await self._states.in_use.wait()
        try:
            while True:  # at once: much may have ended while the broker was away
                self.pages.snapshots.expire(self._now_s())
                if self._states.states:
                    self._tick()
                await trio.sleep(TICK_S)
        finally:
            self.pages.snapshots.clear()

    def _tick(self) -> None:
        self.writes.expire(self._now_s())
        try:
            self.writes.own.tick()
        except Refused as error:
            LOGGER.warning("entries do not expire now: %s", error.remark)

    # Reads

    def status(self, header: KvStatus, frame: Frame, session: Session) -> KvResult:
        """Answer the status of one partition, or of all that are here of a namespace, or of all.

        The hash is left out for those who may not read all keys: it tells whether a guess of the
        others is right.
        """
        namespace, partition = header.namespace, header.partition
        if namespace is not None and partition is not None:
            self._partitions.open(namespace, partition, header.partitions)
            names = [partition_name(namespace, partition)]
        else:
            names = sorted(
                name
                for name in self._states.states
                if (namespace is None or parse_partition(name)[0] == namespace)
                and not self._states.states[name].meta.deleted
            )
            if namespace is not None and not names:
                raise self._partitions.no_partition(namespace)
        rights, found = self._rights(frame, session), []
        for name in names:
            status = self._status(name, header.partitions)
            if rights.are_limited and not rights.may(reads_keys(status.namespace)):
                status = replace(status, state_hash="")
            found.append(status)
        return KvResult.of(found)

    def statuses(self) -> list[NamespaceStatus]:
        """Return the status of each partition that is here."""
        return [self._status(name, 0) for name in sorted(self._states.states)]

    def _status(self, name: str, partitions: int) -> NamespaceStatus:
        state = self._states.states[name]
        return status_of(
            state,
            name,
            partitions=state.meta.partitions or partitions,
            engine=self._states.engine_name,
            broker=self._config.broker_name,
            is_open=self._partitions.is_open(name),
            watchers=self.watches.waiting[name],
            end=self._states.logs[name].bounds()[1],
        )


def register(
    handlers: Handlers,
    broker: BrokerContext,
    *,
    is_alone: Callable[[], bool] | None,
    view: LogicalView,
) -> KvRequests | None:
    """Register the requests for keys and values; None, without any, where they are switched off.

    ``is_alone`` says whether the broker has never had another one beside it; where it is None,
    name servers do.
    """
    states = broker.store.kv
    if states is None:
        return None
    partitions = Partitions(
        broker_name=broker.config.broker_name,
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
    turns = Turns()
    watches = Watches(readable=partitions, turns=turns)
    states.on_applied.append(lambda name, _: watches.wake(name))
    takeovers = _takeovers(broker, states, partitions, queues, watches)
    broker.on_mapping_changed.append(takeovers.changed)
    claims = Claims.of(broker, partitions, states)
    deletions = Deletions.of(broker, claims, partitions, states)
    writes = _writes(broker, states, partitions, queues, claims, is_alone)
    requests = KvRequests(
        config=broker.config,
        now_ms=broker.now_ms,
        now_s=broker.now_s,
        pages=Pages(now_s=broker.now_s, readable=partitions, turns=turns),
        partitions=partitions,
        rights=broker.rights,
        states=states,
        takeovers=takeovers,
        turns=turns,
        writes=writes,
        claims=claims,
        deletions=deletions,
        watches=watches,
    )
    states.damage.on_set_aside.append(takeovers.set_aside)
    states.on_behind.append(requests.pages.snapshots.drop)
    moves = StatePages(
        made_for=takeovers.made_for, partitions=partitions, states=states, turns=turns
    )
    ranges = Ranges(readable=partitions, turns=turns)
    leases = LeaseReads(
        now_ms=lambda name: broker.now_ms() + writes.clock.ahead_ms(name),
        readable=partitions,
        signer=broker.signer,
        turns=turns,
    )
    _add(handlers, requests, ranges, leases, moves)
    return requests


def _add(
    handlers: Handlers, requests: KvRequests, ranges: Ranges, leases: LeaseReads, moves: StatePages
) -> None:
    watches = requests.watches
    add_encoder(handlers)
    handlers.add(RequestCode.KV_WRITE, typed(KvWrite, requests.writes.write))
    handlers.add(RequestCode.KV_GET, by_header(KvGet, requests.pages.get))
    handlers.add(RequestCode.KV_MULTI_GET, typed(KvMultiGet, requests.pages.multi_get))
    handlers.add(RequestCode.KV_SCAN, typed(KvScan, requests.pages.scan))
    handlers.add(RequestCode.KV_WATCH, typed(KvWatch, watches.watch))
    handlers.add(RequestCode.KV_RANGE, typed(KvRange, ranges.range))
    handlers.add(RequestCode.KV_FOLLOW, typed(KvFollow, watches.follow))
    handlers.add(RequestCode.KV_LEASES, typed(KvLeases, leases.leases))
    handlers.add(RequestCode.KV_STATUS, typed(KvStatus, requests.status))
    handlers.add(RequestCode.KV_STATE, typed(KvStateHeader, moves.state))


def _takeovers(
    broker: BrokerContext,
    states: KvStates,
    partitions: Partitions,
    queues: PartitionQueues,
    watches: Watches,
) -> Takeovers:
    broker_name = broker.config.broker_name
    fetcher = StateFetcher(peers=broker.peers, states=states)
    remaker = Remaker(bounds=broker.store.bounds, states=states)
    return Takeovers(
        bases=BaseKeeper(
            broker_name=broker_name,
            mappings=broker.logical.mappings,
            partitions=partitions,
            remaker=remaker,
            states=states,
        ),
        broker_name=broker_name,
        fetcher=fetcher,
        leftovers=Leftovers(
            broker_name=broker_name, fetcher=fetcher, partitions=partitions, states=states
        ),
        logical=broker.logical,
        partitions=partitions,
        queues=queues,
        remaker=remaker,
        states=states,
        wake=watches.wake,
    )


def _writes(
    broker: BrokerContext,
    states: KvStates,
    partitions: Partitions,
    queues: PartitionQueues,
    claims: Claims,
    is_alone: Callable[[], bool] | None,
) -> KvWrites:
    new = NewNamespaces(
        claims=claims,
        config=broker.config,
        is_alone=is_alone,
        partitions=partitions,
        queues=queues,
        states=states,
    )
    return KvWrites(
        claims=claims,
        commit=broker.commit,
        now_ms=broker.now_ms,
        now_s=broker.now_s,
        on_unwritten=broker.on_unwritten,
        store=broker.store,
        store_host=broker.store_host,
        writer=broker.writer,
        new=new,
        partitions=partitions,
        signer=broker.signer,
        states=states,
    )
