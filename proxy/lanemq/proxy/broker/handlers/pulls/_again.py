"""The parts of parked pulls: they are many and wait long, so the collector knows of none."""

from typing import Protocol, final

import msgspec

from lanemq.wire.frame import Frame

from ....net._session import Session
from ....sessions.values._pull_request import PullRequest
from ....sessions.values._results import Pulled
from ._parked import Parked


class Reading(Protocol):
    """The pulls of a broker."""

    def read_now(self, asked: PullRequest, session: Session, *, may_park: bool) -> Pulled | Parked:
        """Answer a pull."""


@final
class Again(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Reads once more, without parking."""

    pulls: Reading
    asked: PullRequest
    session: Session

    def __call__(self) -> Pulled | Parked:
        return self.pulls.read_now(self.asked, self.session, may_park=False)


@final
class Answering(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Sends the late answer to the request of a parked pull."""

    session: Session
    frame: Frame

    def __call__(self, result: Pulled | Exception) -> None:
        self.session.answer(self.frame, result)
