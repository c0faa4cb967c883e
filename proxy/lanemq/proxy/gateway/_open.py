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

from ..net._server import Server
from ..net.limits._budget import Budget
from ..net.transport._listen import listen, warn_of_strangers
from ..tls import ProcessTls
from ._brokers import UpstreamBrokers
from ._config import GatewayConfig
from ._direct_members import DirectMembers
from ._name_servers import NameServers
from ._numbers import BrokerNumbers
from ._peers import Peers
from ._routes import Routes
from ._status import StatusRequests
from ._workers import Workers
from .kv import CALL_S, KeyNamespaces, KeyRequests, make_upstream_keys
from .order import LOG_PREFIX, NAMESPACE, QueueOrders

LOGGER = get_logger("lanemq.proxy.gateway", by_peers=True)

FIRST_LOOK_S: Final = 5.0
"""Seconds that the start waits for a name server; brokers found later get their ports then."""
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
    namespaces = KeyNamespaces(client, config.name_servers) if config.keys else None
    keys: KeyRequests | None = None
    if namespaces is not None:
        keys = KeyRequests(
            namespaces=namespaces,
            broker_name=lambda: brokers.first_name,
            now_s=trio.current_time,
        )
    admin = AdminClient(client, config.name_servers, timeout_s=CALL_S)
    orders = _orders(config, client, admin) if config.logical else None
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
    peers = Peers(
        client,
        config.other_proxies,
        brokers,
        own_name=str(address),
        keeps_order=config.logical,
    )
    name_servers = NameServers(client, config.name_servers, own_name=str(address))
    routes = Routes(name_servers, brokers, peers, namespaces, orders)
    server = Server(
        routes.handlers, name="proxy", limits=config.limits(), budget=budget, tls=tls.server
    )
    server.unsupported = routes.other
    status = StatusRequests(name_servers, brokers, peers, budget, namespaces, orders, members)
    status.add_to(routes.handlers)
    tasks: list[Task] = [
        ("looking at the brokers of the cluster", routes.run),
        ("asking the other proxies", peers.run),
    ]
    if config.is_shared and config.state_path is not None:
        folder = config.state_path.parent
        status.workers = Workers(folder, config.worker, config.workers, status.own)
        tasks.append(("answering the other workers", status.workers.run))
    if namespaces is not None and keys is not None:
        tasks.append(("following the logs of keys", namespaces.run))
        tasks.append(("answering requests for keys", keys.run))
    if orders is not None and members is not None:
        tasks.append(("following the order of queues", orders.run))
        tasks.append(("looking for members who go direct", members.run))
    running = RunningGateway(address, routes, brokers, peers, budget, orders, members, server)
    return running, tasks


def _orders(config: GatewayConfig, client: RemotingClient, admin: AdminClient) -> QueueOrders:
    log = make_upstream_keys(client, admin, namespace=NAMESPACE, prefix=LOG_PREFIX)
    return QueueOrders(log, settle_s=config.settle_seconds)


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
    running.brokers.close()
