"""The share of a turn of the loop in which records are applied."""

from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Final, TypeVar

TURN_S: Final = 0.004
"""Seconds after which no further record is applied in a turn, by ``perf_counter``. To write the
rows of these records may take twice as long again."""
LONG_BYTES: Final = 64 << 10
"""A record of more is applied in a turn of its own: to check it and to write it to the log takes
about as long."""

_T = TypeVar("_T")


def taken(until_s: float, waiting: deque[_T], is_enough: Callable[[], bool] = bool) -> Iterator[_T]:
    """Take from the left, once at least, until it is later than ``until_s``, or enough."""
    while waiting:
        yield waiting.popleft()
        if perf_counter() > until_s or is_enough():
            break
