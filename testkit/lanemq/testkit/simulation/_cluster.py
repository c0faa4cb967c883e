"""A simulated cluster: two name servers, some brokers, and what happens to them."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, final

import trio

from lanemq.sdk.consumer.ordered._queue_locks import LOCK_LIFE_S
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER

from ._clients import ORDERLY, SEEN_AT, TOPIC, client_host
from ._gone_past import GoingPast
from ._ledger import Ledger
from ._misfortunes import Misfortunes
from ._operator import HOST as OPERATOR_HOST
from ._operator import Operator
from ._processes import BrokerProcess, Process
from ._transactions import CHECK_MS

BROKERS: Final = 3
STEP_MEAN_S: Final = 2.0
STEP_OF_MIGRATION_S: Final = 0.02
STEP_OF_CALLING_OFF_S: Final = 0.4
CLIENTS: Final = 10
COMMITTERS: Final = 2
KEY_CLIENTS: Final = 3
FORGET: Final = "forget_name_servers"
COMMON: Final = ("nothing", "kill", "lose_power", "part", "restart_name_server", FORGET)
"""The misfortunes that may befall any cluster."""
MISFORTUNES: Final = (*COMMON, "kill_in_a_migration", "kill_while_called_off", "go_past")
"""The misfortunes that may befall a cluster with logical queues."""
OPENED_S: Final = 10.0
"""Seconds after which all clients have opened, for which they need a name server."""
EXPIRED_KEEP_MS: Final = 20_000
"""Milliseconds, short enough for brokers to forget idle queues' past moves within a run."""


@final
class Cluster(Misfortunes):
    """Two name servers, some brokers, and clients on hosts of their own."""

    def __init__(
        self,
        rng: Random,
        nursery: trio.Nursery,
        ledger: Ledger,
        only: str | None = None,
        *,
        has_transactions: bool = False,
        has_keys: bool = False,
    ) -> None:
        super().__init__(rng, nursery, only)
        self._clients = CLIENTS + (COMMITTERS if has_transactions or has_keys else 0)
        self._clients += KEY_CLIENTS if has_keys else 0
        self._ledger = ledger
        addresses = ";".join(server.address for server in self.name_servers)
        self.addresses = addresses
        self.brokers = [
            BrokerProcess(
                f"broker{n}",
                f"10.0.1.{n}",
                self.network,
                nursery,
                name_servers=addresses,
                rng=rng,
                auto_create_topic_enable=False,
                logical_queue_expired_keep_millis=EXPIRED_KEEP_MS,
                logical_queue_brokers=SEEN_AT,
                **({"transaction_check_interval": CHECK_MS} if has_transactions else {}),
            )
            for n in range(1, BROKERS + 1)
        ]
        for broker in self.brokers:
            broker.before_kill = self._forget_locks
        self.operator: Operator | None = None
        """Moves queues, where they are logical ones."""
        self.going_past: GoingPast | None = None
        """The operator that goes past sources."""

    def operated_by(self, operator: Operator) -> None:
        """Let misfortunes befall what an operator does to logical queues."""
        self.operator = operator
        self.going_past = GoingPast(
            operator,
            self.network,
            self.brokers,
            [OPERATOR_HOST, *(server.host for server in self.name_servers)],
            self._ledger,
            self.rng,
        )

    async def start(self) -> None:
        for process in (*self.name_servers, *self.brokers):
            await process.start()

    def _forget_locks(self, broker: BrokerProcess) -> None:
        """Note which locks of logical queues a broker that is killed had lent.

        It knows nothing of them when it is back, and a client trusts each until it could not renew
        it for a while.
        """
        context = broker.running.context
        for group in ORDERLY:
            for index in range(0 if self.operator is None else self.operator.queues):
                queue = MessageQueue(TOPIC, LOGICAL_QUEUE_BROKER, index)
                if context.locks.lent(group, queue, context.now_s()) is not None:
                    self._ledger.may_share(group, queue, trio.current_time() + LOCK_LIFE_S)

    async def step(self) -> None:
        """Let one thing happen, and time pass."""
        name = self._drawn(MISFORTUNES if self.operator is not None else COMMON)
        happen: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
        await happen()
        await trio.sleep(self.rng.expovariate(1 / STEP_MEAN_S))

    async def _nothing(self) -> None:
        await trio.sleep(self.rng.expovariate(1 / STEP_MEAN_S))

    async def _kill(self) -> None:
        await self._restart_broker(self.rng.choice(self.brokers), "kill")

    async def _lose_power(self) -> None:
        await self._restart_broker(self.rng.choice(self.brokers), "power")

    async def _kill_in_a_migration(self) -> None:
        assert self.operator is not None
        broker = self.rng.choice(self.brokers)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.operator.do_something)
            await trio.sleep(self.rng.expovariate(1 / STEP_OF_MIGRATION_S))
            await broker.kill()
        await self._away()
        await broker.restart(self.rng.choice(("kill", "power")))

    async def _kill_while_called_off(self) -> None:
        assert self.operator is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.operator.call_off)
            await trio.sleep(self.rng.expovariate(1 / STEP_OF_CALLING_OFF_S))
            source = self.operator.deeds.source
            (broker,) = (broker for broker in self.brokers if broker.name == source)
            await broker.kill()
        await self._away()
        await broker.restart(self.rng.choice(("kill", "power")))

    async def _go_past(self) -> None:
        assert self.going_past is not None
        await self.going_past.go_past()

    async def _part(self) -> None:
        processes: list[Process] = [*self.brokers, *self.name_servers]
        hosts = [process.host for process in processes] + [
            client_host(n) for n in range(self._clients)
        ]
        one, other = self.rng.sample(hosts, 2)
        await self._parted([(one, other)])

    async def _forget_name_servers(self) -> None:
        await trio.sleep_until(max(trio.current_time(), OPENED_S))
        await super()._forget_name_servers()
