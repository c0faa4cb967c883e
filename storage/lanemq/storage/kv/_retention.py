"""The part of a history that a policy keeps."""

from typing import Final

from ._log import KvLog
from ._state import State

SLACK: Final = 10
"""A history is compacted once it has a tenth more than is to be kept: each time is a record."""


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


def _first_since(log: KvLog, first: int, end: int, time_ms: int) -> int:
    """Return the first record from ``first`` on that is not before a time, by halves."""
    while first < end:
        middle = (first + end) // 2
        if log.time_of(middle) < time_ms:
            first = middle + 1
        else:
            end = middle
    return first
