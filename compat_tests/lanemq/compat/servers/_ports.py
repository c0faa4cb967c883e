"""Ports for servers that want several with fixed distances, reserved on the whole machine.

A server that is down for a while keeps its ports: nothing listens there then, and yet nobody else
may be given them, neither here nor in another process that runs tests. So ports are given out in
blocks, and a block is reserved by a UDP socket at its first port for as long as this process
lives. No server of ours speaks UDP, and the system gives the reservation up when the process
ends, however it ends. A process that needs more than its share gets its oldest block again, if
nobody listens there: its server is long gone, for ``OWN_MAX - 1`` others have been started since.
"""

import random
import socket
from collections import deque
from typing import Final, NamedTuple

# Below the range the system gives to outgoing connections, so that none of those takes a
# port between our look and the server's bind.
LOWEST, HIGHEST = 20_000, 32_000
BLOCK: Final = 16
"""Ports of a block: room for a broker's with its logical listener, 10 above."""
OWN_MAX: Final = 128
"""Blocks of one process, so that five processes have enough."""
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

    def take(self, *also: int) -> int:
        """Return a port for a server that has those at the distances ``also`` as well."""
        if not also:
            if not self._single:
                first = self._reserve().first
                self._single = list(range(first, first + BLOCK))
            return self._single.pop()
        if min(also) < -_BELOW or max(also) >= BLOCK - _BELOW:
            raise ValueError(f"a block of ports has no room for the distances {also}")
        return self._reserve().first + _BELOW

    def _reserve(self) -> _Block:
        if len(self._blocks) >= OWN_MAX and (again := self._own_oldest()) is not None:
            return again
        firsts = list(range(LOWEST, HIGHEST - BLOCK + 1, BLOCK))
        random.SystemRandom().shuffle(firsts)
        for first in firsts:
            reservation = _reservation(first)
            if reservation is None:
                continue
            block = _Block(first, reservation)
            if block.is_free:
                self._blocks.append(block)
                return block
            reservation.close()
        if (again := self._own_oldest()) is not None:
            return again
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
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
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
