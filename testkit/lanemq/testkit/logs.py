"""Logs of servers under test: every line, however many there are."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final
from unittest.mock import patch

from lanemq.local import _log

_MINUTES: Final = count(1 << 40, 2 * int(_log.LIMIT_PERIOD_S))


@contextmanager
def every_line_logged() -> Iterator[None]:
    """Let each line that a peer causes begin a minute of its own, so that none is left out."""
    with patch.object(_log, "monotonic", lambda: next(_MINUTES)):
        yield


@contextmanager
def one_minute_logged() -> Iterator[None]:
    """Let time stand still, in a minute that has just begun: lines beyond its share are counted."""
    now_s = next(_MINUTES)
    with patch.object(_log, "monotonic", lambda: now_s):
        yield
