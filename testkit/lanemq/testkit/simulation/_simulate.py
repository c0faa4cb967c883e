"""One run: a cluster, its users, random misfortunes, and at the end the books."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import trio

from lanemq.sdk import ConsumeFrom

from ._clients import GROUPS, OLD, ORDERLY, QUICK, Reader, Sender, client_host
from ._cluster import FORGET, KEY_CLIENTS, Cluster
from ._determinism import determined_by, simulated_clock
from ._keys import KeyClients
from ._ledger import Ledger
from ._operator import Operator
from ._transactions import Committer, Decisions, all_ended

LOGGER = logging.getLogger("lanemq.simulation")
QUEUES: Final = 2
ADMINS: Final = 2
"""Number of admins; they move queues at once, and know nothing of each other."""
LOGICAL_SHARE: Final = 0.8
"""The share of runs with logical queues; the others show the brokers alone."""


@dataclass(frozen=True)
class Report:
    """The counts of one run."""

    seed: int
    steps: int
    simulated_s: float
    acknowledged: int
    failed_sends: int
    delivered: int
    migrations: int
    interrupted: int
    gone_past: int
    """Queues that went on past a source that was alive."""
    appended: int
    """Messages of such sources that were appended meanwhile."""
    transactions: tuple[int, int, int]
    """Transactions committed, rolled back, and questions of brokers."""
    keys: tuple[int, int]
    """Answers about keys, and moves of their partitions."""
    misfortunes: dict[str, int]
    trace: str
    """A digest of all that was sent."""

    @property
    def line(self) -> str:
        """The run in one line."""
        misfortunes = ", ".join(f"{name} {n}" for name, n in sorted(self.misfortunes.items()))
        committed, rolled_back, asked = self.transactions
        return (
            f"seed {self.seed}: {self.simulated_s:.0f} s simulated, "
            f"{self.acknowledged} acknowledged ({self.failed_sends} sends failed), "
            f"{self.delivered} delivered, {self.migrations} migrations "
            f"({self.interrupted} interrupted), {self.gone_past} times past a source "
            f"({self.appended} messages appended), {committed} transactions committed and "
            f"{rolled_back} rolled back ({asked} times asked), {self.keys[0]} answers about keys "
            f"and {self.keys[1]} moves of partitions; {misfortunes}; trace {self.trace}"
        )


async def _run(
    seed: int, steps: int, only: str | None, has_transactions: bool, has_keys: bool
) -> Report:
    rng = Random(seed)
    ledger = Ledger()
    is_logical = rng.random() < LOGICAL_SHARE or only is not None
    async with trio.open_nursery() as nursery:
        cluster = Cluster(
            rng, nursery, ledger, only, has_transactions=has_transactions, has_keys=has_keys
        )
        await cluster.start()
        operator = Operator(
            cluster.network, cluster.addresses, cluster.brokers, Random(rng.getrandbits(64))
        )
        await operator.create_topic(QUEUES, is_logical=is_logical)
        if is_logical:
            cluster.operated_by(operator)
        keys = await _key_clients(cluster, operator) if has_keys else None
        asking = trio.CancelScope()
        if keys is not None:
            nursery.start_soon(_while_not_cancelled, asking, keys.work)
        senders = _senders(cluster, ledger)
        decisions = Decisions(ledger)
        committers = _committers(cluster, decisions) if has_transactions else []
        committing = trio.CancelScope()
        if committers:
            nursery.start_soon(_run_until, committing, committers)
        reading = trio.CancelScope()
        nursery.start_soon(_run_until, reading, _readers(cluster, ledger))
        async with trio.open_nursery() as sending:
            for sender in senders:
                sending.start_soon(sender.run)
            async with trio.open_nursery() as moving:
                if is_logical:
                    for _ in range(ADMINS):
                        moving.start_soon(operator.move_queues)
                if keys is not None:
                    moving.start_soon(keys.move)
                for _ in range(steps):
                    await cluster.step()
                moving.cancel_scope.cancel()
            cluster.network.join()
            if is_logical:
                await operator.one_end_each()
                await operator.until_whole()
            if keys is not None:
                await keys.until_open()
            for sender in senders:
                sender.enough = True
        if only == FORGET:
            ledger.check_all_served()
        for committer in committers:
            committer.enough = True
            await committer.done.wait()
        if has_transactions:
            await decisions.all_made()
        if cluster.going_past is not None:
            await cluster.going_past.all_appended()
        for group in GROUPS:
            await ledger.check_delivered(group)
        if has_transactions:
            await all_ended(cluster.brokers)
        committing.cancel()
        if cluster.going_past is not None:
            await operator.check_ends(cluster.going_past.cut_off)
            await trio.sleep(LATE_S)
            reading.cancel()
            await _without_a_broker(cluster, operator, ledger, nursery)
        if keys is not None:
            await keys.until_open()  # also where a broker was drained and is gone
            asking.cancel()
        simulated_s = trio.current_time()
        nursery.cancel_scope.cancel()
    if keys is not None:
        keys.check()
    ledger.check_rolled_back()
    ledger.check_places()
    ledger.check_order()
    ledger.check_owners()
    for group in ORDERLY:
        ledger.check_delivered_order(group)
    return Report(
        seed,
        steps,
        simulated_s,
        len(ledger.acknowledged),
        ledger.failed_sends,
        sum(map(len, ledger.delivered.values())),
        operator.migrations,
        operator.interrupted,
        0 if cluster.going_past is None else cluster.going_past.times,
        0 if cluster.going_past is None else cluster.going_past.messages,
        (decisions.committed, decisions.rolled_back, decisions.asked),
        (0, 0) if keys is None else (keys.history.answered, keys.moved),
        cluster.misfortunes,
        cluster.network.trace,
    )


async def _key_clients(cluster: Cluster, operator: Operator) -> KeyClients:
    """Return clients of a namespace that is there."""
    keys = KeyClients(
        [client_host(12 + number) for number in range(KEY_CLIENTS)],
        cluster.network,
        cluster.addresses,
        cluster.brokers,
        operator,
        Random(cluster.rng.getrandbits(64)),
    )
    await keys.create()
    for broker in cluster.brokers:  # as for the topic
        await broker.running.context.store.tables.sync()
    return keys


async def _while_not_cancelled(scope: trio.CancelScope, run: Callable[[], Awaitable[None]]) -> None:
    with scope:
        await run()


async def _run_until(scope: trio.CancelScope, users: Sequence[Reader | Committer]) -> None:
    """Run them until ``scope`` is cancelled."""
    with scope:
        async with trio.open_nursery() as nursery:
            for user in users:
                nursery.start_soon(user.run)


async def _without_a_broker(
    cluster: Cluster, operator: Operator, ledger: Ledger, nursery: trio.Nursery
) -> None:
    """Drain a broker while all groups are offline, and forget it: they miss nothing of the rest.

    It stays where it has something that a group has not read, such as a second copy of a delayed
    message that came late.
    """
    await trio.sleep(OFFLINE_S)
    broker = cluster.rng.choice(cluster.brokers)
    is_free = await operator.drain(broker.name)
    await trio.sleep(NOTICE_S)
    senders = _senders(cluster, ledger, "again", LATER)
    async with trio.open_nursery() as sending:
        for sender in senders:
            sending.start_soon(sender.run)
    if is_free:
        await broker.kill()
        await trio.sleep(NOTICE_S)
        await operator.forget(broker.name)
    for reader in _readers(cluster, ledger, ConsumeFrom.LAST_OFFSET):
        nursery.start_soon(reader.run)
    for group in GROUPS:
        await ledger.check_delivered(group)


LATE_S: Final = 30.0
"""Second copies of delayed messages have come by then as a rule, and are read."""
OFFLINE_S: Final = 30.0
"""Brokers have noticed by then that consumers are gone."""
NOTICE_S: Final = 40.0
"""Seconds after which clients and name servers know what was moved, or went down."""
LATER: Final = 30
"""Messages that each sender sends after the broker was drained."""


def _senders(
    cluster: Cluster, ledger: Ledger, suffix: str = "", count: int | None = None
) -> list[Sender]:
    return [
        Sender(
            name + suffix,
            client_host(number),
            cluster.network,
            cluster.addresses,
            ledger,
            Random(cluster.rng.getrandbits(64)),
            OLD if name.startswith("old") else QUICK,
            count,
        )
        for number, name in enumerate(("sender", "old-sender"))
    ]


def _committers(cluster: Cluster, decisions: Decisions) -> list[Committer]:
    return [
        Committer(
            name,
            client_host(number),
            cluster.network,
            cluster.addresses,
            decisions,
            Random(cluster.rng.getrandbits(64)),
        )
        for number, name in enumerate(("committer", "other-committer"), 10)
    ]


def _readers(
    cluster: Cluster, ledger: Ledger, consume_from: ConsumeFrom = ConsumeFrom.FIRST_OFFSET
) -> list[Reader]:
    return [
        Reader(
            group,
            client_host(2 + number),
            cluster.network,
            cluster.addresses,
            ledger,
            OLD if group.startswith("old") else QUICK,
            is_orderly=group.endswith("orderly"),
            consume_from=consume_from,
        )
        for number, group in enumerate((*GROUPS, *GROUPS))
    ]


def simulate(
    seed: int,
    steps: int,
    only: str | None = None,
    *,
    has_transactions: bool = False,
    has_keys: bool = False,
) -> Report:
    """Run the cluster of a seed for ``steps`` steps, of all kinds or of kind ``only``.

    The same seed gives the same run, if it is the first of a process with ``PYTHONHASHSEED=0``:
    see ``determined_by``. Raises ``Violated`` where a promise was broken.
    """
    with determined_by(seed):
        return trio.run(
            _run, seed, steps, only, has_transactions, has_keys, clock=simulated_clock()
        )
