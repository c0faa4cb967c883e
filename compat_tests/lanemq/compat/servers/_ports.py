"""Ports for servers that want several with fixed distances, reserved on the whole machine.

A server that is down for a while keeps its ports: nothing listens there then, and yet nobody else
may be given them, neither here nor in another process that runs tests. So ports are given out in
blocks, and a block is reserved by a UDP socket at its first port for as long as this process
lives. No server of ours speaks UDP, and the system gives the reservation up when the process
ends, however it ends. A process that needs more than its share gets its oldest block again, if
nobody listens there: its server is long gone, for ``OWN_MAX - 1`` others have been started since.

All of them are below the range that the system gives to outgoing connections. In that range a
connection may get a port between our look and the server's bind, even one that asks whether the
server is up: it is connected to itself then, and holds the server's port.
"""

import random
import socket
import threading
from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

PORTS: Final = 10_000
DOCUMENTED: Final = 21_000
"""Ports below it are those of the pages, whose commands are run as they stand."""
LOCAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def ports_below(outgoing: int) -> tuple[int, int]:
    """Return the lowest port for servers and the end of the range, given the lowest port of
    outgoing connections: 21,000 and 31,000 if those leave them.

    Else the ports right below, or where there is no room for them those above 21,000 again, which
    outgoing connections have as well.
    """
    highest = min(DOCUMENTED + PORTS, outgoing)
    if highest == DOCUMENTED + PORTS or highest - PORTS < 2_000:
        return DOCUMENTED, DOCUMENTED + PORTS
    return highest - PORTS, highest


def _outgoing() -> int:
    """Return the lowest port that the system gives to outgoing connections."""
    try:
        return int(LOCAL_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        return 32_768


LOWEST, HIGHEST = ports_below(_outgoing())
BLOCK: Final = 16
"""Ports of a block: room for a broker's with its logical listener, 10 above."""
ROW_MAX: Final = 4
"""Most blocks side by side: a proxy has a port for each of its brokers, 10 above one another."""
OWN_MAX: Final = 64
"""Blocks of one process, so that nine processes have enough: two runs of all tests at once, and
what else is tried meanwhile."""
_BELOW: Final = 2
"""Ports of a block before the main one."""


class _Block(NamedTuple):
    first: int
    reservation: socket.socket

    @property
    def is_free(self) -> bool:
        return all(_is_free(port) for port in range(self.first, self.first + BLOCK))

    def has(self, port: int) -> bool:
        """Return whether a port is one of the block's."""
        return self.first <= port < self.first + BLOCK


class Ports:
    """The blocks of one process; from ``OWN_MAX`` on the oldest is given out again."""

    def __init__(self) -> None:
        self._blocks: deque[_Block] = deque()
        self._single: list[int] = []
        self._lock = threading.Lock()

    def take(self, *also: int) -> int:
        """Return a port for a server that has those at the distances ``also`` as well."""
        count = 1 + (max(also, default=0) + _BELOW) // BLOCK
        if count > ROW_MAX or min(also, default=0) < -_BELOW:
            raise ValueError(f"blocks of ports have no room for the distances {also}")
        with self._lock:  # clusters are described in threads
            if also:
                return self._reserve(count) + _BELOW
            if not self._single:
                first = self._reserve()
                self._single = list(range(first, first + BLOCK))
            return self._single.pop()

    def _reserve(self, count: int = 1) -> int:
        """Reserve so many blocks side by side, and return the first port."""
        is_one = count == 1
        while len(self._blocks) + count > OWN_MAX and (again := self._own_oldest()) is not None:
            if is_one:
                return again.first
            self._blocks.pop().reservation.close()  # others may have it, and this process too
        firsts = list(range(LOWEST, HIGHEST - BLOCK + 1, BLOCK))
        random.SystemRandom().shuffle(firsts)
        for first in firsts:
            if row := _row(first, count):
                self._blocks += row
                return first
        if is_one and (again := self._own_oldest()) is not None:
            return again.first
        raise OSError(f"no free ports between {LOWEST} and {HIGHEST}")

    def _own_oldest(self) -> _Block | None:
        """Return the block given out longest ago that is free: its servers have ended by now.

        Not the one whose ports are being given out singly.
        """
        for _ in range(len(self._blocks)):
            self._blocks.rotate(-1)
            block = self._blocks[-1]
            if block.is_free and not any(block.has(port) for port in self._single):
                return block
        return None


def _row(first: int, count: int) -> list[_Block]:
    """Reserve so many blocks side by side; none where one of them is taken."""
    row: list[_Block] = []
    for port in range(first, first + count * BLOCK, BLOCK):
        reservation = _reservation(port) if port + BLOCK <= HIGHEST else None
        if reservation is None:
            break
        row.append(block := _Block(port, reservation))
        if not block.is_free:
            break
    else:
        return row
    for block in row:
        block.reservation.close()
    return []


def _reservation(first: int) -> socket.socket | None:
    """Return the socket that keeps a block for this process; None where another has it."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        opened.bind(("127.0.0.1", first))
    except OSError:
        opened.close()
        return None
    return opened


def _is_free(port: int) -> bool:
    """Return whether nobody has the port at any address: Java's servers take it at all."""
    family, everywhere = (
        (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")
    )
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            probe.bind((everywhere, port))
        except OSError:
            return False
    return True


_OWN: Final = Ports()


def free_port(*also: int) -> int:
    """Return a port that is free, as are the ports at the distances ``also`` from it.

    They are this process's until it ends, whether a server listens there or is down; those of a
    broker's logical listener, too. A broker needs ``free_port(+1, -2)``: replication, and the
    port for old clients.
    """
    return _OWN.take(*also)
