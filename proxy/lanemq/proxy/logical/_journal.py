"""The migrations that a broker is the source of, as they survive a crash of it.

A migration is written down before the source is sealed, and again before anyone is told that
it is. What is found in phase ``sealing`` after a crash never happened, unless the mapping has it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

from lanemq.wire import RemoteProtocolError
from lanemq.wire.logical import Segment

FILE_NAME: Final = "logicalQueueMigration.json"
MEMBER: Final = "migrations"


@final
class Phase(StrEnum):
    """How far a migration is, as its source sees it."""

    SEALING = "sealing"
    """Writers are being waited for; the source is as open as it was."""
    PREPARED = "prepared"
    """The source is sealed for good; the destination may not know that it is open."""


@final
@dataclass(frozen=True, slots=True)
class Migration:
    """One entry: the two segments as they were when it was written, and when it began."""

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
        """Raises ``RemoteProtocolError`` for anything that ``to_json`` does not give."""
        if not isinstance(value, dict):
            raise RemoteProtocolError("a migration is no JSON object")
        try:
            phase, started_ms = Phase(value["phase"]), int(value["startedMillis"])
            source, target = value["source"], value["target"]
        except (KeyError, TypeError, ValueError) as error:
            raise RemoteProtocolError(f"a migration without its {error}") from None
        return cls(Segment.from_json(source), Segment.from_json(target), phase, started_ms)


@final
class Journal:
    """At most one migration for each logical queue."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], Migration] = {}

    def load(self, members: dict[str, object]) -> None:
        """Take over what ``to_json`` gave. Raises ``RemoteProtocolError``."""
        entries = members.get(MEMBER)
        if entries is None:
            return
        if not isinstance(entries, list):
            raise RemoteProtocolError(f"{MEMBER} is no array")
        for value in entries:
            self.put(Migration.from_json(value))

    def to_json(self) -> dict[str, object]:
        return {MEMBER: [migration.to_json() for migration in self._entries.values()]}

    def get(self, topic: str, index: int) -> Migration | None:
        return self._entries.get((topic, index))

    def put(self, migration: Migration) -> None:
        self._entries[migration.queue] = migration

    def remove(self, topic: str, index: int) -> bool:
        """Whether there was one."""
        return self._entries.pop((topic, index), None) is not None

    def all(self) -> list[Migration]:
        return list(self._entries.values())
