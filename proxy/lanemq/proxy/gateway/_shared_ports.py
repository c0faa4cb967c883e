"""The ports of brokers that workers of one proxy share, and no other proxy with them.

The system lets all processes of a user share a port that ask for it (SO_REUSEPORT), those of
another proxy among them: its clients would meet another cluster's broker. So a worker that opens a
port first looks whether somebody else has it, as a proxy of one process does. Each keeps a file of
the proxy's directory locked for as long as it has the port: that says whether it is the first.
"""

import fcntl
import socket
from pathlib import Path
from typing import BinaryIO, final

from lanemq.local import append_file

from ..net.transport._listen import listen_with_vip
from ._numbers import alone


@final
class SharedPorts:
    """The ports of one worker. ``path`` is the file of the numbers, which all workers have."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: list[BinaryIO] = []

    def listen(self, host: str, port: int) -> list[socket.socket]:
        """Open a port and its VIP port, as ``listen_with_vip``.

        Raises ``AddressUnavailable``, also where others share them, and ``OSError`` where the file
        cannot be locked.
        """
        with alone(self._path):
            held = append_file(self._path.with_name(f"broker-{port}.lock"))
            try:
                if _is_first(held):
                    for one in listen_with_vip(host, port):
                        one.close()
                listeners = list(listen_with_vip(host, port, is_shared=True))
                fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                held.close()
                raise
        self._held.append(held)
        return listeners

    def close(self) -> None:
        """Say that this worker has the ports no more. Idempotent."""
        while self._held:
            self._held.pop().close()


def _is_first(held: BinaryIO) -> bool:
    """Return whether no other worker has the port of a file."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
