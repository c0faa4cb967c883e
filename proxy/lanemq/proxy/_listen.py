"""Listening sockets, opened before anything else so that a taken port is the first error."""

import socket

_BACKLOG = 1024
_VIP_BELOW = 2
_FREE_PAIR_ATTEMPTS = 64


class AddressUnavailable(OSError):  # noqa: N818 - says what is wrong
    """The address cannot be listened on; the message says which and why."""

    def __init__(self, host: str, port: int, reason: OSError) -> None:
        what = reason.strerror or str(reason)
        super().__init__(reason.errno, f"cannot listen on {host}:{port}: {what}")
        self.host = host
        self.port = port

    def __str__(self) -> str:
        return str(self.args[1])


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 takes any free one. Raises ``AddressUnavailable``."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        opened = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AddressUnavailable(host, port, error) from error
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # One socket for both families: what "::" means to everybody else.
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.setblocking(False)
        opened.bind(address)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise AddressUnavailable(host, port, error) from error
    return opened


def listen_with_vip(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """Open ``port`` and the VIP port two below it, where clients of 4.0 to 4.4 send.

    Port 0 takes a free pair. Raises ``AddressUnavailable``.
    """
    attempts = _FREE_PAIR_ATTEMPTS if port == 0 else 1
    while True:
        attempts -= 1
        main = listen(host, port)
        try:
            return main, listen(host, main.getsockname()[1] - _VIP_BELOW)
        except AddressUnavailable:
            main.close()
            if attempts == 0:
                raise
