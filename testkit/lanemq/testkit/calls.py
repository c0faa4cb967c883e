"""Work counted in calls, which are the same on every machine; seconds are not."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Calls:
    """A count of calls of Python functions and of C functions."""

    def __init__(self) -> None:
        self.count = 0

    def _note(self, _frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            self.count += 1


@contextmanager
def calls_of_this_thread() -> Iterator[Calls]:
    """Count what the calling thread calls within the block; other threads do not count."""
    calls = Calls()
    before = sys.getprofile()
    sys.setprofile(calls._note)
    try:
        yield calls
    finally:
        sys.setprofile(before)
