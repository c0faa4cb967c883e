"""The numbers of brokers, by which they get ports: they are kept over restarts.

A client may use an address for half a minute after it has asked for it. If it led to another
broker then, a consumer would take that one's offsets for its own.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, final

import msgspec

from lanemq.local import append_file, make_directories, replace_file

from .._settings import ConfigError, read_file

BROKERS_MAX: Final = 1000
"""Most brokers that a proxy has ports for."""


class BrokerKey(NamedTuple):
    """A broker of the cluster, master or slave."""

    name: str
    broker_id: int

    def __str__(self) -> str:
        return f"{self.name}/{self.broker_id}"


@final
class BrokerNumbers:
    """Broker -> its number, from 0 on, which no other gets. ``path`` None keeps nothing.

    One that ``is_locking`` has the file's directory for itself until ``close``: two proxies would
    each write the file without the other's brokers. Workers of one proxy, ``is_shared``, write it
    one after another, and each reads what the others wrote before it does. Raises ``ConfigError``
    where another proxy has it, and for a file that cannot be read.
    """

    def __init__(
        self, path: Path | None, *, is_locking: bool = False, is_shared: bool = False
    ) -> None:
        self._path = path
        self._is_shared = is_shared
        self._numbers: dict[str, int] = {}
        self.saves = 0
        """Number of writes of the file, each of which takes the disk's time."""
        self._is_locking = is_locking
        self._lock = -1
        if path is None:
            return
        with suppress(OSError):  # it cannot be written: ``add`` says so, and tries again
            self._take_lock(path)
        try:
            if path.exists():
                self._numbers = _read(path)
        except (ConfigError, OSError):
            self.close()
            raise

    def close(self) -> None:
        """Give the directory to others. Idempotent."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _take_lock(self, path: Path) -> None:
        """Lock the directory of the file. Raises ``OSError``, and ``ConfigError`` where another
        proxy has it."""
        if not self._is_locking or self._lock >= 0:
            return
        make_directories(path.parent)
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigError(
                f"{path.parent} is in use by another proxy that runs: each needs a directory of "
                "its own for the ports of brokers; give this one another with --data"
            ) from None
        except OSError:
            os.close(descriptor)
            raise
        self._lock = descriptor

    def get(self, key: BrokerKey) -> int | None:
        """Return the number of a broker; None where it has none."""
        return self._numbers.get(str(key))

    @property
    def is_full(self) -> bool:
        """True if no more brokers get numbers."""
        return len(self._numbers) >= BROKERS_MAX

    def add(self, keys: Iterable[BrokerKey]) -> str:
        """Give numbers to brokers that have none, up to ``BROKERS_MAX``, and keep them.

        None gets one that cannot be kept: it could be another's after a restart. Returns the
        reason why it cannot; empty if it can.
        """
        if self._path is None or not self._is_shared:
            return self._add(keys)
        try:
            with alone(self._path):
                if self._path.exists():
                    self._numbers = _read(self._path)
                return self._add(keys)
        except (ConfigError, OSError) as error:
            return f"new brokers get none until {self._path} can be read and written: {error}"

    def _add(self, keys: Iterable[BrokerKey]) -> str:
        numbers = dict(self._numbers)
        free = 1 + max(numbers.values(), default=-1)
        for name in map(str, keys):
            if name not in numbers and len(numbers) < BROKERS_MAX:
                numbers[name] = free
                free += 1
        if len(numbers) == len(self._numbers):
            return ""
        if self._path is not None:
            self.saves += 1
            try:
                self._take_lock(self._path)
                replace_file(self._path, msgspec.json.encode(numbers))
            except OSError as error:
                return f"new brokers get none until {self._path} can be written: {error}"
            except ConfigError as error:
                return str(error)
        self._numbers = numbers
        return ""


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Have a file for oneself among the workers of a proxy, for the time of one write."""
    make_directories(path.parent)
    with append_file(path.with_name(path.name + ".lock")) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> dict[str, int]:
    try:
        numbers = msgspec.json.decode(read_file(path), type=dict[str, int])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} does not have the numbers of brokers: {error}. Without the file they get new "
            "ones: have no client running for half a minute, and remove it"
        ) from error
    if len(set(numbers.values())) != len(numbers) or min(numbers.values(), default=0) < 0:
        raise ConfigError(f"{path}: two brokers have the same number, or one has none")
    return numbers
