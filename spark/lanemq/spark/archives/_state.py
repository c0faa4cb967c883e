"""The state of an archive in any form: how far its queues are, and what a run adds to that."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, final

from pyspark.sql.types import StructType

from .._errors import SourceError

ARCHIVED: Final = ("broker", "topic", "queue", "queueOffset")
"""The columns that name the place of a message."""
PARTITIONED: Final = ("topic", "day")


@final
class ArchivedQueue(NamedTuple):
    """A queue of a broker."""

    broker: str
    topic: str
    queue: int


@final
class Span(NamedTuple):
    """The offsets from ``begin`` to before ``end``, and the id of the last message."""

    begin: int
    end: int
    last_id: str | None


def queue_text(place: ArchivedQueue) -> str:
    """Return a queue as commits name it."""
    return json.dumps(place, separators=(",", ":"))


def parse_queue(text: str) -> ArchivedQueue:
    """Return the queue that ``queue_text`` named."""
    return ArchivedQueue(*json.loads(text))


@dataclass
class Archived:
    """The state of an archive by all of its commits."""

    version: int = 0
    """The commit that added messages last, as the archive's form counts; 0 if there is none."""
    ends: dict[ArchivedQueue, Span] = field(default_factory=dict)
    """Queue -> first offset, end, and id of the last message that is archived."""
    missing: dict[ArchivedQueue, int] = field(default_factory=dict)
    """Queue -> offsets before its end of which the source had no message."""

    def grow(
        self, spans: Mapping[ArchivedQueue, Span], missing: Mapping[ArchivedQueue, int]
    ) -> None:
        """Take in what a run has added, as ``added`` returned it."""
        for place, (begin, end, last_id) in spans.items():
            first = self.ends[place].begin if place in self.ends else begin
            self.ends[place] = Span(first, end, last_id)
        for place, count in missing.items():
            self.missing[place] = self.missing.get(place, 0) + count


@final
class WrittenFile(NamedTuple):
    """A file that a task wrote: its path below the archive's root, and its footer."""

    path: str
    size: int
    footer: Any


class Archive(Protocol):
    """An archive in one of its forms. Raises ``SourceError``."""

    @property
    def root(self) -> str:
        """The path or URI below which tasks write files."""

    @property
    def holds_partitions(self) -> bool:
        """True if files have the columns topic and day, beside their directories."""

    def exists(self) -> bool:
        """Return whether there is one."""

    def prepare(self, schema: StructType) -> None:
        """Make one that can take such rows; raise where it cannot."""

    def read(self) -> Archived:
        """Return its state."""

    def paths(self) -> list[str]:
        """Return the paths or URIs of the files that count."""

    def begin(self, run: str) -> Archived:
        """Begin a run, and return the state that it adds to."""

    def commit(
        self,
        run: str,
        files: Iterable[WrittenFile],
        spans: Mapping[ArchivedQueue, list[Span]],
    ) -> None:
        """Make the files of a run count; where it raises, nothing has changed.

        ``spans``: the offsets that were written, in the order in which tasks wrote them.
        """

    def end(self, run: str) -> None:
        """End a run: remove those of its files that do not count."""


def added(
    known: Archived, spans: Mapping[ArchivedQueue, list[Span]]
) -> tuple[dict[ArchivedQueue, Span], dict[ArchivedQueue, int]]:
    """Return the spans that a run adds by queue, and how many offsets lack there.

    Raises ``SourceError`` if an offset is there twice, also in an earlier run.
    """
    whole, missing = {}, {}
    for place, parts in spans.items():
        whole[place], gaps = _joined(place, parts, known.ends.get(place))
        if gaps:
            missing[place] = gaps
    return whole, missing


def _joined(place: ArchivedQueue, spans: list[Span], before: Span | None) -> tuple[Span, int]:
    """Return the spans of a run as one, and how many offsets lack in it or before it.

    Raises ``SourceError`` if an offset is there twice, also in an earlier run.
    """
    ordered = sorted(spans, key=lambda one: one[:2])
    first = ordered[0].begin if before is None else before.end
    at, gaps = first, 0
    for span in ordered:
        if span.begin < at:
            raise SourceError(
                f"queue {place.queue} of {place.topic} at {place.broker or 'the store'} has offset"
                f" {span.begin} twice: another run has archived it meanwhile, its topic was deleted"
                " and made again, or the messages are of several brokers; archive those with one"
                " name of a broker each"
            )
        gaps += span.begin - at
        at = span.end
    return Span(ordered[0].begin, at, ordered[-1].last_id), gaps


def merged(parts: Iterable[Mapping[ArchivedQueue, list[Span]]]) -> dict[ArchivedQueue, list[Span]]:
    """Return the spans of several tasks by queue."""
    found: dict[ArchivedQueue, list[Span]] = {}
    for place, spans in chain.from_iterable(part.items() for part in parts):
        found.setdefault(place, []).extend(spans)
    return found
