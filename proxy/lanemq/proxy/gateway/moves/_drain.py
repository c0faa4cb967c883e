"""Drains a broker of the cluster: another one stands in for it, and nothing is written there.

The queues themselves are moved one by one (``_mover``); another broker comes to stand in by steps
of its own (``_handover``).
"""

from collections.abc import Collection, Mapping
from functools import partial
from typing import final

import trio
from msgspec.structs import replace

from lanemq.sdk import LanemqError
from lanemq.wire import Permission, RemoteProtocolError
from lanemq.wire.bodies import BrokerDrain

from ..kv import KeysUnavailable, TooLong
from ..order import may_have_order
from ._context import MoveContext, MoveRefused
from ._handover import Handover
from ._moved_topics import all_orders
from ._permissions import set_writable
from ._rest import Rest
from ._stands import change_stand, version_of_stand


@final
class Drain:
    """One drain, from wherever it has got to."""

    def __init__(
        self, context: MoveContext, broker: str, read_only_since: dict[str, float]
    ) -> None:
        """``read_only_since`` is as for ``Rest``."""
        self._context = context
        self._moving = context.moving
        self._orders = context.moving.orders
        self._admin = context.admin
        self._address = context.address
        self._known = context.known
        self._listed = context.listed
        self._check = context.check
        self._broker = broker
        self._read_only_since = read_only_since
        self._what = "begins"
        self._rest = Rest(context, broker, read_only_since)
        self._handover = Handover(context, broker, self._say)

    @property
    def _stand_in(self) -> str:
        """The broker that stands in; empty where none does yet."""
        stand = self._moving.stands.of(self._broker)
        return "" if stand is None or stand.at == self._broker else stand.at

    def progress(self) -> BrokerDrain:
        """Return the step at which it is."""
        return BrokerDrain(self._broker, "draining", self._stand_in, self._what)

    async def run(self) -> BrokerDrain:
        """Have another broker stand in, and look at what is left. Raises ``MoveRefused``."""
        try:
            while (written := await self._look()) is None:
                pass
        except (KeysUnavailable, TooLong, LanemqError, RemoteProtocolError) as error:
            raise MoveRefused(f"{self._what}: {error}") from error
        return BrokerDrain(
            self._broker,
            "standing" if written else "drained",
            self._stand_in,
            self._rest.why_unknown,
            written=written,
            unread=tuple(self._rest.unread),
            behind=self._rest.behind,
        )

    async def forget(self) -> BrokerDrain:
        """Note that the broker will not come back. Raises ``MoveRefused``."""
        self._what = "is forgotten"
        try:
            while not await self._is_forgotten():
                pass
        except (KeysUnavailable, TooLong, LanemqError, RemoteProtocolError) as error:
            raise MoveRefused(f"{self._what}: {error}") from error
        return BrokerDrain(self._broker, "forgotten", self._stand_in)

    def _say(self, what: str) -> None:
        self._what = what

    async def _look(self) -> int | None:
        """Go once through all steps; returns the number of queues that are written at the broker,
        or None where something has come there meanwhile. Raises as ``Rest``."""
        self._check()
        await self._remember()
        await self._handover.run()
        await self._remember()  # it may have come back meanwhile, which takes minutes
        version = version_of_stand(self._orders.keys, self._broker)
        written = await self._count_written() or await self._close()
        return written if await self._is_noted(version, written) else None

    async def _is_forgotten(self) -> bool:
        """Note that the broker is forgotten; returns False where a queue was to come there
        meanwhile. Raises as ``forget``."""
        self._check()
        if not self._stand_in:
            raise MoveRefused(f"broker {self._broker} was not drained: drainBroker does it")
        if self._address(self._broker) is not None:
            raise MoveRefused(f"broker {self._broker} is registered: switch it off first")
        version = version_of_stand(self._orders.keys, self._broker)
        if written := await self._count_written():
            raise MoveRefused(f"{written} queues are written at {self._broker} yet")
        return await self._set_done(version, is_done=True, is_forgotten=True)

    async def _set_done(self, version: int, *, is_done: bool, is_forgotten: bool = False) -> bool:
        """Note whether the parts at the broker are done; returns False where something was to come
        there since its entry had a version: what was found before that counts no longer."""
        self._moving.refresh()
        stand = self._moving.stands.of(self._broker)
        if stand is None:
            return False
        now = replace(stand, is_done=is_done, is_forgotten=is_forgotten)
        return await change_stand(self._orders.keys, self._broker, now, version)

    async def _remember(self) -> None:
        """Take a forgotten broker that is there again for the same, if it has all that queues had
        there. Readers have gone on behind it, and nothing may move to another one of its name."""
        while self._moving.stands.is_forgotten(self._broker) and self._address(self._broker):
            self._what = "looks whether the broker is the one that was forgotten"
            version = version_of_stand(self._orders.keys, self._broker)
            is_deleted = partial(self._is_deleted, others=await self._topics_elsewhere())
            if lost := await self._rest.lost(is_deleted):
                raise MoveRefused(
                    f"broker {self._broker} was forgotten, and the one of its name has not what "
                    f"was there of topic {lost}: give it another name"
                )
            await self._set_done(version, is_done=False)
            self._check()

    # What is left there

    async def _count_written(self) -> int:
        """Return the number of queues that are written at the broker, or are on their way to it.

        Orders outlive their topics: of those that it has no longer, nothing is written there.
        """
        self._what = "looks at the queues of all topics"
        address = self._address(self._broker)
        there: Collection[str] = ()
        if address is not None:
            there = (await self._admin.topic_configs(address)).topic_config_table
        others = await self._topics_elsewhere() if address is None else {}
        count = 0
        for topic, order in await all_orders(self._orders):
            # A queue on its way here may be of a topic that is made here only then.
            count += order.targets().count(self._broker)
            if topic in there or (address is None and not self._is_deleted(topic, others)):
                count += order.ends().count(self._broker)
        return count

    async def _topics_elsewhere(self) -> dict[str, Collection[str]]:
        """Return the topics of each broker that is there."""
        return {
            name: (await self._admin.topic_configs(self._known(name))).topic_config_table
            for name in self._listed()
            if name != self._broker
        }

    def _is_deleted(self, topic: str, others: Mapping[str, Collection[str]]) -> bool:
        """Return whether a topic is deleted, as far as that can be known without the broker: no
        other one has it, and all those that had queues of it are there. Of a topic that was at this
        one alone, a drain has seen before that it had no queue here to be written."""
        if any(topic in table for table in others.values()):
            return False
        order = self._orders.of(topic)
        had = set() if order is None else {*order.ends()} - {self._broker}
        stand = self._moving.stands.of(self._broker)
        return had <= others.keys() and bool(had or (stand is not None and stand.is_done))

    async def _close(self) -> int:
        """Take the broker's permission to write away, so that topics that are made later get no
        messages there, unless one is there that cannot move; returns as ``_count_written``."""
        self._what = "takes the broker's permission to write away"
        address = self._address(self._broker)
        if address is None or await self._has_unmovable(address):
            return 0
        if await set_writable(self._admin, address, is_writable=False):
            self._read_only_since[self._broker] = trio.current_time()
        self._check()
        written = await self._count_written()
        if written:  # a queue has begun to move here meanwhile, and has to be written here
            await set_writable(self._admin, address, is_writable=True)
        return written

    async def _has_unmovable(self, address: str) -> bool:
        """Return whether clients write to topics at the broker that have no order."""
        cluster = await self._admin.cluster()
        of_brokers = {*cluster.cluster_addr_table, *cluster.broker_addr_table}
        configs = (await self._admin.topic_configs(address)).topic_config_table
        return any(
            config.perm & Permission.WRITE
            and may_have_order(topic)
            and topic not in of_brokers
            and self._orders.of(topic) is None
            for topic, config in configs.items()
        )

    async def _is_noted(self, version: int, written: int) -> bool:
        """Find who needs the broker yet, and note it; returns False where that is not known, since
        a queue was to come there meanwhile, or the broker has come or gone."""
        self._rest = Rest(self._context, self._broker, self._read_only_since)
        await self._rest.look(self._say, is_last=not written)
        self._check()
        if self._address(self._broker) is None:
            return bool(self._rest.why_unknown)
        if self._moving.stands.is_forgotten(self._broker):
            return False
        is_done = self._rest.is_nothing and not written
        if not await self._set_done(version, is_done=is_done):
            return False
        # A move says that it begins before it takes "done" back.
        return bool(written) or not await self._count_written()
