"""Reads of a range of keys: forward or back, counted, and at an earlier revision."""

import heapq
import math
from collections.abc import Iterator
from time import perf_counter
from typing import Final, NamedTuple, final

from lanemq.wire.kv import PAGE_BYTES_MAX, PAGE_ENTRIES_MAX, Entry, RangePage

from ._log import KvLog
from ._past import Compacted, Past, clock_at
from ._state import State
from ._values import Values
from .engines._engine import Unfinished
from .engines._rows import ENTRY, HEAD, after_prefix, entry_of

LOOKED_AT_MAX: Final = 2000
"""Rows that one read looks at; one that counts looks at as many as its turn allows."""
LOOKS_AT_CLOCK: Final = 8
RECORD_BYTES_MAX: Final = 4 << 20
"""Bytes of records that one page reads from the log for earlier values."""


class Span(NamedTuple):
    """The keys that are asked for, and what of them."""

    begin: bytes
    """The first key."""
    end: bytes | None
    """The first key behind the range; None for all keys from ``begin`` on."""
    reverse: bool = False
    limit: int = PAGE_ENTRIES_MAX
    keys_only: bool = False
    count_only: bool = False

    @property
    def first_row(self) -> bytes:
        """The first row of an entry in the range."""
        return ENTRY + self.begin

    @property
    def end_row(self) -> bytes:
        """The first row behind the range."""
        return after_prefix(ENTRY) if self.end is None else ENTRY + self.end


class _Found(NamedTuple):
    key: bytes
    head: bytes
    row: bytes | None
    """The row, where the entry is there now; None for one that has to be read from the log."""


@final
class RangeRead:
    """A read of a range, in as many turns as it takes; ``page`` is called in each."""

    def __init__(self, span: Span, revision: int | None = None) -> None:
        """``revision`` counts the records that are in what is read; None for all there are."""
        self._span = span
        begin, end = span.first_row[1:], span.end_row[1:] if span.end is not None else None
        self._past: Past | None = None
        if revision is not None:
            self._past = Past(revision, begin, end, reverse=span.reverse)

    @property
    def kept_bytes(self) -> int:
        """Bytes that are kept for its next turn, about: up to some 4 MiB."""
        return 0 if self._past is None else self._past.noted_bytes

    def page(self, state: State, log: KvLog, until_s: float = math.inf) -> RangePage | None:
        """Return a page; None where the next turn has to go on.

        All entries are of one moment. Raises ``Compacted`` for a revision, or a value of its
        time, that is no longer known, and ``OSError``.
        """
        past = self._past
        if past is not None and not past.look(state, until_s):
            return None
        return _page(state, log, self._span, past, until_s)


def _page(
    state: State, log: KvLog, span: Span, past: Past | None, until_s: float
) -> RangePage | None:
    meta, limit = state.meta, max(1, min(span.limit, PAGE_ENTRIES_MAX))
    position = meta.next if past is None else past.revision
    clock_ms = meta.clock_ms if past is None else clock_at(state, log, past.revision)
    values, found = Values(state, log), list[Entry]()
    size_bytes = count = looked_at = 0

    def ended(cursor: bytes | None) -> RangePage:
        return RangePage(found, cursor, position, clock_ms, count)

    rows = _with_past(state, span, past)
    try:
        for steps, (one, is_there) in enumerate(rows):
            is_over = not span.count_only and (
                len(found) >= limit
                or size_bytes >= PAGE_BYTES_MAX
                or looked_at >= LOOKED_AT_MAX
                or values.read_bytes >= RECORD_BYTES_MAX
            )
            if is_over or (steps and not steps % LOOKS_AT_CLOCK and perf_counter() > until_s):
                if past is not None and not is_over and not count:
                    past.pass_over(one.key)  # the next page would look for all changes again
                    return None
                # The cursor back is behind the key that comes next, as the end of a range is.
                return ended(one.key + b"\0" if span.reverse else one.key)
            if not is_there:
                continue
            looked_at += 1
            entry = entry_of(one.key, one.head)
            if 0 < entry.expires_ms <= clock_ms:
                continue
            count += 1
            if span.count_only:
                continue
            if not span.keys_only:
                entry = _whole(one, values)
            found.append(entry)
            size_bytes += len(one.key) + len(entry.value) + HEAD.size
    except Unfinished as stop:
        return ended(stop.key[1:])
    if past is not None and not span.reverse and past.end != span.end:
        return ended(past.end)
    if past is not None and span.reverse and past.begin != span.begin:
        return ended(past.begin)
    return ended(None)


def _whole(one: _Found, values: Values) -> Entry:
    if one.row is not None:
        return entry_of(one.key, one.row)
    entry = values.entry(one.key, one.head)
    if entry is None:
        raise Compacted(f"the value that {one.key[:40]!r} had then is no longer in the log")
    return entry


def _with_past(state: State, span: Span, past: Past | None) -> Iterator[tuple[_Found, bool]]:
    """Iterate over the entries in order, and whether they are or were there: those that were not
    take time, too. Raises ``Unfinished``."""
    if past is None:
        for one in _present(state, span, span.first_row, span.end_row):
            yield one, True
        return
    end = after_prefix(ENTRY) if past.end is None else ENTRY + past.end
    present = _stopped(_present(state, span, ENTRY + past.begin, end))
    changed = ((_Found(key, head, None), None) for key, head in past.heads())
    merged = heapq.merge(present, changed, key=lambda one: one[0].key, reverse=span.reverse)
    for one, stop in merged:
        if stop is not None:
            raise stop
        yield (
            one,
            one.row is None
            or (
                not past.is_changed(one.key)
                and entry_of(one.key, one.head).modified < past.revision
            ),
        )


def _present(state: State, span: Span, begin: bytes, end: bytes) -> Iterator[_Found]:
    some = state.table.some_back if span.reverse else state.table.some
    if begin < end:
        for key, row in some(begin, end):
            yield _Found(key[1:], row[: HEAD.size], row)


def _stopped(rows: Iterator[_Found]) -> Iterator[tuple[_Found, Unfinished | None]]:
    """Iterate over rows; where they stop for this turn comes last, in its place of the order."""
    try:
        for one in rows:
            yield one, None
    except Unfinished as stop:
        yield _Found(stop.key[1:], b"", b""), stop
