"""Ports of the simulated network for programs that open sockets by themselves, as proxies do."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import final
from unittest.mock import patch

import trio

from lanemq.proxy.gateway import _brokers, _open
from lanemq.proxy.net._server import Server
from lanemq.proxy.net.transport._listen import VIP_BELOW
from lanemq.wire import HostAddress

from ._network import End, Network
from ._sockets import EndTransport


@final
class Door:
    """A listening socket in the simulated network."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def getsockname(self) -> tuple[str, int]:
        return self.host, self.port

    def __enter__(self) -> "Door":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """It is closed when its server ends."""


@contextmanager
def sockets_of(network: Network) -> Iterator[None]:
    """Let proxies listen in the simulated network within the block."""

    async def serve(
        server: Server,
        listeners: Sequence[Door],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            async with trio.open_nursery() as nursery:
                server._nursery = nursery
                nursery.start_soon(server._sweep)
                await nursery.start(_accept, network, server, listeners, nursery)
                task_status.started()
        finally:
            server._nursery = None

    def listen(host: str, port: int, *, is_shared: bool = False) -> Door:
        assert not is_shared
        return Door(host, port)

    def listen_with_vip(host: str, port: int, *, is_shared: bool = False) -> tuple[Door, Door]:
        assert not is_shared
        return Door(host, port), Door(host, port - VIP_BELOW)

    with ExitStack() as patches:
        patches.enter_context(patch.object(_open, "listen", listen))
        patches.enter_context(patch.object(_brokers, "listen_with_vip", listen_with_vip))
        patches.enter_context(patch.object(Server, "serve", serve))
        yield


async def _accept(
    network: Network,
    server: Server,
    doors: Sequence[Door],
    nursery: trio.Nursery,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    def accept(end: End, peer: HostAddress, port: int) -> None:
        serve = partial(server.serve_transport, EndTransport(end), peer=peer, local_port=port)
        nursery.start_soon(serve)

    with ExitStack() as ports, server._accepting:
        for door in doors:
            ports.enter_context(network.listening(door.host, door.port, accept))
        task_status.started()
        await trio.sleep_forever()
