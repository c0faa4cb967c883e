"""Entries as they were at an earlier revision: those there are now, but for what changed since.

Each row of a change has the head of the entry before it. So the first change of a key since a
revision tells its entry at that revision, whose value is in the log, in the record that the head
names. The rows are walked once, in turns of the loop, for a range of keys; what is noted of them
is bounded: beyond that the range is cut where a page of it has to end.
"""

from bisect import bisect_left
from collections.abc import Iterator
from time import perf_counter
from typing import Final, final

from ._log import KvLog
from ._state import State
from .engines._rows import (
    CHANGE,
    CHANGE_PLACE,
    after_prefix,
    change_key,
    decode_change,
)

NOTED_BYTES_MAX: Final = 4 << 20
"""Bytes of keys that one read notes."""
NOTE_COSTS: Final = 150
LOOKS_AT_CLOCK: Final = 32


class Compacted(Exception):  # noqa: N818 - named for what happened
    """A revision or a value of its time is no longer known; the text names it."""


@final
class Past:
    """The entries of a range of keys that have changed since a revision, as they were then."""

    def __init__(self, revision: int, begin: bytes, end: bytes | None, *, reverse: bool) -> None:
        """``revision`` counts the records of the log that are in it."""
        self.revision = revision
        self.begin = begin
        self.end = end
        """The range, which is cut at its far end if too much of it has changed."""
        self._reverse = reverse
        self._seen = change_key(revision, 0)
        self._heads: dict[bytes, bytes] = {}
        """Key -> head of its entry at the revision; empty where there was none."""
        self._order: list[bytes] | None = None
        """The keys that had an entry, in order; None until they are sorted."""
        self.noted_bytes = 0
        """Bytes of what is noted, about."""

    def look(self, state: State, until_s: float) -> bool:
        """Note what has changed since the last look; returns whether that is all.

        Raises ``Compacted``, ``OSError``.
        """
        changes_from = state.meta.changes_from
        if self.revision < changes_from:
            raise Compacted(f"the history begins at revision {changes_from}")
        rows = state.table.items(self._seen, after_prefix(CHANGE))
        for looked_at, (row_key, row) in enumerate(rows, 1):
            change = decode_change(row)
            self._seen = row_key + b"\0"
            key = change.key
            if self._covers(key) and key not in self._heads:
                if change.before is None:
                    at, _ = CHANGE_PLACE.unpack_from(row_key, 1)
                    raise Compacted(f"the history begins behind revision {at + 1}")
                self._note(key, change.before)
            if not looked_at % LOOKS_AT_CLOCK and perf_counter() > until_s:
                return False
        return True

    def _covers(self, key: bytes) -> bool:
        return self.begin <= key and (self.end is None or key < self.end)

    def _note(self, key: bytes, head: bytes) -> None:
        self._heads[key] = head
        self._order = None
        self.noted_bytes += len(key) + NOTE_COSTS
        if self.noted_bytes <= NOTED_BYTES_MAX:
            return
        keys = sorted(self._heads, reverse=self._reverse)
        bound = keys[len(keys) // 2]
        if self._reverse:
            self.begin = bound + b"\0"
        else:
            self.end = bound
        self._heads = {key: self._heads[key] for key in keys[: len(keys) // 2]}
        self.noted_bytes = sum(map(len, self._heads)) + NOTE_COSTS * len(self._heads)

    def is_changed(self, key: bytes) -> bool:
        """Return whether an entry that is there now was another then, or none."""
        return key in self._heads

    def pass_over(self, key: bytes) -> None:
        """Take what comes before a key, in the order of reading, out of the range."""
        if self._reverse:
            self.end = key + b"\0"
        else:
            self.begin = key

    def heads(self) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys and heads of entries that have changed since, in order."""
        keys = self._order
        if keys is None:
            keys = self._order = sorted(key for key, head in self._heads.items() if head)
        low = bisect_left(keys, self.begin)
        high = len(keys) if self.end is None else bisect_left(keys, self.end)
        places = range(low, high)
        for place in reversed(places) if self._reverse else places:
            yield keys[place], self._heads[keys[place]]


def clock_at(state: State, log: KvLog, revision: int) -> int:
    """Return the time of the log at a revision in milliseconds; 0 where the record is gone."""
    begin, end = log.bounds()
    if revision == state.meta.next:
        return state.meta.clock_ms
    if not begin <= revision - 1 < end:
        return 0
    return log.time_of(revision - 1)
