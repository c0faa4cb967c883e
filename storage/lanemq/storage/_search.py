"""The search by halves among numbered things, such as the units of a queue."""

from bisect import bisect_left
from collections.abc import Callable


def first_offset(begin: int, end: int, holds: Callable[[int], bool]) -> int:
    """Return the first offset from ``begin`` on for which ``holds`` is true; ``end`` without any.

    It must be true for all that follow, else the result is some offset where it becomes true.
    """
    return bisect_left(range(end), True, begin, end, key=holds)


def first_kept(
    log_position: int,
    low: int,
    end: int,
    row_from: Callable[[int, int], tuple[int, int] | None],
) -> int:
    """Return the offset of the first message at or behind ``log_position``, from ``low`` on; else
    ``end``.

    ``row_from`` returns offset and position of the first row from an offset on; None without one,
    and perhaps where there is none before a second offset, so that it need not look further. So
    rows that are missing or blank, at the begin of a queue or of messages that were damaged, tell
    nothing about those around them.
    """
    high = end
    while low < high:
        middle = (low + high) // 2
        found = row_from(middle, high)
        if found is None or found[1] >= log_position:
            high = middle
        else:
            low = found[0] + 1
    first = row_from(low, end)
    return min(first[0], end) if first is not None else end
