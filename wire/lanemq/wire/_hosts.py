"""Addresses as the protocol writes them: a literal IP and a port."""

import socket
import struct
from functools import lru_cache
from typing import Any, NamedTuple

from ._errors import LocalProtocolError, RemoteProtocolError

PORT = struct.Struct(">i")
V4_MAPPED_PREFIX = "::ffff:"


class HostAddress(NamedTuple):
    """A host and a port.

    ``host`` is an IPv4 or IPv6 literal wherever the address comes out of a record or a socket;
    an address from configuration may hold a name, which then has no packed form.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_v6(self) -> bool:
        return ":" in self.host

    @property
    def packed(self) -> bytes:
        """IP (4 or 16 bytes), then the port as four: 8 or 20 bytes, as records store hosts.

        Raises ``LocalProtocolError`` if ``host`` is a name or the port exceeds 32 bits.
        """
        return _pack(self.host, self.port)

    @classmethod
    def parse(cls, text: str) -> "HostAddress":
        """Read ``host:port``, split at the last colon; an IPv6 host may stand in brackets.

        Raises ``RemoteProtocolError`` where there is no host or the port is not a port number.
        """
        host, colon, port = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        if not colon or not host or not (port.isascii() and port.isdigit()):
            raise RemoteProtocolError(f"not an address of the form host:port: {text!r}")
        if len(port) > 5 or int(port) > 0xFFFF:
            raise RemoteProtocolError(f"port out of range in address {text!r}")
        return cls(host, int(port))

    @classmethod
    def unpack(cls, data: bytes) -> "HostAddress":
        """Read the packed form. Raises ``RemoteProtocolError`` unless there are 8 or 20 bytes."""
        return unpack_host(bytes(data))

    @classmethod
    def of_peer(cls, sockaddr: tuple[Any, ...]) -> "HostAddress":
        """Return the address of a socket, from what ``getpeername`` or ``getsockname`` gave.

        An IPv4 peer of a dual-stack listener shows as ``::ffff:a.b.c.d``. It is unwrapped here:
        clients before 4.6.0 always read four bytes of a host in a record and lose every
        message after an IPv6 one.
        """
        host, port = str(sockaddr[0]), int(sockaddr[1])
        host = host.partition("%")[0]  # the zone of a link-local address means nothing to others
        if host.lower().startswith(V4_MAPPED_PREFIX) and "." in host:
            host = host[len(V4_MAPPED_PREFIX) :]
        return cls(host, port)


# A connection's address is packed for every message it sends; a few thousand peers fit.
@lru_cache(maxsize=4096)
def _pack(host: str, port: int) -> bytes:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.inet_pton(family, host) + PORT.pack(port)
    except (OSError, ValueError, struct.error) as error:
        raise LocalProtocolError(f"no packed form for address {host}:{port}: {error}") from error


@lru_cache(maxsize=4096)
def unpack_host(data: bytes) -> HostAddress:
    """Do ``HostAddress.unpack`` for data that is certainly ``bytes``."""
    if len(data) == 8:
        family = socket.AF_INET
    elif len(data) == 20:
        family = socket.AF_INET6
    else:
        raise RemoteProtocolError(f"a packed host has 8 or 20 bytes, not {len(data)}")
    return HostAddress(
        socket.inet_ntop(family, data[:-4]), PORT.unpack_from(data, len(data) - 4)[0]
    )
