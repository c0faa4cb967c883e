"""Reading many records at once: those that lie together in the log are one read."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, final

from lanemq.wire.message import record_content

from .._layouts import BLANK_SIZE, EXT_ADDRESS_MAX
from ..log._commit_log import CommitLog
from ._plain import Content, plain_content

RUN_BYTES: Final = 1 << 20
"""Bytes of one read at most, but for a record that is longer."""
GAP_BYTES: Final = 4096
"""Bytes of other records that are read along."""


def read_runs(
    log: CommitLog,
    places: Sequence[tuple[int, int]],
    record_at: Callable[[int], bytes | None],
) -> list[Content | None]:
    """Return the content of the record at each place (position, size).

    What is not plainly a whole record is read again by ``record_at``, whose word it is whether
    there is one.
    """
    found: list[Content | None] = []
    data, begin, first = b"", 0, log.min_position
    for number, (position, size_bytes) in enumerate(places):
        at = position - begin
        if not 0 <= at <= len(data) - size_bytes:
            data, begin, at = _run(log, places, number), position, 0
        content = plain_content(data, at, position, size_bytes) if 0 <= first <= position else None
        if content is None:
            record = record_at(position)
            content = record_content(record) if record is not None else None
        found.append(content)
    return found


def _run(log: CommitLog, places: Sequence[tuple[int, int]], first: int) -> bytes:
    """Read the log from a place on, up to the end of the last one that lies close behind."""
    begin, size_bytes = places[first]
    following = islice(places, first + 1, None)
    return log.read(begin, _run_bytes(begin, size_bytes, following, RUN_BYTES)) or b""


def _run_bytes(
    begin: int, size_bytes: int, following: Iterable[tuple[int, int]], bytes_max: int
) -> int:
    """Return the bytes from a record on to the end of the last one that lies close behind."""
    end = begin + size_bytes
    for position, size in following:
        if not end <= position <= end + GAP_BYTES or position + size > begin + bytes_max:
            break
        end = position + size
    return end - begin


def read_close(
    log: CommitLog, units: Sequence[tuple[int, int, int]], count_max: int, bytes_max: int
) -> list[bytes] | None:
    """Return the records of units of a queue that lie close to one another, in one read.

    It has those that fit, at least the first. None where one of them is blank, gone or further
    away: each has to be looked at then.
    """
    begin = end = units[0][0]
    total, spans = 0, list[tuple[int, int]]()
    for position, size_bytes, _ in units:
        if spans and (len(spans) >= count_max or total + size_bytes > bytes_max):
            break
        if not end <= position <= end + GAP_BYTES or not 0 < size_bytes < BLANK_SIZE:
            return None
        end = position + size_bytes
        total += size_bytes
        spans.append((position - begin, end - begin))
    data = log.read(begin, end - begin)
    return None if data is None else [data[at:until] for at, until in spans]


@final
class QueueRuns:
    """The records of some units of a queue, for a reader that asks for them in their order.

    Of a unit that is asked for, records are read along that lie close behind it and that the
    reader may want: by their tags (None: all), ``count_max`` at most, in ``bytes_max`` bytes.
    """

    __slots__ = (
        *("_begin", "_bytes_max", "_count_max", "_data", "_log", "_next", "_tag_codes", "_units"),
    )

    def __init__(
        self,
        log: CommitLog,
        units: Sequence[tuple[int, ...]],
        tag_codes: frozenset[int] | None,
        count_max: int,
        bytes_max: int,
    ) -> None:
        self._log = log
        self._units = units
        self._tag_codes = tag_codes
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._next = 0
        self._begin = 0
        self._data = b""

    def read(self, position: int, size_bytes: int) -> bytes | None:
        """Return the bytes of a unit's record; None where the log no longer has them."""
        if size_bytes <= 0:  # a damaged unit
            return None
        at = position - self._begin
        if not 0 <= at <= len(self._data) - size_bytes:
            self._begin, self._data, at = position, self._read_along(position, size_bytes), 0
        return self._data[at : at + size_bytes] or None

    def _read_along(self, position: int, size_bytes: int) -> bytes:
        units, number = self._units, self._next
        while units[number][0] != position:
            number += 1
        self._next = number + 1
        wanted = self._tag_codes
        following = (
            (unit[0], unit[1])
            for unit in islice(units, number + 1, None)
            if 0 < unit[1] < BLANK_SIZE
            and (wanted is None or unit[2] in wanted or unit[2] <= EXT_ADDRESS_MAX)
        )
        along = _run_bytes(
            position, size_bytes, islice(following, self._count_max - 1), self._bytes_max
        )
        data = self._log.read(position, along)
        if data is None and along > size_bytes:
            data = self._log.read(position, size_bytes)
        return data or b""
