"""Partitions of namespaces that are made by their first writes, which wait for that.

To make a database takes imports and syncs of files, a dozen for the first namespace; so it is
done in a thread, and the writes that come meanwhile wait in their order. (RocksDB's binding keeps
the interpreter's lock while it opens a database or makes a column family, but not in between.)

A broker makes a namespace only if the write names it as the place, or if it has never had another
broker beside it: else the state of a namespace whose broker is down could begin a second time.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple, final

import trio
from attrs import define, field

from lanemq.storage import KvStates, StoreError
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import LONE_BROKER, partition_name

from ...net._session import Session
from ..settings._config import BrokerConfig
from ._partitions import Partitions
from ._queues import PartitionQueues

LOGGER = logging.getLogger("lanemq.proxy.kv")
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

    _config: BrokerConfig
    _is_alone: Callable[[], bool]
    _partitions: Partitions
    _queues: PartitionQueues
    _states: KvStates
    ready: Callable[[list[Asked]], None] = field(init=False, default=lambda asked: None)
    _waiting: dict[str, list[Asked]] = field(init=False, factory=dict)
    _news: trio.Event = field(init=False, factory=trio.Event)

    def is_waiting(self, name: str) -> bool:
        """Return whether writes wait for a partition, so that later ones have to queue up."""
        return name in self._waiting

    def wait(self, asked: Asked) -> None:
        """Have a write wait for its partition.

        Raises ``Refused`` where the partition must not be made here, or is one too many.
        """
        name = asked.name
        if name not in self._waiting:
            self._check_place(asked.header)
            if len(self._states.states) + len(self._waiting) >= PARTITIONS_HERE_MAX:
                remark = (
                    f"a broker has at most {PARTITIONS_HERE_MAX} namespaces, or partitions of "
                    f"them; {asked.header.namespace} would be more"
                )
                raise Refused(ResponseCode.INVALID_PARAMETER, remark)
            self._waiting[name] = []
            self._news.set()
        if not asked.frame.is_oneway:
            asked.session.account.add(asked.size_bytes)
        self._waiting[name].append(asked)

    def _check_place(self, header: KvWrite) -> None:
        here, place = self._config.broker_name, header.create_at
        if place == here or (place == LONE_BROKER and self._is_alone()):
            return
        remark = self._partitions.no_namespace(header.namespace).remark
        if place == LONE_BROKER:
            remark += (
                ", and another broker could have it: if none has, say which one is to have it, "
                f"as in `lanemq kv create --namespace {header.namespace} --broker {here}`"
            )
        elif place is not None:
            remark += f", which is not {place}"
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
            await self._queues.make(self._waiting[name][0].header)
        except (OSError, StoreError, Refused) as error:
            fault = error
        asked = self._waiting.pop(name)
        answered = [one for one in asked if not one.frame.is_oneway]
        for one in answered:
            one.session.account.add(-one.size_bytes)
        if fault is None:
            self.ready(asked)
            return
        for one in answered:
            one.session.answer(one.frame, fault)
