"""Free ports for servers that want several with fixed distances."""

import random
import socket
from collections import deque
from typing import Final

# Below the range the system gives to outgoing connections, so that none of those takes a
# port between our look and the server's bind.
LOWEST, HIGHEST = 20_000, 32_000

_PROMISED: Final = deque[int](maxlen=1000)
"""Ports given out of late: their servers may not have been started yet."""


def free_port(*also: int) -> int:
    """Return a port that is free, as are the ports at the distances ``also`` from it.

    None of them is given out again soon.

    A broker needs ``free_port(+1, -2)``: replication, and the port for old clients.
    """
    chooser = random.SystemRandom()
    for _ in range(1000):
        port = chooser.randrange(LOWEST, HIGHEST)
        ports = [port + distance for distance in (0, *also)]
        if all(one not in _PROMISED and _is_free(one) for one in ports):
            _PROMISED.extend(ports)
            return port
    raise OSError("no free ports between 20000 and 32000")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
