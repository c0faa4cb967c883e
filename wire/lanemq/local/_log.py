"""Loggers whose records show foreign text escaped and cut, whoever handles them.

Any argument of a log message may hold what a peer chose. A filter at each logger replaces the
arguments before a handler sees the record, so no call has to remember it.
"""

import logging
import traceback
from collections import Counter
from collections.abc import Mapping
from time import monotonic
from typing import Final, final

from lanemq.wire import SHOWN_MAX, show_text

TRACEBACK_LINES_MAX: Final = 200
MESSAGE_MAX: Final = 8000
"""Characters of a message that was put together before it was logged."""
LIMIT_PERIOD_S: Final = 60.0
PEER_LINES: Final = 20
"""Lines of a kind for one address in that time."""
KIND_LINES: Final = 200
"""Lines of a kind for all addresses together."""
_INDENT: Final = "    "
_PLAIN: Final = (int, float, type(None))


def get_logger(name: str, *, by_peers: bool = False) -> logging.Logger:
    """Return the logger ``name``; what it logs is in lines that no peer can forge.

    With ``by_peers``, for lines that peers cause as often as they like, it logs ``PEER_LINES`` of a
    kind a minute for one address, and ``KIND_LINES`` for all; it counts the others.
    """
    logger = logging.getLogger(name)
    if by_peers and not any(isinstance(known, _Limit) for known in logger.filters):
        logger.filters.insert(0, _Limit())  # it looks at arguments before they are texts
    if not any(isinstance(known, _ShowForeign) for known in logger.filters):
        logger.addFilter(_ShowForeign())
    return logger


@final
class _Limit(logging.Filter):
    """Lets some records of a kind and an address through in a minute, and counts the others.

    A kind is a line of code that logs. The count is told by the next record that comes through.
    """

    def __init__(self) -> None:
        super().__init__()
        self._until_s = 0.0
        self._lines = Counter[tuple[object, ...]]()
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now_s = monotonic()
        if now_s >= self._until_s:
            self._until_s = now_s + LIMIT_PERIOD_S
            self._lines.clear()
        kind = (record.pathname, record.lineno)
        if self._lines[kind] >= KIND_LINES:
            return self._leave_out()
        peer = (*kind, _host_of(record.args))
        if self._lines[peer] >= PEER_LINES:
            return self._leave_out()
        self._lines[kind] += 1
        self._lines[peer] += 1
        if self._left_out:
            more = f" ({self._left_out} lines of this logger were left out before)"
            record.msg = str(record.msg) + more
            self._left_out = 0
        return True

    def _leave_out(self) -> bool:
        self._left_out += 1
        return False


def _host_of(arguments: object) -> object:
    """Return the address of the first peer, or connection of one, among arguments of a record."""
    for one in arguments if isinstance(arguments, tuple) else ():
        peer = getattr(one, "peer", one)
        host = getattr(peer, "host", None)
        if host is not None:
            return host
    return None


@final
class _ShowForeign(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, Mapping):
            record.args = {name: _shown(value) for name, value in record.args.items()}
        elif record.args:
            record.args = tuple(map(_shown, record.args))
        # With arguments it is lanemq's own, whose % must not be cut.
        record.msg = show_text(str(record.msg), None if record.args else MESSAGE_MAX)
        if record.exc_info and not record.exc_text:
            error = record.exc_info[1]
            record.exc_text = show_traceback(error) if error is not None else None
        return True


def show_traceback(error: BaseException) -> str:
    """Return a traceback whose lines are indented, so that none looks like a line of the log."""
    lines = "".join(traceback.format_exception(error)).rstrip("\n").split("\n")
    if len(lines) > TRACEBACK_LINES_MAX:
        half = TRACEBACK_LINES_MAX // 2
        left_out = len(lines) - 2 * half
        lines = [*lines[:half], f"... {left_out} lines left out", *lines[-half:]]
    return "\n".join(_INDENT + show_text(line) for line in lines)


def _shown(value: object) -> object:
    return value if isinstance(value, _PLAIN) else Shown(value)


@final
class Shown:
    """An argument of a log message: the value, and its text as ``show_text`` gives it."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __str__(self) -> str:
        return show_text(str(self.value))

    def __repr__(self) -> str:
        if isinstance(self.value, str | bytes) and len(self.value) > SHOWN_MAX:
            more = len(self.value) - SHOWN_MAX
            return f"{self.value[:SHOWN_MAX]!r}… ({more} more)"
        return show_text(repr(self.value))

    def __format__(self, form: str) -> str:
        return show_text(format(self.value, form))
