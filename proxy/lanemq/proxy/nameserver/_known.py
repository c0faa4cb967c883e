"""The brokers that have ever registered at a name server, present or not."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

import trio

from lanemq.local import get_logger, replace_file
from lanemq.wire.kv import KNOWN_BROKERS_FIELD

from ..net.limits._quotas import HOST_SHARE, has_share

LOGGER = get_logger("lanemq.proxy.nameserver", by_peers=True)
NAMES_MAX: Final = 1024
"""The most names that are kept; further ones are not told apart."""
OTHERS: Final = "?"
"""Name in place of brokers that are not kept: those of a file that cannot be read, and those
beyond the share of an address."""


@final
class KnownBrokers:
    """Names of brokers, in a small file (None: in memory only).

    The file is written whole, in a thread, by one at a time; one write has the names of all who
    came while the one before it lasted.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written = _read(path) if path is not None else frozenset()
        self.names: frozenset[str] = self._written
        """All names that are known."""
        self._of_host = Counter[str]()
        self._writing = trio.Lock()
        self._begun = 0

    def note(self, name: str, host: str) -> bool:
        """Remember a broker that registers from ``host``; returns whether ``write`` is to follow.

        An address has three quarters of the names at most, from the start on.
        """
        if name not in self.names:
            self._add(name, host)
        if self._path is None or self._written is self.names:
            return False
        return not (name in self._written and self._writing.locked())

    def _add(self, name: str, host: str) -> None:
        free = NAMES_MAX - len(self.names)
        if has_share(self._of_host[host], free, HOST_SHARE):
            self._of_host[host] += 1
            self.names |= {name}
        elif free > 0 and OTHERS not in self.names:
            self.names |= {OTHERS}

    async def write(self) -> None:
        """Return when the names that were noted before are on the disk; those that cannot be
        written are tried again at the next registration."""
        path, before = self._path, self._begun
        if path is None:
            return
        async with self._writing:
            names = self.names
            if self._begun > before or self._written is names:
                return  # they were in a write that began since
            self._begun += 1
            try:
                await trio.to_thread.run_sync(_write, path, names)
            except OSError as error:
                LOGGER.error("%s cannot be written, next try soon: %s", path, error)
            else:
                self._written = names

    def asked_by(self, fields: Mapping[str, str]) -> dict[str, str]:
        """Return the number of names as a field of an answer, if the request asks for it."""
        if KNOWN_BROKERS_FIELD not in fields:
            return {}
        return {KNOWN_BROKERS_FIELD: str(len(self.names))}

    def may_know(self, name: str) -> bool:
        """Return whether a broker may have registered once; True where names were not kept."""
        has_all = len(self.names) < NAMES_MAX and OTHERS not in self.names
        return name in self.names or not has_all


def _write(path: Path, names: frozenset[str]) -> None:
    replace_file(path, json.dumps(sorted(names)).encode())


def _read(path: Path) -> frozenset[str]:
    try:
        names = json.loads(path.read_bytes())
        return frozenset(str(name) for name in names)
    except FileNotFoundError:
        return frozenset()
    except (ValueError, TypeError) as error:
        LOGGER.error("%s cannot be read: %s", path, error)
        return frozenset({OTHERS})
