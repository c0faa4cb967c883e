"""A server: its ports, its connections, and the times and budgets they share.

Any number of listening sockets feed one set of handlers and registries: the main port and the
VIP port of old clients (two below it) are the same server.

Source: RocketMQ 4.9.8, NettyRemotingServer (and BrokerController's fast server).
"""

import errno
import logging
import socket
from collections.abc import Callable, Sequence
from typing import final

import trio

from lanemq.wire import HostAddress

from ._connection import ServerConnection
from ._dispatch import Handlers
from ._limits import Limits
from ._transport import SocketTransport, StreamTransport, Transport

LOGGER = logging.getLogger("lanemq.proxy.server")

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_EXHAUSTED_PAUSE_S = 0.1
_DRAIN_LOOK_S = 0.01


@final
class Server:
    """Serves connections with ``handlers`` until it is stopped or cancelled.

    ``after_batch`` hooks run after the requests of one read are handled and before any of
    their replies leave; a hook that raises turns all of them into that refusal. The broker
    writes its log there. ``after_replies`` hooks run when they have left, before anything else
    is read: work that the peer need not wait for.
    """

    def __init__(
        self,
        handlers: Handlers,
        *,
        name: str,
        after_batch: Sequence[Callable[[], None]] = (),
        after_replies: Sequence[Callable[[], None]] = (),
        limits: Limits | None = None,
    ) -> None:
        self.handlers = handlers
        self.name = name
        self.after_batch = list(after_batch)
        self.after_replies = list(after_replies)
        self.limits = limits if limits is not None else Limits()
        self.connections: set[ServerConnection] = set()
        self.in_flight = 0
        """Requests whose handlers are waiting, over all connections."""
        self.in_batch = False
        """True while handlers run: what they send to any peer is held back until the hooks ran."""
        self.dirty: list[ServerConnection] = []
        self.served: ServerConnection | None = None
        """Whose bytes were read last,"""
        self.served_reads = 0
        """and how many reads in a row before that were its own (up to a bound)."""
        self._flushes_soon = False
        self._sessions_opened = 0
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
        await self._serve_transport(StreamTransport(stream), peer, local_port)

    async def stop(self) -> None:
        """Accept nobody any more, let answers that are on their way leave, and end ``serve``.

        Waits no longer than ``Limits.drain_s``; requests that still wait then are cut.
        """
        self._accepting.cancel()
        with trio.move_on_after(self.limits.drain_s):
            while self.in_flight or any(  # noqa: ASYNC110 - for a second, at the very end
                one.unsent_bytes for one in self.connections
            ):
                await trio.sleep(_DRAIN_LOOK_S)
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def settle(self) -> None:
        """Run the ``after_replies`` hooks, and send what they had to say to anyone."""
        self.in_batch = True
        try:
            for hook in self.after_replies:
                hook()
        except Exception:  # a bug of ours; the replies have left, the connection goes on
            LOGGER.exception("%s could not finish a batch", self.name)
        finally:
            self.in_batch = False
        if self.dirty:
            self.flush()

    async def flush_soon(self) -> None:
        """``flush`` once for all handlers that end now.

        What they waited for often came for many of them at once, such as a sync of the log, or
        a read from another broker: to send each answer by itself would cost more than the rest.
        """
        if not self._flushes_soon:
            self._flushes_soon = True
            await trio.lowlevel.cancel_shielded_checkpoint()
            self._flushes_soon = False
            self.flush()

    def flush(self) -> None:
        """Send what handlers have queued, one send per connection."""
        dirty, self.dirty = self.dirty, []
        for connection in dirty:
            connection.flush()

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
            if len(self.connections) >= self.limits.connections_max:
                LOGGER.warning("%s has too many connections; %s refused", self.name, address)
                accepted.close()
                continue
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = HostAddress.of_peer(address)
            nursery.start_soon(self._serve_transport, SocketTransport(accepted), peer, local_port)

    async def _serve_transport(
        self, transport: Transport, peer: HostAddress, local_port: int
    ) -> None:
        self._sessions_opened += 1
        connection = ServerConnection(
            self,
            transport,
            session_id=self._sessions_opened,
            peer=peer,
            local_port=local_port,
        )
        self.connections.add(connection)
        try:
            await connection.run()
        except Exception:  # a bug of ours; the other connections go on
            LOGGER.exception("the connection of %s failed", peer)
        finally:
            self.connections.discard(connection)

    async def _sweep(self) -> None:
        while True:
            await trio.sleep(self.limits.sweep_s)
            now_s = trio.current_time()
            for connection in list(self.connections):
                connection.check_times(now_s)
