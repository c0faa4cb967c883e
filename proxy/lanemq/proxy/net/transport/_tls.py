"""TLS at a server's port, where plain connections come in as well.

A connection that begins with a handshake of TLS begins with 0x16, a frame with 0 or 1; so one port
serves both.

Source: RocketMQ 4.9.8, TlsMode, NettyRemotingServer.HandshakeHandler.
"""

import enum
import ssl
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.wire import HostAddress

from ..limits._budget import Account
from ._tls_errors import why_refused
from ._tls_transport import TlsTransport
from ._transport import GONE, Transport
from ._turn import Turn

LOGGER = get_logger("lanemq.proxy.tls", by_peers=True)

HANDSHAKE: Final = 0x16
"""First byte of a connection that speaks TLS."""


class TlsMode(enum.Enum):
    """The connections that a server takes: plain ones, TLS, or both."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


@final
class ServerTls:
    """The TLS of a server's ports; all of them share it."""

    def __init__(
        self, mode: TlsMode = TlsMode.PERMISSIVE, context: ssl.SSLContext | None = None
    ) -> None:
        self.mode = mode
        self.context = context
        """The certificate and the rules of new connections; None where there is no certificate.
        It may be replaced while the server runs."""

    @property
    def is_enforced(self) -> bool:
        """True if plain connections are closed."""
        return self.mode is TlsMode.ENFORCING

    @property
    def is_spoken(self) -> bool:
        """True if connections with TLS are taken."""
        return self.mode is not TlsMode.DISABLED and self.context is not None

    @property
    def wants_certificates(self) -> bool:
        """True if only clients with a certificate of their own are let in."""
        context = self.context
        return self.is_enforced and context is not None and context.verify_mode is ssl.CERT_REQUIRED

    def refusal(self, first_byte: int) -> str | None:
        """Return why a connection that begins so is closed; None where it is taken."""
        if first_byte != HANDSHAKE:
            if self.is_enforced:
                return "speaks no TLS, which this port insists on (tls.server.mode=enforcing)"
        elif self.mode is TlsMode.DISABLED:
            return "speaks TLS, which this port does not (tls.server.mode=disabled)"
        elif self.context is None:
            return (
                "speaks TLS, for which this server has no certificate: name one in "
                "tls.server.certPath and tls.server.keyPath"
            )
        return None


async def accept_tls(
    transport: Transport,
    first: bytes,
    *,
    tls: ServerTls,
    peer: HostAddress,
    account: Account,
    turn: Turn,
    timeout_s: float,
    stall_s: float,
) -> TlsTransport | None:
    """Complete the handshake that ``first`` begins; returns the transport of what follows.

    None where no TLS came about: the log has the reason, and the peer an alert, if it understands
    one. ``turn`` and ``stall_s`` are those of ``TlsTransport``.
    """
    assert tls.context is not None
    over_tls = TlsTransport(transport, tls.context, account=account, turn=turn, stall_s=stall_s)
    is_told = False
    try:
        with trio.move_on_after(timeout_s):
            await over_tls.shake_hands(first)
            return over_tls
        why = f"not complete after {timeout_s:g} s"
    except ssl.SSLError as error:
        why, is_told = why_refused(error), True
    except (EOFError, *GONE):
        why = "the peer left; perhaps it does not trust this server's certificate"
    LOGGER.warning("%s: no TLS handshake: %s; connection closed", peer, why)
    if is_told:
        await over_tls.alert()
    return None
