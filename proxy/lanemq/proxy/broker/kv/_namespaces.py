"""Partitions of namespaces that are made by their first writes, which wait for that.

To make a database takes imports and syncs of files, a dozen for the first namespace; so it is
done in a thread, and the writes that come meanwhile wait in their order. (RocksDB's binding keeps
the interpreter's lock while it opens a database or makes a column family, but not in between.)

A broker makes a namespace only if the write names it as the place, or if it has never had another
broker beside it: else the state of a namespace whose broker is down could begin a second time.
"""

from collections import Counter
from collections.abc import Callable
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
@define(eq=False, kw_only=True, repr=False)
class NewNamespaces:
    """The partitions being made, with the writes that wait for each; ``run`` is its task.

    ``ready`` is given those writes, in their order, once their partition is there.
    """

    _claims: Claims
    _config: BrokerConfig
    _is_alone: Callable[[], bool] | None
    """Says whether the broker has never had another one beside it; name servers, where None."""
    _partitions: Partitions
    _queues: PartitionQueues
    _states: KvStates
    ready: Callable[[list[Asked]], None] = field(init=False, default=lambda asked: None)
    _waiting: dict[str, list[Asked]] = field(init=False, factory=dict)
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
            if self._partitions.count_here + len(self._waiting) >= PARTITIONS_HERE_MAX:
                remark = (
                    f"a broker has at most {PARTITIONS_HERE_MAX} namespaces, or partitions of "
                    f"them; {asked.header.namespace} would be more"
                )
                raise Refused(ResponseCode.INVALID_PARAMETER, remark)
            self._check_share(asked)
            self._makers[name] = asked.session.peer.host
            self._waiting[name] = []
            self._news.set()
        if not asked.frame.is_oneway:
            asked.session.account.add(asked.size_bytes)
        self._waiting[name].append(asked)

    def _check_share(self, asked: Asked) -> None:
        """Raise ``Refused`` for one beyond the share of the address, since the start."""
        waiting, states, host = self._waiting, self._states.states, asked.session.peer.host
        self._makers = {
            name: maker for name, maker in self._makers.items() if name in waiting or name in states
        }
        held = Counter(self._makers.values())[host]
        free = PARTITIONS_HERE_MAX - self._partitions.count_here - len(waiting)
        if not has_share(held, free, HOST_SHARE):
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
                ", and another broker could have it: if none has, say which one is to have it, "
                f"as in `lanemq kv create --namespace {header.namespace} --broker {here}` "
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
            header = self._waiting[name][0].header
            await self._claims.claim(header)
            if header.create_at == LONE_BROKER:
                self._check_place(header)  # another broker may have come to be known
            await self._queues.make(header)
        except (OSError, StoreError, Refused) as error:
            fault = error
            self._claims.created(name)
        asked = self._waiting.pop(name)
        answered = [one for one in asked if not one.frame.is_oneway]
        for one in answered:
            one.session.account.add(-one.size_bytes)
        if fault is None:
            self.ready(asked)
            return
        for one in answered:
            one.session.answer(one.frame, fault)
