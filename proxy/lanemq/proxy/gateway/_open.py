"""A running proxy at sockets of the operating system."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import Dial, RemotingClient, dial_tcp, open_remoting_client
from lanemq.sdk.admin import AdminClient
from lanemq.storage import Supervisor
from lanemq.wire import HostAddress

from ..net._dispatch import guarded
from ..net._server import Server
from ..net.limits._budget import Budget
from ..net.transport._listen import listen, warn_of_strangers
from ..tls import ProcessTls
from ._brokers import UpstreamBrokers
from ._changes import guard_of_changes
from ._config import GatewayConfig
from ._direct_members import DirectMembers
from ._known_logs import known_key_logs, known_log, orders_over
from ._name_servers import NameServers
from ._numbers import BrokerNumbers
from ._peers import Peers
from ._routes import Routes
from ._status import StatusRequests
from ._workers import Workers
from .kv import (
    CALL_S,
    KeyNamespaces,
    KeyRequests,
    KnownLog,
    KnownLogs,
)
from .moves import DrainRequests, LeftBehind, MoveContext, MoveRequests, MovingQueues, Returns
from .order import QueueOrders

LOGGER = get_logger("lanemq.proxy.gateway", by_peers=True)

FIRST_LOOK_S: Final = 5.0
"""Seconds that the start waits for a name server; brokers found later get their ports then."""
HEARD_S: Final = 60.0
"""Seconds after which a broker that has started knows all members of groups again: clients ask for
routes, and send heartbeats, every 30 s each."""
DRAIN_S: Final = 10.0
"""Seconds that a stopping proxy waits for the answers of brokers."""
DRAIN_LOOK_S: Final = 0.05


@final
@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A proxy that is listening."""

    address: HostAddress
    """The address for routes."""
    routes: Routes
    brokers: UpstreamBrokers
    peers: Peers
    budget: Budget
    orders: QueueOrders | None
    """The orders of queues, where they are kept."""
    members: DirectMembers | None
    """The groups with members who do not see these orders."""
    moving: MovingQueues | None
    """The queues that move, where they may."""
    left: LeftBehind | None
    """Sends again the messages behind their ends."""
    server: Server
    """The server at ``address``."""


Task = tuple[str, Callable[[], Awaitable[None]]]
"""A background task, and what it does."""


@asynccontextmanager
async def open_gateway(
    config: GatewayConfig, *, dial: Dial = dial_tcp
) -> AsyncIterator[RunningGateway]:
    """Run a proxy for the length of the block.

    At its end clients are sent to the other proxies, if there are any; those of 5.2 and later are
    told to go, and all get the answers that are still on their way. Raises ``AddressUnavailable``,
    ``ConfigError``.
    """
    tls = ProcessTls(config, name="the proxy")
    with (
        ExitStack() as sockets,
        closing(
            BrokerNumbers(
                config.state_path, is_locking=not config.is_shared, is_shared=config.is_shared
            )
        ) as numbers,
    ):
        listener = sockets.enter_context(
            listen(config.bind_address, config.listen_port, is_shared=config.is_shared)
        )
        address = HostAddress(config.advertised_host, listener.getsockname()[1])
        warn_of_strangers("the proxy", [listener], tls.server, has_accounts=None)
        tls.say()
        async with (
            open_remoting_client(dial=tls.dial(dial)) as client,
            trio.open_nursery() as nursery,
        ):
            running, tasks = _parts(config, address, client, nursery, dial, tls, numbers)
            supervisor = Supervisor()
            for what, run in (("looking for new certificates", tls.watch), *tasks):
                nursery.start_soon(supervisor.run, what, run)
            with trio.move_on_after(FIRST_LOOK_S):
                await running.routes.looked.wait()
                if running.orders is not None:
                    await running.orders.opened()
                if running.moving is not None:
                    await running.moving.lease.granted.wait()
            await nursery.start(running.server.serve, [listener])
            try:
                yield running
                await _leave(running, config.leave_seconds)  # a second signal cuts it short
            finally:
                with trio.CancelScope(shield=True):  # both are bounded
                    await _stop(running)
                    await running.server.stop()
                nursery.cancel_scope.cancel()


def _parts(
    config: GatewayConfig,
    address: HostAddress,
    client: RemotingClient,
    nursery: trio.Nursery,
    dial: Dial,
    tls: ProcessTls,
    numbers: BrokerNumbers,
) -> tuple[RunningGateway, list[Task]]:
    """Build a proxy, and its tasks."""
    budget = Budget(config.peer_memory_bytes)
    namespaces = known_keys = None
    if config.keys:
        known_keys = known_key_logs(config, address)
        namespaces = KeyNamespaces(client, config.name_servers, known=known_keys)
    keys = None if namespaces is None else _keys(namespaces, lambda: brokers.first_name)
    admin = AdminClient(client, config.name_servers, timeout_s=CALL_S)
    known = known_log(config, address) if config.logical else None
    orders = None if known is None else orders_over(config, client, admin, known)
    brokers = UpstreamBrokers(
        config,
        numbers,
        nursery=nursery,
        dial=tls.dial(dial),
        budget=budget,
        tls=tls.server,
        keys=keys,
        orders=orders,
    )
    members = None if orders is None else DirectMembers(admin, brokers, orders)
    peers = _peers(config, address, client, brokers, known, known_keys)
    name_servers = NameServers(client, config.name_servers, own_name=str(address))
    routes = Routes(name_servers, brokers, peers, namespaces, orders)
    tasks: list[Task] = [
        ("looking at the brokers of the cluster", routes.run),
        ("asking the other proxies", peers.run),
    ]
    if namespaces is not None and keys is not None:
        tasks += _tasks_of_keys(namespaces, keys)
    if orders is not None and members is not None:
        tasks.append(("following the order of queues", orders.run))
        tasks.append(("looking for members who go direct", members.run))
    moving = left = None
    if orders is not None and config.moves:
        moving, left = _moves(config, orders, routes, client, admin, nursery, brokers, peers)
        returns = Returns(moving, brokers.masters, routes.looked)
        tasks += _tasks_of_moves(moving, left, returns)
    status = StatusRequests(
        name_servers, brokers, peers, budget, namespaces, orders, members, moving, left
    )
    status.add_to(routes.handlers)
    if config.is_shared and config.state_path is not None:
        folder = config.state_path.parent
        status.workers = Workers(folder, config.worker, config.workers, status.own)
        tasks.append(("answering the other workers", status.workers.run))
    server = _server(config, routes, budget, tls)
    running = RunningGateway(
        address, routes, brokers, peers, budget, orders, members, moving, left, server
    )
    return running, tasks


def _peers(
    config: GatewayConfig,
    address: HostAddress,
    client: RemotingClient,
    brokers: UpstreamBrokers,
    known: KnownLog | None,
    known_keys: KnownLogs | None,
) -> Peers:
    return Peers(
        client,
        config.other_proxies,
        brokers,
        own_name=str(address),
        keeps_order=config.logical,
        moves=config.moves,
        known=known,
        known_keys=known_keys,
    )


def _server(config: GatewayConfig, routes: Routes, budget: Budget, tls: ProcessTls) -> Server:
    """Build the server of the port for routes, whose handlers are all there."""
    guard = guard_of_changes(config.admits_changes)
    server = Server(
        routes.handlers,
        name="proxy",
        limits=config.limits(),
        budget=budget,
        tls=tls.server,
        guard=guard,
    )
    server.unsupported = guarded(routes.other, guard)
    return server


def _keys(namespaces: KeyNamespaces, broker_name: Callable[[], str]) -> KeyRequests:
    now_s = trio.current_time
    return KeyRequests(namespaces=namespaces, broker_name=broker_name, now_s=now_s)


def _moves(
    config: GatewayConfig,
    orders: QueueOrders,
    routes: Routes,
    client: RemotingClient,
    admin: AdminClient,
    nursery: trio.Nursery,
    brokers: UpstreamBrokers,
    peers: Peers,
) -> tuple[MovingQueues, LeftBehind]:
    """Build what moves queues; the request for it is served beside routes."""
    name = peers.own_name
    moving = MovingQueues(orders, name, nursery=nursery, links_to=brokers.links_to)
    left = LeftBehind(moving, client, brokers.address_of)
    brokers.let_move(moving, client)
    context = MoveContext(
        moving,
        client,
        admin,
        brokers.address_of,
        brokers.masters,
        peers.why_no_move,
        routes.look,
        heard_s=min(HEARD_S, config.settle_seconds),
    )
    MoveRequests(context, nursery).add_to(routes.handlers)
    DrainRequests(context, nursery).add_to(routes.handlers)
    return moving, left


def _tasks_of_keys(namespaces: KeyNamespaces, keys: KeyRequests) -> list[Task]:
    return [
        ("following the logs of keys", namespaces.run),
        ("answering requests for keys", keys.run),
    ]


def _tasks_of_moves(moving: MovingQueues, left: LeftBehind, returns: Returns) -> list[Task]:
    return [
        ("holding the lease of this proxy", moving.lease.run),
        ("looking after queues that move", moving.run),
        ("looking for messages behind queues' ends", left.run),
        ("looking for drained brokers that are back", returns.run),
    ]


async def _leave(running: RunningGateway, leave_s: float) -> None:
    """Serve on while clients go to other proxies, if there are any."""
    running.peers.is_leaving = True
    if running.peers.living:
        LOGGER.info("clients go to the proxies %s", ", ".join(running.peers.living))
        await trio.sleep(leave_s)


async def _stop(running: RunningGateway) -> None:
    """Let what is under way end."""
    ports = list(running.brokers.ports.values())
    for port in ports:
        port.is_leaving = True
        port.server.stop_accepting()
    with trio.move_on_after(DRAIN_S):
        while any(port.waiting for port in ports):  # noqa: ASYNC110 - at the very end
            await trio.sleep(DRAIN_LOOK_S)
    async with trio.open_nursery() as nursery:
        for port in ports:
            nursery.start_soon(port.server.stop)
    if running.moving is not None:
        await running.moving.lease.give_up()
    running.brokers.close()
