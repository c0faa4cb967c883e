"""The addresses in settings: of other servers, and those that servers tell their clients."""

import re
import socket
from typing import Final

from lanemq.wire import HostAddress, RemoteProtocolError

from ._settings import ConfigError

_NO_HOST: Final = re.compile(r"[\s,/]")
EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})
"""Addresses to listen on that stand for all of a machine's."""


def addresses_in(text: str) -> tuple[str, ...]:
    """Return the addresses of a setting, which have ``;`` between them."""
    return tuple(part.strip() for part in text.split(";") if part.strip())


def check_address(key: str, text: str) -> HostAddress:
    """Return the address of another server in the setting ``key``. Raises ``ConfigError``."""
    try:
        address = HostAddress.parse(text)
    except RemoteProtocolError:
        address = HostAddress("", 0)
    if not address.host or _NO_HOST.search(address.host):
        raise ConfigError(f"{key}: {text!r} is not an address: write host:port, with ; between two")
    return address


def advertised(given: str | None, bound: str) -> str:
    """Return the host that clients are told, as a literal address.

    It is what was given, else the address that is ``bound``, else the machine's own. It goes into
    every stored record and message id, which have no room for a name. Raises ``ConfigError`` for a
    name that has no IPv4 address.
    """
    host = given or (local_address() if bound in EVERYWHERE else bound)
    if ":" in host:
        return host
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        raise ConfigError(f"{host!r} has no IPv4 address: {error.strerror}") from error


def local_address() -> str:
    """Return the IPv4 address this machine uses towards the outside, or loopback if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # a route look-up; no packet leaves
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
