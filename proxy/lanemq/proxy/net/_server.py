"""A server: its ports, its connections, and the times and budgets they share.

Any number of listening sockets feed one set of handlers and registries: the main port and the
VIP port of old clients (two below it) are the same server.

Source: RocketMQ 4.9.8, NettyRemotingServer (and BrokerController's fast server).
"""

import errno
import math
import socket
from collections.abc import Sequence
from typing import final

import trio

from lanemq.local import get_logger
from lanemq.wire import HostAddress

from ._connection import ServerConnection
from ._dispatch import Guard
from ._exchange import Exchange
from .limits._quotas import HOST_SHARE, PeerQuota
from .transport._transport import SocketTransport, StreamTransport, Transport

LOGGER = get_logger("lanemq.proxy.server", by_peers=True)

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_EXHAUSTED_PAUSE_S = 0.1
_DRAIN_LOOK_S = 0.01
_REFUSALS_TOLD_S = 10.0


@final
class Server(Exchange):
    """A server of connections with ``handlers``, until it is stopped or cancelled.

    Hooks, limits, the budget, the guard and TLS are those of ``Exchange``.
    """

    def __post_init__(self, guard: Guard | None) -> None:
        super().__post_init__(guard)
        self.connections: set[ServerConnection] = set()
        self._hosts = PeerQuota[str](self.limits.connections_max, share=HOST_SHARE)
        self._sessions_opened = 0
        self._refusals = 0
        self._refusals_told_s = -math.inf
        self._nursery: trio.Nursery | None = None
        self._accepting = trio.CancelScope()

    async def serve(
        self,
        listeners: Sequence[socket.socket],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept connections at ``listeners`` (bound, listening, non-blocking; closed here)."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._accept_all, list(listeners), nursery)
                nursery.start_soon(self._sweep)
                task_status.started()
        finally:
            self._nursery = None
            for listener in listeners:
                listener.close()

    async def serve_stream(
        self, stream: trio.abc.Stream, *, peer: HostAddress, local_port: int = 0
    ) -> None:
        """Serve one connection over any stream; returns when it has ended."""
        await self.serve_transport(StreamTransport(stream), peer=peer, local_port=local_port)

    async def serve_transport(
        self, transport: Transport, *, peer: HostAddress, local_port: int = 0
    ) -> None:
        """Serve one connection over a transport; returns when it has ended."""
        await self._run(self._opened(transport, peer, local_port))

    def stop_accepting(self) -> None:
        """Accept no more connections, and go on with those that are there."""
        self._accepting.cancel()

    async def stop(self) -> None:
        """Stop accepting, let answers that are on their way leave, and end ``serve``.

        Waits no longer than ``Limits.drain_s``; requests that still wait then are cut.
        """
        self.stop_accepting()
        with trio.move_on_after(self.limits.drain_s):
            while self.in_flight or any(  # noqa: ASYNC110 - for a second, at the very end
                one.outbox.unsent_bytes for one in self.connections
            ):
                await trio.sleep(_DRAIN_LOOK_S)
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    async def _accept_all(self, listeners: list[socket.socket], nursery: trio.Nursery) -> None:
        with self._accepting:
            async with trio.open_nursery() as accepting:
                for listener in listeners:
                    accepting.start_soon(self._accept, listener, nursery)
        for listener in listeners:
            trio.lowlevel.notify_closing(listener)
            listener.close()

    async def _accept(self, listener: socket.socket, nursery: trio.Nursery) -> None:
        local_port = listener.getsockname()[1]
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                accepted, address = listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    # The backlog keeps the peer; a file descriptor may come free meanwhile.
                    LOGGER.error("%s cannot accept a connection: %s", self.name, error)
                    await trio.sleep(_EXHAUSTED_PAUSE_S)
                continue  # anything else is one peer that gave up before we looked
            peer = HostAddress.of_peer(address)
            if (
                len(self.connections) >= self.limits.connections_max
                or not self.budget.places.has_room(peer.host)
                or not self._hosts.has_room(peer.host)
            ):
                accepted.close()
                self._refused(peer)
                continue
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # It counts from now on: the next one may be accepted before its task begins.
            connection = self._opened(SocketTransport(accepted), peer, local_port)
            nursery.start_soon(self._run, connection)

    def _refused(self, peer: HostAddress) -> None:
        """Log a refused connection, but not each of thousands."""
        self._refusals += 1
        now_s = trio.current_time()
        if now_s - self._refusals_told_s < _REFUSALS_TOLD_S:
            return
        connections_max = min(self.limits.connections_max, self.budget.accounts_max)
        LOGGER.warning(
            "%s has the %d connections that it may have, of which file descriptors (ulimit -n) "
            "allow %d; %d refused, the last of %s",
            self.name,
            connections_max,
            self.budget.accounts_max,
            self._refusals,
            peer,
        )
        self._refusals, self._refusals_told_s = 0, now_s

    def _opened(self, transport: Transport, peer: HostAddress, local_port: int) -> ServerConnection:
        self._sessions_opened += 1
        connection = ServerConnection(
            self,
            transport,
            session_id=self._sessions_opened,
            peer=peer,
            local_port=local_port,
        )
        self.connections.add(connection)
        self._hosts.take(peer.host)
        self.budget.places.take(peer.host)
        return connection

    async def _run(self, connection: ServerConnection) -> None:
        try:
            await connection.run()
        except Exception:  # a bug of ours; the other connections go on
            LOGGER.exception("the connection of %s failed", connection.session.peer)
        finally:
            self.connections.discard(connection)
            self._hosts.give_back(connection.session.peer.host)
            self.budget.places.give_back(connection.session.peer.host)

    async def _sweep(self) -> None:
        while True:
            await trio.sleep(self.limits.sweep_s)
            now_s = trio.current_time()
            for connection in list(self.connections):
                connection.check_times(now_s)
