"""The brokers of every namespace, as name servers remember them while a broker is away.

Each broker writes the claims of its own namespaces to every name server, keeps a copy of the
others', and restores those of absent brokers at a name server that has lost its memory. So a
namespace is created a second time only if all that knew of the first one are gone. Two brokers
that create it at one moment both write their claims before they look, so one at least sees the
other's and gives up. See ``lanemq.wire.kv.Claim``.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Self, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import Document, KvStates
from lanemq.storage.kv import NO_QUEUE, KvState
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import (
    Claim,
    ClaimKey,
    OpType,
    kv_namespace,
    parse_partition,
    partition_name,
    rivals,
)

from ...logical.rules._mapping import TopicMapping
from ..cluster._peers import Peers
from ..context._context import BrokerContext
from ._claim_tables import ClaimTables
from ._partitions import Partitions

LOGGER: Final = get_logger("lanemq.proxy.kv", by_peers=True)
FILE: Final = "kvClaims.json"
PERIOD_S: Final = 5.0
"""Seconds between two looks at the name servers."""
GONE_S: Final = 600.0
"""Seconds for which other brokers can learn that a namespace was deleted."""


@final
@define(eq=False, kw_only=True, repr=False)
class Claims:
    """The claims of one broker, and its copies of the others'; ``run`` is its task."""

    _broker_name: str
    _document: Document
    _mappings: Mapping[str, TopicMapping]
    _partitions: Partitions
    _peers: Peers
    _states: KvStates
    _tables: ClaimTables = field(init=False)
    _creating: dict[str, tuple[str, int]] = field(init=False, factory=dict)
    """Partition that is being created -> identity and number of partitions of the namespace."""
    _gone: dict[str, tuple[Claim, float]] = field(init=False, factory=dict)
    """Namespace that was deleted here -> its last claim, and the time until which it is told."""
    _news: trio.Event = field(init=False, factory=trio.Event)
    _split: set[str] = field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        self._tables = ClaimTables(
            broker_name=self._broker_name,
            document=self._document,
            own=self._told,
            peers=self._peers,
        )

    @classmethod
    def of(cls, broker: BrokerContext, partitions: Partitions, states: KvStates) -> Self:
        """Return those of ``broker``, which follow its logical queues."""
        made = cls(
            broker_name=broker.config.broker_name,
            document=broker.store.document(FILE),
            mappings=broker.logical.mappings,
            partitions=partitions,
            peers=broker.peers,
            states=states,
        )
        broker.on_mapping_changed.append(made.changed)
        return made

    @property
    def others(self) -> Mapping[ClaimKey, Claim]:
        """The claims of other brokers."""
        return self._tables.others

    @property
    def is_alone(self) -> bool:
        """True if neither this broker nor any of its name servers ever knew another broker."""
        return self._tables.is_alone

    @property
    def has_company(self) -> bool:
        """True if another broker was ever seen."""
        return bool(self._tables.brokers)

    @property
    def brokers(self) -> list[str]:
        """The names of all brokers that were ever seen, this one's included."""
        return sorted({*self._tables.brokers, self._broker_name})

    def changed(self, topic: str) -> None:
        """Note that the logical queues of a topic have changed."""
        if kv_namespace(topic):
            self._news.set()

    async def run(self) -> None:
        """Write and read claims at all name servers, until cancelled."""
        while True:
            self._news = trio.Event()
            await self.sync()
            with trio.move_on_after(PERIOD_S):
                await self._news.wait()

    # Identities

    def identity_in(self, name: str, state: KvState, op_type: str) -> str:
        """Return the identity that a record is to say; mostly empty.

        What ends a loss says it again, or versions of what was lost could come again.
        """
        if not state.meta.next:
            return self.identity_of(name)
        if state.meta.lost and op_type in (OpType.CLEAR, OpType.IMPORT):
            return state.meta.identity or self.identity_of_old(name)
        return ""

    def identity_of(self, name: str) -> str:
        """Return the identity that the first record of a new partition says."""
        creating = self._creating.get(name)
        return creating[0] if creating is not None else self._found(name) or _new_identity()

    def identity_of_old(self, name: str) -> str:
        """Return the identity for a partition of an earlier version; empty while it is not known.

        That of the partition 0 is new; the others have it from there.
        """
        _, partition = parse_partition(name)
        return self._found(name) or ("" if partition else _new_identity())

    def _found(self, name: str) -> str:
        """Return the identity that other partitions of a namespace have."""
        namespace, partition = parse_partition(name)
        own = self.own().get(namespace)
        if own is not None and own.identity:
            return own.identity
        found = rivals(self._tables.of(namespace), namespace)
        if len(found) != 1:
            return ""
        ((identity, brokers),) = found.items()
        state = self._states.states.get(name)
        # A log that went past a broker is the one that this broker claims yet.
        is_lost = state is not None and state.meta.lost
        is_claimed = any(partition in self.others[namespace, one].here for one in brokers)
        return "" if is_claimed and not is_lost else identity

    # Creation and deletion

    @contextmanager
    def _claiming(self, name: str, identity: str, partitions: int) -> Iterator[None]:
        self._creating[name] = identity, partitions
        try:
            yield
        except BaseException:
            del self._creating[name]
            self._news.set()
            raise

    async def claim(self, header: KvWrite) -> None:
        """Claim a partition before it is created here; ``created`` ends it.

        Raises ``Refused``: KV_NAMESPACE_NOT_EXIST if another broker has it, KV_MOVED if the
        namespace has another number of partitions, SYSTEM_BUSY while no name server answers.
        """
        if not self._peers.name_servers:
            return
        name = partition_name(header.namespace, header.partition)
        if not await self.sync():
            remark = (
                f"no name server answers, and another broker may have namespace {header.namespace}"
            )
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        self._check(header)
        self._gone.pop(header.namespace, None)
        with self._claiming(name, self._found(name) or _new_identity(), header.partitions):
            await self.sync()
            self._check(header)

    def is_creating(self, name: str) -> bool:
        """Return whether a partition was claimed and has no record yet."""
        return name in self._creating

    def created(self, name: str) -> None:
        """Note that a partition is there, or that it could not be created."""
        self._creating.pop(name, None)
        self._news.set()

    def _check(self, header: KvWrite) -> None:
        namespace = header.namespace
        for (_, broker), claim in sorted(self._tables.of(namespace).items()):
            if claim.deleted or not claim.here:
                continue
            if claim.partitions != header.partitions:
                raise self._partitions.moved(namespace, claim.partitions, None)
            if header.partition in claim.here:
                what = (
                    f"partition {header.partition} of namespace {namespace!r}"
                    if claim.partitions > 1
                    else f"namespace {namespace!r}"
                )
                remark = (
                    f"{what} is at broker {broker}, as name servers remember, and not created a "
                    f"second time at {self._broker_name}: start broker {broker}; if it will not "
                    "come back, have name servers forget it first"
                )
                raise Refused(ResponseCode.KV_NAMESPACE_NOT_EXIST, remark)

    def deleted(self, namespace: str, identity: str, partitions: int) -> None:
        """Note that a namespace was deleted here, so that other brokers remove what is left."""
        claim = Claim(identity=identity, partitions=partitions, deleted=True)
        self._gone[namespace] = claim, trio.current_time() + GONE_S
        self._news.set()

    def is_deleted(self, namespace: str) -> bool:
        """Return whether a namespace was deleted, as far as brokers remember."""
        named = self._tables.of(namespace).values()
        return any(one.deleted for one in named) and not any(one.here for one in named)

    # At name servers

    def own(self) -> dict[str, Claim]:
        """Return the claims of this broker by namespace."""
        here: dict[str, set[int]] = {}
        identities: dict[str, str] = {}
        partitions: dict[str, int] = {}
        ends = [
            partition_name(namespace, index)
            for topic, mapping in self._mappings.items()
            if (namespace := kv_namespace(topic))
            for index in mapping.queues
        ]
        for name in {*ends, *self._states.states}:
            namespace, partition = parse_partition(name)
            state = self._states.states.get(name)
            if state is not None and state.meta.deleted:
                continue
            if state is not None and state.meta.queue_id != NO_QUEUE:
                partitions[namespace] = max(partitions.get(namespace, 0), state.meta.partitions)
                if state.meta.identity:
                    identities[namespace] = state.meta.identity
            if self._partitions.ends_here(name):
                here.setdefault(namespace, set()).add(partition)
        for name, (identity, count) in self._creating.items():
            namespace, partition = parse_partition(name)
            here.setdefault(namespace, set()).add(partition)
            identities.setdefault(namespace, identity)
            partitions[namespace] = max(partitions.get(namespace, 0), count)
        return {
            namespace: Claim(
                identity=identities.get(namespace, ""),
                partitions=max(partitions.get(namespace, 1), max(found) + 1),
                here=tuple(sorted(found)),
            )
            for namespace, found in here.items()
        }

    def _told(self) -> dict[str, Claim]:
        """Return the claims that name servers are to have: also of what was deleted lately."""
        now_s = trio.current_time()
        gone = {name: claim for name, (claim, until_s) in self._gone.items() if until_s > now_s}
        return gone | self.own()

    async def sync(self) -> bool:
        """Bring all name servers and the copies here up to date; returns whether any answered."""
        has_answered = await self._tables.sync()
        self._note_splits()
        return has_answered

    def _note_splits(self) -> None:
        keyed = self._tables.keyed(self.own())
        found = {
            key[0]: rivals({**self._tables.of(key[0]), key: claim}, key[0])
            for key, claim in keyed.items()
        }
        split = {name for name, one in found.items() if len(one) > 1}
        for name in split - self._split:
            places = " and ".join(", ".join(one) for one in found[name].values())
            LOGGER.critical(
                "namespace %s of keys exists more than once, at %s: clients have to name the "
                "broker that they mean; export the entries of one, and delete it there",
                name,
                places,
            )
        self._split = split


def _new_identity() -> str:
    return os.urandom(8).hex()
