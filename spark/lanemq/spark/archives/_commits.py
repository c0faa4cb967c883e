"""The commits of an archive: which files count, and how far each queue is archived.

Commit N is the file ``_commits/N.json``, which appears whole or not at all. Files that no commit
names belong to a run that goes on, or that was killed; they count for nobody. A run announces its
name before it writes, so that a later one finds and removes what it left.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final

from pyspark.sql.types import StructType

from .._errors import SourceError
from .._uris import below, shown
from ._files import ArchiveFiles, require_vacant
from ._state import Archived, ArchivedQueue, Span, WrittenFile, added, parse_queue, queue_text

COMMITS: Final = "_commits"
"""The directory of commits: readers of Parquet take names with ``_`` for no data."""
RUN_SUFFIX: Final = ".run"
DIGITS: Final = 10


@final
@dataclass
class ArchivedFiles(Archived):
    """The sum of all commits."""

    files: list[str] = field(default_factory=list)
    """Paths in the archive."""
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Run -> its commit, that of the run which removed it included."""


@final
class Commits:
    """The commits of the archive in ``target``, a path or URI."""

    holds_partitions: Final = False

    def __init__(self, target: str) -> None:
        self.target = self.root = target
        self._files = ArchiveFiles(target)

    def exists(self) -> bool:
        return self._files.is_directory(COMMITS)

    def prepare(self, schema: StructType) -> None:
        """Check a place that is no archive yet. Nothing is to be made: files have their schema, and
        a directory comes with the first."""
        if not self.exists():
            require_vacant(self.target, self._files, COMMITS)

    def read(self) -> ArchivedFiles:
        """Read all commits. Raises ``SourceError`` if one lacks."""
        found = ArchivedFiles()
        for name in self._names():
            number = int(name.removesuffix(".json"))
            if number != found.version + 1:
                raise SourceError(
                    f"{shown(self.target)}: commit {found.version + 1} of the archive is missing"
                )
            commit = json.loads(self._files.read(f"{COMMITS}/{name}"))
            found.version = number
            found.files += commit["files"]
            found.grow(
                {parse_queue(text): Span(*span) for text, span in commit["queues"].items()},
                {parse_queue(text): count for text, count in commit["missing"].items()},
            )
            found.runs |= dict.fromkeys([commit["run"], *commit["removed"]], commit)
        return found

    def paths(self) -> list[str]:
        return [below(self.target, path) for path in self.read().files]

    def begin(self, run: str) -> ArchivedFiles:
        """Announce a run, and take the place of those that were announced and have not ended.

        Such a run is forbidden to commit by a commit, so it can be removed even if it goes on.
        """
        known = self.read()
        announced = [
            entry.name.removesuffix(RUN_SUFFIX)
            for entry in self._files.entries(COMMITS)
            if entry.name.endswith(RUN_SUFFIX)
        ]
        if left := [name for name in announced if name not in known.runs]:
            self._put(known.version + 1, {"run": run + ".removal", "removed": left})
            known = self.read()
        for name in announced:
            self.end(name)
        self._files.create(f"{COMMITS}/{run}{RUN_SUFFIX}", b"")
        return known

    def end(self, run: str) -> None:
        """Take back the announcement of a run, and remove its files but for those of its commit.

        Tasks that failed have left theirs beside these, where another attempt has written the same
        rows.
        """
        commit = self.read().runs.get(run)
        self._files.remove_run(run, () if commit is None else commit["files"])
        self._files.remove(f"{COMMITS}/{run}{RUN_SUFFIX}")

    def commit(
        self,
        run: str,
        files: Iterable[WrittenFile],
        spans: Mapping[ArchivedQueue, list[Span]],
    ) -> None:
        """Write the run's commit."""
        known = self.read()
        if run in known.runs:
            if run in known.runs[run]["removed"]:
                raise SourceError(
                    f"{shown(self.target)}: another run has taken the place of this one; nothing"
                    " was archived"
                )
            return  # Spark asks twice
        queues, missing = added(known, spans)
        commit = {
            "run": run,
            "files": sorted(file.path for file in files),
            "queues": {queue_text(place): span for place, span in queues.items()},
            "missing": {queue_text(place): count for place, count in missing.items()},
        }
        self._put(known.version + 1, commit)

    def _put(self, number: int, commit: dict[str, Any]) -> None:
        whole = {"files": [], "queues": {}, "missing": {}, "removed": [], **commit}
        data = json.dumps(whole, indent=1).encode()
        try:
            self._files.create(f"{COMMITS}/{number:0{DIGITS}d}.json", data)
        except FileExistsError:
            raise SourceError(
                f"{shown(self.target)}: another run has changed the archive meanwhile; nothing was"
                " archived. Run the job again"
            ) from None

    def _names(self) -> list[str]:
        names = (entry.name for entry in self._files.entries(COMMITS))
        return [name for name in names if name.endswith(".json")]
