"""The brokers that have ever registered at a name server, present or not."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

from lanemq.local import get_logger, replace_file
from lanemq.wire.kv import KNOWN_BROKERS_FIELD

LOGGER = get_logger("lanemq.proxy.nameserver", by_peers=True)
NAMES_MAX: Final = 1024
"""The most names that are kept; further ones are not told apart."""
UNREADABLE: Final = "?"
"""Name in place of the brokers of a file that cannot be read."""


@final
class KnownBrokers:
    """Names of brokers, in a small file (None: in memory only)."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written = _read(path) if path is not None else frozenset()
        self.names: frozenset[str] = self._written
        """All names that are known."""

    def note(self, name: str) -> None:
        """Remember a broker that registers; one that cannot be written is tried again."""
        if name not in self.names and len(self.names) < NAMES_MAX:
            self.names |= {name}
        if self._path is None or self._written == self.names:
            return
        try:
            replace_file(self._path, json.dumps(sorted(self.names)).encode())
        except OSError as error:
            LOGGER.error("%s cannot be written, next try soon: %s", self._path, error)
        else:
            self._written = self.names

    def asked_by(self, fields: Mapping[str, str]) -> dict[str, str]:
        """Return the number of names as a field of an answer, if the request asks for it."""
        if KNOWN_BROKERS_FIELD not in fields:
            return {}
        return {KNOWN_BROKERS_FIELD: str(len(self.names))}

    def may_know(self, name: str) -> bool:
        """Return whether a broker may have registered once; True where names were not kept."""
        has_all = len(self.names) < NAMES_MAX and UNREADABLE not in self.names
        return name in self.names or not has_all


def _read(path: Path) -> frozenset[str]:
    try:
        names = json.loads(path.read_bytes())
        return frozenset(str(name) for name in names)
    except FileNotFoundError:
        return frozenset()
    except (ValueError, TypeError) as error:
        LOGGER.error("%s cannot be read: %s", path, error)
        return frozenset({UNREADABLE})
