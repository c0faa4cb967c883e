"""The IP address that others see us by: part of client ids and message ids."""

import ipaddress
import socket


def local_ip(towards: str) -> bytes:
    """Return the packed source address (4 or 16 bytes) of packets to the host ``towards``.

    Nothing is sent and no name is looked up: for a host given by name, or without a way to it,
    the address towards the outside is taken, and 127.0.0.1 if there is none.
    """
    for host in (towards, "192.0.2.1"):  # the second belongs to nobody: RFC 5737
        try:
            target = ipaddress.ip_address(host)
        except ValueError:
            continue
        family = socket.AF_INET if target.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((host, 9))
            except OSError:
                continue
            return ipaddress.ip_address(probe.getsockname()[0]).packed
    return bytes((127, 0, 0, 1))
