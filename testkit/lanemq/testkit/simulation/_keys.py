"""Clients of keys in a simulated cluster, whose partitions are moved about meanwhile."""

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final, final

import trio

from lanemq.sdk import LanemqError
from lanemq.sdk.admin import AdminClient, MigrationRefused
from lanemq.sdk.kv import open_kv_store
from lanemq.wire.kv import DEFAULT_NAMESPACE, kv_topic

from ..proxy.kv_history import History, work
from ._deeds import Deeds
from ._ledger import Violated
from ._network import Network
from ._operator import Operator
from ._processes import BrokerProcess

TOPIC: Final = kv_topic(DEFAULT_NAMESPACE)
PARTITIONS: Final = 2
KEYS: Final = (b"a", b"b", b"c", b"d")
PAUSE_MEAN_S: Final = 0.5
MOVE_MEAN_S: Final = 1.0
CALL_OFF_SHARE: Final = 0.25
TIMEOUT_S: Final = 120.0
"""Longer than anything is away: what is not answered has many explanations, each to be tried."""
CALM_S: Final = 300.0
"""Seconds of quiet after which each partition has to be open at one broker."""
LOOK_S: Final = 1.0


@final
class KeyClients:
    """Clients of one namespace of two partitions, and an operator who moves these."""

    def __init__(
        self,
        hosts: Sequence[str],
        network: Network,
        name_servers: str,
        brokers: Sequence[BrokerProcess],
        operator: Operator,
        rng: Random,
    ) -> None:
        self._hosts = hosts
        self._network = network
        self._name_servers = name_servers
        self._brokers = brokers
        self._operator = operator
        self._rng = rng
        self.history = History(KEYS)
        self.moved = 0
        """Moves of partitions that ended well."""

    async def create(self) -> None:
        """Make the namespace, at the first two brokers."""
        names = [broker.name for broker in self._brokers[:PARTITIONS]]
        async with open_kv_store(
            name_servers=self._name_servers, dial=self._network.dialer(self._hosts[0])
        ) as store:
            await store.create(PARTITIONS, names)

    async def work(self) -> None:
        """Let all clients work, until cancelled."""
        async with trio.open_nursery() as nursery:
            for number, host in enumerate(self._hosts):
                nursery.start_soon(self._work, number, host)

    async def _work(self, number: int, host: str) -> None:
        async with open_kv_store(
            name_servers=self._name_servers,
            timeout_s=TIMEOUT_S,
            dial=self._network.dialer(host),
        ) as store:
            await work(store, self.history, number, pause_mean_s=PAUSE_MEAN_S)

    async def move(self) -> None:
        """Move partitions, or call that off, until cancelled."""
        names = [broker.name for broker in self._brokers]
        deeds = Deeds(self._rng, PARTITIONS, names, topic=TOPIC)
        while True:
            await trio.sleep(self._rng.expovariate(1 / MOVE_MEAN_S))
            try:
                async with self._operator.tools() as admin:
                    if self._rng.random() < CALL_OFF_SHARE:
                        await deeds.call_off(admin)
                        continue
                    partition = self._rng.randrange(PARTITIONS)
                    try:
                        await admin.migrate_logical_queue(TOPIC, partition, self._rng.choice(names))
                    except MigrationRefused:
                        await admin.resume_migration(TOPIC, partition)
                    self.moved += 1
            except LanemqError:
                continue  # it is there, or something happened to it

    async def until_open(self) -> None:
        """Return when each partition is open at one broker, by the operator's and their doing.

        Raises ``Violated`` where it is not, after so much quiet.
        """
        wrong = "nothing is known"
        with trio.move_on_after(CALM_S):
            async with self._operator.tools() as admin:
                while True:
                    for partition in range(PARTITIONS):
                        with suppress(LanemqError):  # there is nothing to resume
                            await admin.resume_migration(TOPIC, partition)
                    try:
                        wrong = await self._wrong(admin)
                    except LanemqError as error:
                        wrong = str(error)
                    if not wrong:
                        return
                    await trio.sleep(LOOK_S)
        raise Violated(f"after {CALM_S:g} s of quiet: {wrong}")

    async def _wrong(self, admin: AdminClient) -> str:
        """Return the faults of the brokers' partitions; empty where there are none."""
        held: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
        for broker in self._brokers:
            for status in await admin.kv_status(broker.address) if broker.is_up else ():
                if status.lost:
                    return f"partition {status.partition} is lost at {broker.name}"
                if not status.is_open:
                    return f"{broker.name} still has what partition {status.partition} had there"
                held[status.partition].append(broker.name)
        wrong = {partition: names for partition, names in held.items() if len(names) != 1}
        return f"partitions are open at {wrong}" if wrong else ""

    def check(self) -> None:
        """Check the clients' histories. Raises ``Violated``."""
        if not self.history.is_linearizable:
            raise Violated("what the clients of keys saw has no explanation")
