"""The operator of a simulated cluster: makes the topic, and moves its queues about."""

from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Final, final

import trio

from lanemq.sdk import LanemqError
from lanemq.sdk.admin import AdminClient, MigrationRefused, open_admin
from lanemq.wire import TopicConfig
from lanemq.wire.logical import LogicalQueues, check_queues

from ._clients import TOPIC
from ._ledger import Violated
from ._network import Network
from ._processes import BrokerProcess

HOST: Final = "10.0.9.8"
CALM_S: Final = 600.0
LOOK_S: Final = 1.0


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
        """Ended well,"""
        self.interrupted = 0
        """and stopped in the middle by whatever happened."""
        self.queues = 0

    async def create_topic(self, queues: int, *, is_logical: bool) -> None:
        """Make the topic on all brokers, and logical queues of its queues."""
        config = TopicConfig(TOPIC, read_queue_nums=queues, write_queue_nums=queues)
        async with self._admin() as admin:
            for broker in self._brokers:
                await admin.put_topic(broker.address, config)
                # What is made just now is durable soon; the misfortunes begin after that.
                await broker.running.context.store.tables.sync()
            if is_logical:
                self.queues = await admin.map_logical_queues(TOPIC)

    def _admin(self) -> AbstractAsyncContextManager[AdminClient]:
        return open_admin(name_servers=self._name_servers, dial=self._network.dialer(HOST))

    async def move_queues(self) -> None:
        """Migrate queue after queue to whatever broker, until cancelled."""
        while True:
            await trio.sleep(self._rng.expovariate(1 / 2.0))
            await self.move_a_queue()

    async def move_a_queue(self) -> None:
        """Migrate one, or go on with what was begun there."""
        index = self._rng.randrange(self.queues)
        destination = self._rng.choice(self._brokers).name
        async with self._admin() as admin:
            try:
                await admin.migrate_logical_queue(TOPIC, index, destination)
                self.migrations += 1
            except MigrationRefused:
                await self._finish(admin, index)
            except LanemqError:
                self.interrupted += 1

    async def _finish(self, admin: AdminClient, index: int) -> None:
        """Go on with a migration that was interrupted, or call it off."""
        try:
            await admin.resume_migration(TOPIC, index)
        except MigrationRefused:
            return  # there was none
        except LanemqError:
            self.interrupted += 1

    async def settled(self) -> None:
        """Return when every logical queue is whole again. Raises ``Violated`` if one stays broken.

        What was interrupted is resumed, as an operator would; the brokers do the rest.
        """
        findings = "nothing is known"
        with trio.move_on_after(CALM_S):
            async with self._admin() as admin:
                while True:
                    try:
                        for index in range(self.queues):
                            await self._finish(admin, index)
                        queues = await admin.routed_logical_queues(TOPIC)
                    except LanemqError as error:
                        findings = str(error)
                    else:
                        findings = self._broken(queues)
                        if not findings:
                            return
                    await trio.sleep(LOOK_S)
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

    async def check_ends(self) -> None:
        """No queue got a message after its last segment was sealed."""
        async with self._admin() as admin:
            queues = await admin.routed_logical_queues(TOPIC)
        assert queues is not None, "the queues were settled"
        for broker in self._brokers:
            store = broker.running.context.store
            for queue_id, segments in queues.by_queue(broker.name).items():
                end, last = store.bounds(TOPIC, queue_id)[1], segments[-1]
                if last.is_sealed and end != last.offset_max:
                    raise Violated(f"{last} is sealed, and its queue ends at {end}")
