"""The guard of a process's ports: the check of each request by accounts, and who is told of
refusals."""

from collections.abc import Callable

from lanemq.wire import Refused
from lanemq.wire.frame import Frame

from ..net._dispatch import Guard
from ..net._session import Session
from ..net._turns import Steps
from ._control import AccessControl


def guard_by(control: AccessControl, refused: Callable[[Frame, Session], None]) -> Guard:
    """Return the check of requests by accounts; ``refused`` is told of each that is not let in."""

    def check(frame: Frame, session: Session) -> Steps[None] | None:
        try:
            steps = control.check(frame, session)
        except Refused:
            refused(frame, session)
            raise
        return None if steps is None else told(steps, frame, session)

    def told(steps: Steps[None], frame: Frame, session: Session) -> Steps[None]:
        try:
            yield from steps
        except Refused:
            refused(frame, session)
            raise

    return check
