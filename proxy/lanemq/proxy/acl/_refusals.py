"""Refused requests, counted and logged."""

from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.wire import ACCESS_KEY_FIELD
from lanemq.wire.frame import Frame

from ..net._session import Session

LOGGER = get_logger("lanemq.proxy.acl", by_peers=True)

PERIOD_S: Final = 10.0
"""Seconds in which at most ``LINES_MAX`` refusals are logged."""
LINES_MAX: Final = 10
_KEY_CHARACTERS_SHOWN: Final = 64


@final
class Refusals:
    """The refusals since the start."""

    def __init__(self) -> None:
        self.count = 0
        self._period_until_s = 0.0
        self._lines = 0
        self._untold = 0

    def add(self, frame: Frame, session: Session, why: str) -> None:
        """Count a refusal, and log it, but not each of thousands."""
        self.count += 1
        now_s = trio.current_time()
        if now_s >= self._period_until_s:
            self._period_until_s, self._lines = now_s + PERIOD_S, 0
        if self._lines == LINES_MAX:
            self._untold += 1
            return
        self._lines += 1
        untold, self._untold = self._untold, 0
        LOGGER.warning(
            "request %d from %s with access key %r refused: %s%s",
            frame.code,
            session.peer,
            frame.fields.get(ACCESS_KEY_FIELD, "")[:_KEY_CHARACTERS_SHOWN],
            _shown(why),
            f" ({untold} more were refused since the line before)" if untold else "",
        )


def _shown(why: str) -> str:
    """Return a text for the log: without line breaks, which a peer may have put into a name."""
    return why[: _KEY_CHARACTERS_SHOWN * 4].encode("unicode_escape").decode()
