"""The search by halves among numbered things, such as the units of a queue."""

from bisect import bisect_left
from collections.abc import Callable


def first_offset(begin: int, end: int, holds: Callable[[int], bool]) -> int:
    """Return the first offset from ``begin`` on for which it holds; ``end`` if there is none.

    It must hold for all that come behind, or the answer is one at which it begins to hold.
    """
    return bisect_left(range(end), True, begin, end, key=holds)
