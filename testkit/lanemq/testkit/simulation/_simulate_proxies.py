"""One run: a cluster behind proxies, its users, random misfortunes, and at the end the books."""

import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import trio

from lanemq.proxy.gateway.order import QueueOrder
from lanemq.sdk import LanemqError, RemotingClient, open_remoting_client
from lanemq.wire import RequestCode
from lanemq.wire.frame import request
from lanemq.wire.headers import GetMaxOffset

from ._determinism import determined_by, simulated_clock
from ._ledger import Ledger, Violated
from ._moves import part_of
from ._processes import BrokerProcess
from ._proxy_cluster import ProxyCluster
from ._proxy_process import ProxyProcess
from ._proxy_sockets import sockets_of
from ._proxy_users import GROUPS, Ways, make_members, make_senders, route_of, watch
from ._queue_lists import MOVING, TOPICS, queues_in

BEGIN_S: Final = 5.0
"""Seconds after which all have opened, for which they need name servers or proxies."""
SETTLED_S: Final = 120.0
"""Seconds of quiet after which both proxies have to tell all queues."""
USED_S: Final = 7.0
"""Seconds after which clients have heard of all queues, and have sent to them."""
ANSWER_S: Final = 3.0
"""Seconds within which a proxy has to answer once all is quiet."""
LOOK_S: Final = 1.0
WATCH_NET: Final = "10.0.8."


@dataclass(frozen=True)
class ProxyReport:
    """The counts of one run."""

    seed: int
    simulated_s: float
    acknowledged: int
    failed_sends: int
    delivered: int
    grown: int
    """Number of times that a topic has grown."""
    starts: int
    """Starts of proxies."""
    moves: int
    """Number of queues that moved."""
    drained: int
    """Number of times that a broker came to stand in for another one."""
    sent_again: int
    """Messages that came behind the end of a part, and were sent to the open one."""
    misfortunes: dict[str, int]
    trace: str
    """A digest of all that was sent."""

    @property
    def line(self) -> str:
        """The run in one line."""
        misfortunes = ", ".join(f"{name} {n}" for name, n in sorted(self.misfortunes.items()))
        return (
            f"seed {self.seed}: {self.simulated_s:.0f} s simulated, {self.acknowledged} "
            f"acknowledged ({self.failed_sends} sends failed), {self.delivered} delivered, "
            f"{self.grown} times grown, {self.starts} starts of proxies, "
            f"{self.moves} moves, {self.drained} drains, {self.sent_again} messages sent again; "
            f"{misfortunes}; trace {self.trace}"
        )


async def _run(seed: int, steps: int, only: str | None, directory: Path) -> ProxyReport:
    rng = Random(seed)
    ledgers = {topic: Ledger() for topic in TOPICS}
    async with trio.open_nursery() as nursery:
        cluster = ProxyCluster(rng, nursery, ledgers, directory, only)
        with sockets_of(cluster.network):
            await _live(cluster, ledgers, steps, nursery)
            simulated_s = trio.current_time()
            nursery.cancel_scope.cancel()
    cluster.lists.check()
    for topic, ledger in ledgers.items():
        ledger.check_places()
        ledger.check_order()
        ledger.check_owners()
        for group in GROUPS:
            if group.topic == topic and group.is_orderly:
                ledger.check_delivered_order(group.name)
    return ProxyReport(
        seed,
        simulated_s,
        sum(len(ledger.acknowledged) for ledger in ledgers.values()),
        sum(ledger.failed_sends for ledger in ledgers.values()),
        sum(len(one) for ledger in ledgers.values() for one in ledger.delivered.values()),
        cluster.growth.times,
        sum(proxy.starts for proxy in cluster.proxies),
        cluster.moves.done,
        cluster.moves.drained,
        sum(proxy.running.left.sent for proxy in cluster.proxies if proxy.running.left),
        cluster.misfortunes,
        cluster.network.trace,
    )


async def _live(
    cluster: ProxyCluster, ledgers: dict[str, Ledger], steps: int, nursery: trio.Nursery
) -> None:
    """Let the cluster work, and wait until all that was acknowledged is handled."""
    network, lists, rng = cluster.network, cluster.lists, cluster.rng
    await cluster.start()
    await _until_settled(cluster)
    for broker in cluster.up:  # the topics of proxies are durable; the misfortunes begin after that
        await broker.running.context.store.tables.sync()
    proxies = [proxy.address for proxy in cluster.proxies]
    ways = Ways(cluster.addresses, proxies, Random(rng.getrandbits(64)))
    topics = (MOVING,) if cluster.is_of_moves else TOPICS
    cluster.members = [
        one for one in make_members(network, ways, ledgers, lists) if one.topic in topics
    ]
    for member in cluster.members:
        nursery.start_soon(member.run)
    for number, proxy in enumerate(cluster.proxies):
        host, looks = f"{WATCH_NET}{number + 1}", Random(rng.getrandbits(64))
        nursery.start_soon(watch, network, host, proxy, lists, looks)
    senders = make_senders(network, ways, ledgers, lists, rng, topics)
    async with trio.open_nursery() as sending:
        for sender in senders:
            sending.start_soon(sender.run)
        await trio.sleep(BEGIN_S)
        async with trio.open_nursery() as growing:
            for _ in range(steps):
                await cluster.step(growing)
                lists.check()
            network.join()
        await _until_settled(cluster)
        await trio.sleep(USED_S)
        for sender in senders:
            sender.enough = True
    await _check_answers(cluster)
    lists.check()
    for topic, ledger in ledgers.items():
        orders = cluster.proxies[0].running.orders
        assert orders is not None
        _check_stored(topic, ledger, cluster.up, orders.of(topic) or QueueOrder())
    for group in GROUPS:
        await ledgers[group.topic].check_delivered(group.name)


async def _until_settled(cluster: ProxyCluster) -> None:
    """Return when both proxies tell all queues, in the same order. Raises ``Violated``."""
    wrong = "nobody has answered"
    with trio.move_on_after(SETTLED_S):
        async with open_remoting_client(dial=cluster.network.dialer(f"{WATCH_NET}9")) as client:
            while wrong := await _wrong(cluster, client):  # noqa: ASYNC110 - as an operator
                await trio.sleep(LOOK_S)
            return
    cluster.lists.check()
    raise Violated(f"after {SETTLED_S:g} s of quiet: {wrong}")


async def _wrong(cluster: ProxyCluster, client: RemotingClient) -> str:
    """Return what is wrong with what the proxies tell; empty if all is well."""
    lists = cluster.lists
    for topic in TOPICS:
        for proxy in cluster.proxies:
            try:
                found = queues_in(topic, await route_of(client, proxy, topic))
            except LanemqError as error:
                return f"{proxy.name}: {error}"
            lists.note_orders(proxy)
            entries = lists.of(topic)
            if found != [entry.seen for entry in entries]:
                return f"{proxy.name} tells {found}, the list is {entries}"
            if {entry.own for entry in entries} != cluster.growth.queues(topic):
                return f"{topic} has {cluster.growth.queues(topic)}, the list is {entries}"
    return ""


async def _check_answers(cluster: ProxyCluster) -> None:
    """Check that proxies answer in time at every port. Raises ``Violated``."""
    async with open_remoting_client(dial=cluster.network.dialer(f"{WATCH_NET}9")) as client:
        for proxy in cluster.proxies:
            why = proxy.running.routes.why_not_ready
            if why:
                raise Violated(f"{proxy.name} is not ready: {why}")
            for question in _questions(cluster, client, proxy):
                try:
                    await question()
                except LanemqError as error:
                    raise Violated(f"{proxy.name} does not answer: {error}") from error


def _questions(
    cluster: ProxyCluster, client: RemotingClient, proxy: ProxyProcess
) -> Sequence[Callable[[], Awaitable[object]]]:
    """Return questions for the brokers, for each route, and for each queue at its port."""

    def asked(
        code: RequestCode, fields: dict[str, str], at: str
    ) -> Callable[[], Awaitable[object]]:
        return lambda: client.call(at, request(code, fields), ANSWER_S)

    ports = {key.name: str(port.address) for key, port in proxy.running.brokers.ports.items()}
    found = [asked(RequestCode.GET_BROKER_CLUSTER_INFO, {}, proxy.address)]
    for topic in TOPICS:
        fields = {"topic": topic}
        found.append(asked(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields, proxy.address))
        for entry in cluster.lists.of(topic):
            name, number = entry.seen.broker_name, entry.seen.queue_id
            if name not in ports:
                raise Violated(f"{proxy.name} has no port for {name}")
            header = GetMaxOffset(topic, number).to_fields()
            found.append(asked(RequestCode.GET_MAX_OFFSET, header, ports[name]))
    return found


def _check_stored(
    topic: str, ledger: Ledger, brokers: Sequence[BrokerProcess], order: QueueOrder
) -> None:
    """Check that each message is where its answer said, by what the brokers themselves have."""
    for broker in brokers:
        store = broker.running.context.store
        stored: dict[tuple[int, int], bytes] = {}
        for _, number in [one for one in store.queues() if one[0] == topic]:
            least, behind = store.bounds(topic, number)
            for unit in store.units(topic, number, least, behind - least):
                message = store.message_at(unit.log_position)
                if message is not None:
                    stored[number, message.queue_offset] = message.body
        for ack in ledger.acknowledged:
            if ack.queue_offset < 0:
                continue
            name, number, offset = part_of(order, ack.queue, ack.queue_offset)
            if name != broker.name:
                continue
            body = stored.get((number, offset))
            if body != f"{ack.sender} {ack.number}".encode():
                raise Violated(f"{ack} was acknowledged, and {body!r} is there")


def simulate_proxies(seed: int, steps: int, only: str | None = None) -> ProxyReport:
    """Run the cluster behind proxies of a seed for ``steps`` steps, of all kinds or of one.

    As ``simulate``. Raises ``Violated`` where a promise was broken.
    """
    with determined_by(seed), tempfile.TemporaryDirectory() as directory:
        try:
            return trio.run(_run, seed, steps, only, Path(directory), clock=simulated_clock())
        except BaseExceptionGroup as group:
            violated = next(_violations(group), None)
            if violated is None:
                raise
            raise violated from group


def _violations(group: BaseExceptionGroup[BaseException]) -> Iterator[Violated]:
    for error in group.exceptions:
        if isinstance(error, Violated):
            yield error
        elif isinstance(error, BaseExceptionGroup):
            yield from _violations(error)
