"""A broker's frame for one client that takes several turns of the loop."""

from typing import final

import trio

from lanemq.wire.frame import Frame

from ..net._loop_watch import Timed, loop_watch
from ..net._session import Session
from ._answers import SeenAnswers


@final
class LongFrame:
    """The frame that is not passed on yet, if there is one."""

    def __init__(self, answers: SeenAnswers, session: Session, name: str) -> None:
        """``name`` is the broker's, for the log."""
        self._answers, self._session = answers, session
        self._who = f"a long frame of {name} for {session.peer}"
        self._waiting: tuple[int | None, Frame] | None = None

    def __bool__(self) -> bool:
        return self._waiting is not None

    @property
    def kept_bytes(self) -> int:
        """The bytes that it takes: it is there twice while it is made."""
        return 0 if self._waiting is None else 2 * self._waiting[1].kept_bytes

    def takes(self, code: int | None, frame: Frame) -> bool:
        """Take a frame if it is a long one; ``code`` is as in ``SeenAnswers.is_long``."""
        if not self._answers.is_long(code, frame):
            return False
        self._waiting = code, frame
        return True

    async def make(self) -> list[Frame]:
        """Make the frame, and forget it; none, a turn later, where there is none or it was given up
        meanwhile."""
        if self._waiting is None:
            await trio.lowlevel.checkpoint()
            return []
        making = self._answers.long_frame(*self._waiting)
        made = await Timed(making, loop_watch(), self._who, owner=self._session)
        if not self:
            return []
        self._waiting = None
        return [made]

    def give_up(self) -> None:
        """Forget it."""
        self._waiting = None
