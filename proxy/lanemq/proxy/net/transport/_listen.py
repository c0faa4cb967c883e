"""Listening sockets, opened before anything else so that a taken port is the first error."""

import errno
import ipaddress
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lanemq.local import get_logger

from ._tls import ServerTls

LOGGER = get_logger("lanemq.proxy.listen")

_BACKLOG = 1024
VIP_BELOW = 2
_FREE_PAIR_ATTEMPTS = 64


class AddressUnavailable(OSError):  # noqa: N818 - says what is wrong
    """The address cannot be listened on; the message names it, the reason, and, for a port that is
    taken, the way to another one."""

    def __init__(self, host: str, port: int, reason: OSError) -> None:
        what = reason.strerror or str(reason)
        super().__init__(reason.errno, f"cannot listen on {host}:{port}: {what}")
        self.host = host
        self.port = port
        self._way_on = ""

    def offer(self, way_on: str) -> None:
        """Add an option or a setting that gives the server another port; only the first counts.

        The first caller knows the port best.
        """
        if self.errno == errno.EADDRINUSE and not self._way_on:
            self._way_on = f". {way_on}"

    def __str__(self) -> str:
        return f"{self.args[1]}{self._way_on}"


@contextmanager
def offering(way_on: str) -> Iterator[None]:
    """Add to the error of a taken port, within the block, how the server gets another one."""
    try:
        yield
    except AddressUnavailable as error:
        error.offer(way_on)
        raise


def listen(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """Open a listening socket; port 0 takes any free one. Raises ``AddressUnavailable``.

    One that ``is_shared`` divides the port's connections with those of other processes of this user
    that are, too (SO_REUSEPORT).
    """
    opened, address = _socket(host, port, is_shared=is_shared)
    try:
        opened.setblocking(False)
        opened.bind(address)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise AddressUnavailable(host, port, error) from error
    return opened


def hold_shared(host: str, port: int) -> socket.socket:
    """Hold a port, 0 for any free one, for processes that share it: no others get it, and no
    connection comes to this socket. Raises ``AddressUnavailable``, also where others share it."""
    listen(host, port).close()
    held, address = _socket(host, port, is_shared=True)
    try:
        held.bind(address)
    except OSError as error:
        held.close()
        raise AddressUnavailable(host, port, error) from error
    return held


def _socket(host: str, port: int, *, is_shared: bool) -> tuple[socket.socket, Any]:
    """Return a socket, and the address to bind it to."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        opened = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AddressUnavailable(host, port, error) from error
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # One socket for both families: what "::" means to everybody else.
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    except OSError as error:
        opened.close()
        raise AddressUnavailable(host, port, error) from error
    return opened, address


def listen_with_vip(
    host: str, port: int, *, is_shared: bool = False
) -> tuple[socket.socket, socket.socket]:
    """Open ``port`` and the VIP port two below it, where clients of 4.0 to 4.4 send.

    Port 0 takes a free pair; ``is_shared`` is that of ``listen``. Raises ``AddressUnavailable``.
    """
    attempts = _FREE_PAIR_ATTEMPTS if port == 0 else 1
    while True:
        attempts -= 1
        main = listen(host, port, is_shared=is_shared)
        number = main.getsockname()[1]
        try:
            return main, listen(host, number - VIP_BELOW, is_shared=is_shared)
        except AddressUnavailable:
            main.close()
            if attempts == 0:
                raise


def warn_of_strangers(
    name: str, listeners: Sequence[socket.socket], tls: ServerTls, *, has_accounts: bool | None
) -> None:
    """Log a warning that names the ports which other machines can reach, if any.

    It says what keeps strangers out, what does not, and the settings that do. ``has_accounts`` is
    whether accounts are checked (``aclEnable``), None for a server that cannot.
    """
    open_to_all = [
        f"{host}:{port}"
        for host, port, *_ in (one.getsockname() for one in listeners)
        if not ipaddress.ip_address(host.partition("%")[0]).is_loopback
    ]
    if not open_to_all or tls.wants_certificates or (has_accounts and tls.is_enforced):
        return
    if has_accounts:
        LOGGER.warning(
            "%s listens on %s with accounts, but %s: whoever is on the way can read messages, and "
            "turn a request that they overhear into any other with the same values, such as an "
            "administrator's question into the deletion of a topic (a signature covers neither "
            "the code nor the names of fields). tls.server.mode=enforcing encrypts all "
            "connections. See docs/security.md, What a signature is worth",
            name,
            ", ".join(open_to_all),
            "TLS is up to the client" if tls.is_spoken else "without encryption",
        )
        return
    LOGGER.warning(
        "%s listens on %s %s: whoever reaches these ports can read, write and delete everything. "
        "To lock the door: %stls.server.mode=enforcing with tls.server.need.client.auth=require, "
        "for clients with certificates; or have a firewall in front, or listen on loopback (--host "
        "127.0.0.1, bindAddress). See docs/security.md",
        name,
        ", ".join(open_to_all),
        _exposure(tls),
        "" if has_accounts is None else "aclEnable=true, for accounts; ",
    )


def _exposure(tls: ServerTls) -> str:
    """Describe how far strangers are kept out of ports that they can reach."""
    if tls.is_enforced:
        return "with TLS, but without passwords"
    if tls.is_spoken:
        return "without passwords, and TLS is up to the client"
    return "without encryption or passwords"
