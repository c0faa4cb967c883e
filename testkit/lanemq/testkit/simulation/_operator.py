"""The operator of a simulated cluster: makes the topic, and moves its queues about."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Final, final

import trio

from lanemq.sdk import LanemqError, RefusedByBroker
from lanemq.sdk.admin import AdminClient, MigrationRefused, open_admin
from lanemq.sdk.admin._logical_progress import carry_progress
from lanemq.sdk.admin._remains import UNREAD, remainders
from lanemq.sdk.admin.logical._spread import plan_drain
from lanemq.sdk.admin.logical._survey import survey_all
from lanemq.wire import ResponseCode
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.logical import LogicalQueues, Segment, SegmentKey, SegmentState, check_queues

from ._clients import TOPIC
from ._deeds import Deeds
from ._ledger import Violated
from ._network import Network
from ._processes import BrokerProcess

HOST: Final = "10.0.9.8"
CALM_S: Final = 600.0
LOOK_S: Final = 1.0
LOOK_AGAIN_S: Final = 5.0
"""Seconds between an operator's looks at what is left undone: each look asks every broker."""
QUIET_S: Final = 60.0
"""Brokers look at name servers' views every half minute, and at migrations every 3 s."""
PAUSE_MEAN_S: Final = 0.3
"""Mean pause between two deeds. Traffic costs the processor time: there is much for each second."""
MOVE_SHARE: Final = 0.75
"""The share of an operator's deeds that are whole migrations."""


@final
class Operator:
    """Uses the tools an operator has, from a host of its own."""

    def __init__(
        self, network: Network, name_servers: str, brokers: list[BrokerProcess], rng: Random
    ) -> None:
        self._network = network
        self._name_servers = name_servers
        self._brokers = brokers
        self._rng = rng
        self.migrations = 0
        """Migrations that ended well."""
        self.interrupted = 0
        """Migrations that were stopped in the middle by whatever happened."""
        self.queues = 0
        self.deeds = Deeds(rng, 0, [])
        self._reserved: set[int] = set()
        self._moving: Counter[int] = Counter()
        self._deeds_under_way = 0
        self._ends: dict[int, str] = {}
        """The brokers at which queues were seen to end last."""

    async def create_topic(self, queues: int, *, is_logical: bool) -> None:
        """Make the topic on all brokers, and logical queues of its queues."""
        config = TopicConfig(TOPIC, read_queue_nums=queues, write_queue_nums=queues)
        async with self.tools() as admin:
            for broker in self._brokers:
                await admin.put_topic(broker.address, config)
                # What is made just now is durable soon; the misfortunes begin after that.
                await broker.running.context.store.tables.sync()
            if is_logical:
                self.queues = await admin.map_logical_queues(TOPIC)
                names = [broker.name for broker in self._brokers]
                self.deeds = Deeds(self._rng, self.queues, names)

    def tools(self) -> AbstractAsyncContextManager[AdminClient]:
        """Return a connection of the tools to the cluster."""
        return open_admin(name_servers=self._name_servers, dial=self._network.dialer(HOST))

    @asynccontextmanager
    async def left_alone(self, index: int) -> AsyncIterator[None]:
        """Let no admin touch a queue within the block; it begins when what is under way ended."""
        self._reserved.add(index)
        try:
            while self._deeds_under_way or self._moving[index]:  # noqa: ASYNC110 - as below
                await trio.sleep(LOOK_S / 10)
            yield
        finally:
            self._reserved.discard(index)

    async def move_queues(self) -> None:
        """Migrate queue after queue, each to a broker at random, until cancelled."""
        while True:
            await trio.sleep(self._rng.expovariate(1 / PAUSE_MEAN_S))
            await self.do_something()

    async def do_something(self) -> None:
        """Migrate a queue, or do another operation on it."""
        if self._rng.random() < MOVE_SHARE:
            await self.move_a_queue()
            return
        if self._reserved:
            return  # it may be any queue that they touch
        self._deeds_under_way += 1
        try:
            async with self.tools() as admin:
                await self.deeds.do(admin)
        except LanemqError:
            self.interrupted += 1
        finally:
            self._deeds_under_way -= 1

    async def call_off(self) -> None:
        """Begin a migration, and abort it once its source is sealed."""
        async with self.tools() as admin:
            try:
                await self.deeds.call_off(admin, "prepare")
            except LanemqError:
                self.interrupted += 1

    async def move_a_queue(self) -> None:
        """Migrate one, or go on with what was begun there."""
        index = self._rng.randrange(self.queues)
        if index in self._reserved:
            return
        self._moving[index] += 1
        try:
            async with self.tools() as admin:
                await self._move(admin, index)
        finally:
            self._moving[index] -= 1

    async def _move(self, admin: AdminClient, index: int) -> None:
        names = [broker.name for broker in self._brokers if broker.name != self._ends.get(index)]
        destination = self._rng.choice(names)
        try:
            await admin.migrate_logical_queue(TOPIC, index, destination)
            self.migrations += 1
            self._ends[index] = destination
        except MigrationRefused:
            self._ends.pop(index, None)
            await self._finish(admin, index)
        except LanemqError:
            self.interrupted += 1

    async def _finish(self, admin: AdminClient, index: int) -> None:
        """Go on with a migration that was interrupted, or call it off."""
        try:
            await admin.resume_migration(TOPIC, index)
            self.migrations += 1
        except MigrationRefused:
            return  # there was none
        except LanemqError:
            self.interrupted += 1

    async def one_end_each(self) -> None:
        """Return when each logical queue has one open end, by the brokers' doing alone.

        Raises ``Violated`` where one has not, after so much quiet. A destination that its tool left
        at the first step may wait beside it, and a queue that may have been closed have none.
        """
        wrong: list[str] = []
        with trio.move_on_after(QUIET_S):
            while wrong := self._wrong_ends():  # noqa: ASYNC110 - nothing would say so
                await trio.sleep(LOOK_S)
            return
        raise Violated(f"after {QUIET_S:g} s of quiet: {'; '.join(wrong)}")

    def _wrong_ends(self) -> list[str]:
        ends: dict[int, list[Segment]] = {index: [] for index in range(self.queues)}
        for broker in self._brokers:
            mapping = broker.running.context.logical.get(TOPIC) if broker.is_up else None
            for segment in mapping.own() if mapping is not None else ():
                if segment.state is SegmentState.NORMAL:
                    ends[segment.logical_index].append(segment)
        return [
            f"logical queue {index} has the open ends {list(map(str, found))}"
            for index, found in ends.items()
            if len(found) > 1 or not (found or index in self.deeds.closed)
        ]

    async def until_whole(self) -> None:
        """Return when every logical queue is whole again. Raises ``Violated`` if one stays broken.

        Interrupted migrations are resumed, as by an operator; the brokers do the rest.
        """
        findings = "nothing is known"
        with trio.move_on_after(CALM_S):
            async with self.tools() as admin:
                while True:
                    try:
                        for index in range(self.queues):
                            await self._finish(admin, index)
                        await self.deeds.number(admin, self.queues)
                        queues = await admin.routed_logical_queues(TOPIC)
                    except LanemqError as error:
                        findings = str(error)
                    else:
                        findings = self._broken(queues)
                        if not findings:
                            return
                    await trio.sleep(LOOK_AGAIN_S)
        raise Violated(f"the logical queues are not whole after {CALM_S:g} s: {findings}")

    def _broken(self, queues: LogicalQueues | None) -> str:
        if queues is None or len(queues) != self.queues:
            return f"{len(queues or ())} of {self.queues} are there"
        wrong = [finding.text for finding in check_queues(queues)]
        for chain in queues.values():
            open_ends = [segment for segment in chain if segment.is_writable]
            if len(open_ends) != 1 or open_ends[0].delta < 0:
                wrong.append(f"{chain} has {len(open_ends)} open ends")
        return "; ".join(wrong)

    async def drain(self, name: str) -> bool:
        """Empty a broker as ``drainBroker`` does; returns whether every group has read all of it.

        Raises what stops it.
        """
        async with self.tools() as admin:
            found = await survey_all(admin)
            for move in plan_drain(found.chains(), name, found.brokers):
                await admin.migrate_logical_queue(move.topic, move.index, move.destination)
                self.migrations += 1
            left = await survey_all(admin)
            chains = left.chains()
            carried = await carry_progress(admin, chains, name, left.brokers)
            if carried.missing:
                raise Violated(f"progress that stays with {name}: {carried.missing}")
            remains = await remainders(admin, chains, name, left.brokers)
            return all(one.what != UNREAD for one in remains)

    async def forget(self, name: str) -> None:
        """Tell name servers that a broker will not come back."""
        async with self.tools() as admin:
            try:
                await admin.forget_broker(name)
            except RefusedByBroker as error:
                if error.code != ResponseCode.QUERY_NOT_FOUND:
                    raise  # name servers that were started since know no broker of the name

    async def check_ends(self, cut_off: set[tuple[SegmentKey, int]]) -> None:
        """Check that no queue got messages after its last segment was sealed, but those cut off
        there."""
        async with self.tools() as admin:
            queues = await admin.routed_logical_queues(TOPIC)
        assert queues is not None, "the queues are whole"
        for broker in self._brokers:
            store = broker.running.context.store
            for queue_id, segments in queues.by_queue(broker.name).items():
                end, last = store.bounds(TOPIC, queue_id)[1], segments[-1]
                if last.is_sealed and end != last.offset_max and (last.key, end) not in cut_off:
                    raise Violated(f"{last} is sealed, and its queue ends at {end}")
