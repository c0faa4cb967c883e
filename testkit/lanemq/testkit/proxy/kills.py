"""Clients of servers that are killed meanwhile."""

from collections.abc import Awaitable, Callable

import trio

from lanemq.wire import HostAddress

from .brokers import Client
from .peers import Peer


async def use_until_it_dies(
    address: HostAddress, use: Callable[[Client], Awaitable[object]]
) -> None:
    """Call ``use`` with a client of the server at ``address``, until the server is gone."""
    try:
        stream = await trio.open_tcp_stream(address.host, address.port)
    except OSError:
        return
    async with stream:
        client = Client(Peer(stream))
        try:
            await use(client)
        except (EOFError, trio.BrokenResourceError):
            return
