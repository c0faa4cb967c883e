"""The first bytes of a connection: TLS begins with them, or requests do."""

from lanemq.local import get_logger
from lanemq.wire import HostAddress

from ._exchange import Exchange
from .limits._budget import Account
from .transport._tls import accept_tls
from .transport._transport import Transport

LOGGER = get_logger("lanemq.proxy.connection", by_peers=True)


async def greet(
    server: Exchange, transport: Transport, data: bytes, *, peer: HostAddress, account: Account
) -> tuple[Transport, bytes] | None:
    """Begin TLS, or refuse to; returns what is read from then on, and the first bytes of requests
    (none where the peer has ended). None where the connection is to be closed."""
    refusal = server.tls.refusal(data[0])
    if refusal is not None:
        LOGGER.warning("%s %s; connection closed", peer, refusal)
        return None
    accepted = await accept_tls(
        transport,
        data,
        tls=server.tls,
        peer=peer,
        account=account,
        turn=server.watch.turn,
        timeout_s=server.limits.handshake_s,
        stall_s=server.limits.write_stall_s,
    )
    if accepted is None:
        return None
    return accepted, await accepted.receive()
