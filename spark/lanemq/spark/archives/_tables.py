"""The state of an archive that is a table: one text in the metadata of a commit.

It is the whole state, so the last commit that has one says where to begin, and those before it may
be removed.
"""

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final
from urllib.parse import unquote

from .._errors import SourceError
from ._state import Archived, ArchivedQueue, Span, WrittenFile, added, parse_queue, queue_text

STATE: Final = "lanemq.archive"
"""The name of the state in the metadata of a commit."""
ATTEMPTS: Final = 10
"""Commits that are tried while programs of others change a table."""


@final
@dataclass
class TableState(Archived):
    """The state in the metadata of a commit, and the run that made it."""

    run: str = ""

    def text(self) -> str:
        """Return the state as a commit holds it."""
        return json.dumps(
            {
                "run": self.run,
                "queues": {queue_text(place): span for place, span in self.ends.items()},
                "missing": {queue_text(place): count for place, count in self.missing.items()},
            }
        )


def parse_state(text: str, version: int) -> TableState:
    """Return the state that a commit holds."""
    held = json.loads(text)
    found = TableState(version=version, run=held["run"])
    found.grow(
        {parse_queue(text): Span(*span) for text, span in held["queues"].items()},
        {parse_queue(text): count for text, count in held["missing"].items()},
    )
    return found


def grown(known: Archived, run: str, spans: Mapping[ArchivedQueue, list[Span]]) -> TableState:
    """Return the state with what a run adds. Raises ``SourceError`` if it is there already."""
    found = TableState(ends=dict(known.ends), missing=dict(known.missing), run=run)
    found.grow(*added(known, spans))
    return found


def require_package(name: str, extra: str) -> None:
    """Raise ``SourceError`` where a package of an extra is not installed."""
    if importlib.util.find_spec(name) is None:
        raise SourceError(
            f"the Python package {name} is not installed: pip install 'lanemq[{extra}]'"
        )


def partition_of(file: WrittenFile) -> dict[str, str]:
    """Return topic and day of a file."""
    steps = file.path.split("/")[:-1]
    return {name: unquote(value) for name, _, value in (step.partition("=") for step in steps)}


def check_file(place: str, path: str) -> None:
    """Raise ``SourceError`` if a table's file is in no directory of a topic and a day."""
    if not path.startswith("topic=") or "/day=" not in path:
        raise SourceError(
            f"{place}: the file {path} of the table is not in a directory of its topic and day"
        )


def check_columns(place: str, given: Mapping[str, Any], there: Mapping[str, Any]) -> None:
    """Raise ``SourceError`` if rows have a column that a table has not, or of another type."""
    for name, kind in given.items():
        if name not in there:
            raise SourceError(f"{place}: the table has no column {name}, and the messages have one")
        if kind != there[name]:
            raise SourceError(
                f"{place}: the table's column {name} is of type {there[name]}, and that of the"
                f" messages of type {kind}"
            )
