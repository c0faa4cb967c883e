"""The part of a history that a policy keeps."""

from itertools import islice
from typing import Final

from ._log import KvLog
from ._state import State
from .engines._rows import CHANGE, after_prefix, change_key

SLACK: Final = 10
"""A history is compacted once it has a tenth more than is to be kept: each time is a record."""

TIGHT: Final = 16
"""Memory is tight once less than one part in so many is left."""
HALVED_LEAST: Final = 2000
"""Fewest changes of a history that is halved; watchers may be some behind, however tight memory
is."""


def history_to_keep(
    state: State, log: KvLog, *, now_ms: int, age_ms: int, revisions: int
) -> int | None:
    """Return the revision that the history of a state should begin at; None to leave it as it is.

    The latest ``revisions`` are kept, and those of the latest ``age_ms`` by the log's time, which
    is ``now_ms``; of both, the fewer. 0 is any number. What is older than the log is left to the
    number of changes that a state keeps at most. Raises ``OSError``.
    """
    meta = state.meta
    wanted = meta.changes_from
    if revisions and meta.next - wanted > revisions + max(1, revisions // SLACK):
        wanted = meta.next - revisions
    if age_ms:
        begin, end = log.bounds()
        first, end = max(wanted, begin), min(end, meta.next)
        if first < end and now_ms - log.time_of(first) > age_ms + age_ms // SLACK:
            wanted = _first_since(log, first, end, now_ms - age_ms)
    return wanted if wanted > meta.changes_from else None


def tight_bytes(limit_bytes: int) -> int:
    """Return the bytes beyond which a memory of ``limit_bytes`` is tight."""
    return limit_bytes - limit_bytes // TIGHT


def history_for_room(state: State) -> int | None:
    """Return the revision that the history of a state should begin at where memory is tight: its
    later half is kept; None to leave it as it is, which has few changes."""
    meta = state.meta
    if meta.changes < HALVED_LEAST or meta.deleted:
        return None
    # Not by positions: keep-alives, and writes that were refused, are records without a change.
    begin, end = change_key(meta.changes_from, 0), after_prefix(CHANGE)
    keys = (key for key, _ in state.table.items(begin, end))
    middle = next(islice(keys, meta.changes // 2, None), None)
    wanted = meta.next if middle is None else int.from_bytes(middle[1:9], "big")
    return wanted if wanted > meta.changes_from else None


def _first_since(log: KvLog, first: int, end: int, time_ms: int) -> int:
    """Return the first record from ``first`` on that is not before a time, by halves."""
    while first < end:
        middle = (first + end) // 2
        if log.time_of(middle) < time_ms:
            first = middle + 1
        else:
            end = middle
    return first
