"""The journal of the migrations of which a broker is the source; it survives a crash.

A migration is written down before the source is sealed, and again before anyone is told that
it is. One found in phase ``sealing`` after a crash never happened, unless the mapping has it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

from lanemq.wire import RemoteProtocolError
from lanemq.wire.logical import Segment

JOURNAL_FILE: Final = "logicalQueueMigration.json"
MEMBER: Final = "migrations"


@final
class Phase(StrEnum):
    """The phase of a migration, at its source."""

    SEALING = "sealing"
    """The source waits for writers, and is as open as it was."""
    PREPARED = "prepared"
    """The source is sealed for good; the destination may not know yet that it is open."""


@final
@dataclass(frozen=True, slots=True)
class Migration:
    """An entry: the two segments at the time of writing, and the time of the begin."""

    source: Segment
    target: Segment
    phase: Phase
    started_ms: int

    @property
    def queue(self) -> tuple[str, int]:
        """Topic and index of the logical queue."""
        return self.source.topic, self.source.logical_index

    def to_json(self) -> dict[str, object]:
        return {
            "phase": self.phase.value,
            "source": self.source.to_json(),
            "startedMillis": self.started_ms,
            "target": self.target.to_json(),
        }

    @classmethod
    def from_json(cls, value: object) -> "Migration":
        """Parse an entry. Raises ``RemoteProtocolError`` for anything that ``to_json`` does not
        give."""
        if not isinstance(value, dict):
            raise RemoteProtocolError("a migration is not a JSON object")
        try:
            phase, started_ms = Phase(value["phase"]), int(value["startedMillis"])
            source, target = value["source"], value["target"]
        except (KeyError, TypeError, ValueError) as error:
            raise RemoteProtocolError(f"a migration without its {error}") from None
        return cls(Segment.from_json(source), Segment.from_json(target), phase, started_ms)


@final
class Journal:
    """The journal, with at most one migration for each logical queue."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], Migration] = {}

    def load(self, members: dict[str, object]) -> None:
        """Load what ``to_json`` gave. Raises ``RemoteProtocolError``."""
        entries = members.get(MEMBER)
        if entries is None:
            return
        if not isinstance(entries, list):
            raise RemoteProtocolError(f"{MEMBER} is not an array")
        for value in entries:
            self.put(Migration.from_json(value))

    def to_json(self) -> dict[str, object]:
        return {MEMBER: [migration.to_json() for migration in self._entries.values()]}

    def get(self, topic: str, index: int) -> Migration | None:
        return self._entries.get((topic, index))

    def put(self, migration: Migration) -> None:
        self._entries[migration.queue] = migration

    def remove(self, topic: str, index: int) -> bool:
        """Remove a migration; return whether there was one."""
        return self._entries.pop((topic, index), None) is not None

    def all(self) -> list[Migration]:
        return list(self._entries.values())
