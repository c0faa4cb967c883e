"""A logical listener: ports where clients see all logical queues as the queues of one broker.

Clients and groups are the process's own; whatever names a queue or an offset is translated and
passed on to the broker that holds the segment.
"""

from collections.abc import Sequence
from typing import Final, final

import trio

from lanemq.sdk import RemotingClient
from lanemq.wire import HostAddress, RequestCode
from lanemq.wire.requests import REQUESTS, Port

from ...net._dispatch import Handlers
from ...net._server import Server
from ...sessions.values._results import add_encoders
from .brokers._broker import Reach, over_links
from .brokers._brokers import Brokers
from .brokers._own import OwnBroker
from .brokers._routes import LogicalRoutes
from .offsets import _offsets, _resets, _spans, _stats
from .offsets._progress import ListenerProgress
from .port._context import ListenerContext
from .port._host import ListenerHost
from .port._queues import SeenQueues
from .port._records import SeenRecords
from .traffic import _direct, _locks, _messages, _pulls, _sends

SHARED: Final = tuple(code for code, spec in REQUESTS.items() if spec.is_shared)
"""Requests about clients and groups, which the broker answers itself, as it does heartbeats: they
name no queue. An end of a transaction here is the answer to the broker's own check, in its numbers:
a producer is asked at any of its connections, and half messages are not taken here. Other codes are
refused: what they mean by a queue id is for a broker's own port."""


@final
class LogicalListener:
    """A listener, beside a broker or alone; its owner runs ``run`` and serves its servers.

    ``own`` is the broker of the process. ``reach`` is how others are reached, over links of
    ``client`` unless given.

    Older clients see the logical queues of a topic divided among several brokers, whose number
    they do not say. So it has a port for each of them beside the one for clients that go by logical
    index.
    """

    def __init__(
        self,
        host: ListenerHost,
        client: RemotingClient,
        *,
        address: HostAddress,
        own: OwnBroker | None,
        reach: Reach | None = None,
        numbered: Sequence[HostAddress] = (),
    ) -> None:
        self._supervise = host.supervise
        self.address = address
        """The address for clients that use logical indices."""
        self.numbered_addresses = tuple(numbered)
        """The addresses of each of the brokers that older clients see, from the first on. Where
        there is none it is the first and only one at ``address``."""
        self.routes = LogicalRoutes(
            client, host.name_servers, own.account if own is not None else None
        )
        brokers = Brokers(reach=reach or over_links(client), own=own)
        # One for all ports: they may be of the same group, and a broker keeps its last commit.
        self._progress = ListenerProgress(
            brokers=brokers,
            queues=SeenQueues(number=None, routes=self.routes),
        )

        def port(at: HostAddress, number: int | None) -> _Port:
            queues = SeenQueues(number=number, routes=self.routes)
            listener = ListenerContext(
                host=host,
                brokers=brokers,
                queues=queues,
                records=SeenRecords(address=at, queues=queues),
                address=at,
            )
            return _Port(listener, self._progress)

        numbered_at = enumerate(self.numbered_addresses)
        self._ports = [port(address, None), *(port(at, number) for number, at in numbered_at)]
        self.server, *numbered_servers = [port.server for port in self._ports]
        self.numbered_servers: Sequence[Server] = numbered_servers
        """The servers at ``numbered_addresses``."""

    @property
    def servers(self) -> Sequence[Server]:
        """All servers of the listener."""
        return self.server, *self.numbered_servers

    async def run(self) -> None:
        """Run the background tasks, until cancelled."""
        async with trio.open_nursery() as nursery:
            for what, run in (
                ("asking for routes for the logical listener", self.routes.run),
                ("committing for the logical listener", self._progress.run),
            ):
                nursery.start_soon(self._supervise, what, run)

    async def stop(self) -> None:
        """Stop all servers as ``Server.stop``."""
        async with trio.open_nursery() as nursery:
            for server in self.servers:
                nursery.start_soon(server.stop)


@final
class _Port:
    """The service at one port."""

    def __init__(self, listener: ListenerContext, progress: ListenerProgress) -> None:
        host, own = listener.host, listener.brokers.own
        brokers, queues = listener.brokers, listener.queues
        offsets = _offsets.Offsets(brokers=brokers, queues=queues)
        number, handlers = queues.number, Handlers(Port.LISTENER)
        add_encoders(
            handlers,
            properties=host.properties,
            host=listener.address.packed,
            read_log=own.store.read_log if own is not None else None,
        )
        for code in SHARED:
            handlers.add(code, host.handlers.table[code])
        heartbeat = host.handlers.table[RequestCode.HEART_BEAT]
        handlers.add(RequestCode.HEART_BEAT, _resets.heard_at(number, heartbeat))
        _locks.register(handlers, listener)
        _sends.register(handlers, listener)
        _pulls.register(handlers, listener, progress)
        _offsets.register(handlers, listener, offsets, progress)
        _direct.register(handlers, listener, _messages.register(handlers, listener))
        _stats.register(handlers, listener, offsets, progress)
        _resets.register(handlers, listener, offsets, progress)
        _spans.register(handlers, listener, offsets, progress)
        numbered = "" if number is None else f" {number}"
        self.server = host.serve(handlers, f"logical listener{numbered} of {host.name}")
