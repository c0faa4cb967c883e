"""Partitions of namespaces that are made by their first writes, which wait for that.

To make a database takes imports and syncs of files, a dozen for the first namespace; so it is
done in a thread, and the writes that come meanwhile wait in their order. (RocksDB's binding keeps
the interpreter's lock while it opens a database or makes a column family, but not in between.)

A broker makes a namespace only if the write names it as the place, or if it has never had another
broker beside it: else the state of a namespace whose broker is down could begin a second time.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from itertools import count
from typing import Final, NamedTuple, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import KvStates, StoreError
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import LONE_BROKER, partition_name

from ...net._session import Session
from ...net.limits._quotas import HOST_SHARE, has_share
from ..settings._config import BrokerConfig
from ._claims import Claims
from ._partitions import Partitions
from ._queues import PartitionQueues

LOGGER = get_logger("lanemq.proxy.kv", by_peers=True)
PARTITIONS_HERE_MAX: Final = 64
"""Partitions of a broker; a namespace has one at least."""
TURN_BYTES: Final = 128 << 10
"""Memory of the waiting writes that are appended in one turn of the loop: a hundred short ones."""


class Asked(NamedTuple):
    """A write that has been checked."""

    header: KvWrite
    key: bytes | None
    """The key, where the operation is about one."""
    frame: Frame
    session: Session
    size_bytes: int
    """The memory it is charged for while it waits."""
    client: str
    """The id of the writer, with the account it belongs to; empty for one that does not retry."""
    lessor: str
    """The account or address that asks, of a write about leases; empty for any other."""

    @property
    def name(self) -> str:
        """The name of the partition."""
        return partition_name(self.header.namespace, self.header.partition)


@final
class _New(NamedTuple):
    """A partition being made."""

    header: KvWrite
    """Of the write that it is made for."""
    writes: "OrderedDict[int, Asked]"
    """Those that wait for it, each by its number, in their order."""


@final
@define(eq=False, kw_only=True, repr=False)
class NewNamespaces:
    """The partitions being made, with the writes that wait for each; ``run`` is its task.

    ``append`` is given those writes, in their order, once their partition is there, and ``commit``
    writes them to the log.
    """

    _claims: Claims
    _config: BrokerConfig
    _is_alone: Callable[[], bool] | None
    """Says whether the broker has never had another one beside it; name servers, where None."""
    _partitions: Partitions
    _queues: PartitionQueues
    _states: KvStates
    append: Callable[[Asked], None] = field(init=False, default=lambda asked: None)
    commit: Callable[[], None] = field(init=False, default=lambda: None)
    _waiting: dict[str, _New] = field(init=False, factory=dict)
    _of_sessions: dict[Session, dict[int, str]] = field(init=False, factory=dict)
    """Numbers of the writes of each connection -> their partitions."""
    _numbers: "count[int]" = field(init=False, factory=count)
    _ended: dict[str, Exception | None] = field(init=False, factory=dict)
    """Name of a partition for which writes still wait, though it is made -> why it could not be."""
    _makers: dict[str, str] = field(init=False, factory=dict)
    """Name of a partition -> the address whose client had it made."""
    _news: trio.Event = field(init=False, factory=trio.Event)

    def is_waiting(self, name: str) -> bool:
        """Return whether writes wait for a partition, so that later ones have to queue up."""
        return name in self._waiting

    def wait(self, asked: Asked) -> None:
        """Have a write wait for its partition.

        Raises ``Refused`` where the partition must not be made here, or is one too many, for the
        broker or for the address of its client.
        """
        name = asked.name
        if name not in self._waiting:
            if not self._asks_first(asked.header):
                self._check_place(asked.header)
            if self._free <= 0:
                remark = (
                    f"a broker has at most {PARTITIONS_HERE_MAX} namespaces, or partitions of "
                    f"them; {asked.header.namespace} would be more"
                )
                raise Refused(ResponseCode.INVALID_PARAMETER, remark)
            self._check_share(asked)
            self._makers[name] = asked.session.peer.host
            self._waiting[name] = _New(asked.header, OrderedDict())
            self._news.set()
        session, number = asked.session, next(self._numbers)
        if session.closed:
            return
        session.account.add(asked.size_bytes)
        self._waiting[name].writes[number] = asked
        if session not in self._of_sessions:
            self._of_sessions[session] = {}
            session.on_close.append(self._closed)
        self._of_sessions[session][number] = name
        if name in self._ended:
            # For one that comes another one goes: so the queue ends, however many come.
            self._end_some(name, 1)

    def _closed(self, session: Session) -> None:
        """Forget the writes of a connection that ended: nobody is charged for them any more."""
        for number, name in self._of_sessions.pop(session, {}).items():
            new = self._waiting.get(name)  # none where it was given up
            if new is not None:
                new.writes.pop(number, None)

    @property
    def _free(self) -> int:
        """The number of further partitions that the broker may have."""
        making = len(self._waiting) - len(self._ended)
        return PARTITIONS_HERE_MAX - self._partitions.count_here - making

    def _check_share(self, asked: Asked) -> None:
        """Raise ``Refused`` for one beyond the share of the address, since the start."""
        waiting, states, host = self._waiting, self._states.states, asked.session.peer.host
        self._makers = {
            name: maker for name, maker in self._makers.items() if name in waiting or name in states
        }
        held = Counter(self._makers.values())[host]
        if not has_share(held, self._free, HOST_SHARE):
            remark = (
                f"clients at {host} have made {held} of the {PARTITIONS_HERE_MAX} namespaces, or "
                f"partitions of them, that a broker has at most, which is their share; "
                f"{asked.header.namespace} would be more: delete some, or use another broker"
            )
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)

    def _asks_first(self, header: KvWrite) -> bool:
        """Return whether name servers have to say if this broker is the only one."""
        is_open = header.create_at == LONE_BROKER and not self._claims.has_company
        return is_open and self._is_alone is None

    def _check_place(self, header: KvWrite) -> None:
        here, place = self._config.broker_name, header.create_at
        is_alone = self._is_alone or (lambda: self._claims.is_alone)
        if place == here or (place == LONE_BROKER and is_alone()):
            return
        remark = self._partitions.no_namespace(header.namespace).remark
        if place == LONE_BROKER:
            remark += (
                ", and another broker could have it: if none has, say which one is to have it "
                f"(known brokers: {', '.join(self._claims.brokers)})"
            )
        elif place is not None:
            remark += f", which is not {place} (known brokers: {', '.join(self._claims.brokers)})"
        raise Refused(ResponseCode.KV_NAMESPACE_NOT_EXIST, remark)

    async def run(self) -> None:
        """Make partitions as they are asked for, until cancelled."""
        while True:
            while self._waiting:
                await self._make(next(iter(self._waiting)))
            self._news = trio.Event()
            await self._news.wait()

    async def _make(self, name: str) -> None:
        LOGGER.info("namespace %s of keys is made", name)
        fault: Exception | None = None
        try:
            header = self._waiting[name].header
            await self._claims.claim(header)
            if header.create_at == LONE_BROKER:
                self._check_place(header)  # another broker may have come to be known
            await self._queues.make(header)
        except (OSError, StoreError, Refused) as error:
            fault = error
            self._claims.created(name)
        self._ended[name] = fault
        try:
            while self._end_some(name, TURN_BYTES):
                self.commit()
                await trio.lowlevel.checkpoint()
            self.commit()
        finally:
            del self._ended[name], self._waiting[name]

    def _end_some(self, name: str, size_bytes: int) -> bool:
        """Append, or refuse, the oldest writes that wait for a partition: one at least, and those
        of so much memory. Return whether more wait."""
        waiting, fault = self._waiting[name].writes, self._ended[name]
        while waiting and size_bytes > 0:
            number, asked = waiting.popitem(last=False)
            del self._of_sessions[asked.session][number]
            size_bytes -= asked.size_bytes
            asked.session.account.add(-asked.size_bytes)
            if fault is None:
                self.append(asked)
            elif not asked.frame.is_oneway:
                asked.session.answer(asked.frame, fault)
        return bool(waiting)
