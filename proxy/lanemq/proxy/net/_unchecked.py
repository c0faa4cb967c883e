"""A request that names very much: it is checked in turns of the loop, before anything more of its
peer is handled, so that its requests are done in their order."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, final

from lanemq.wire.frame import Frame

from ._answers import Late
from ._loop_watch import Timed, loop_watch
from ._session import Session
from ._turns import Steps, step_by_step

_REQUEST_BYTES: Final = 1024
"""Bytes charged beside a request's body and its ext fields."""


@final
class Unchecked:
    """The request ``frame`` of a connection, whose check is left to be done."""

    __slots__ = ("_handler", "_refusal", "_session", "_steps", "frame")

    def __init__(
        self,
        frame: Frame,
        session: Session,
        steps: Steps[None],
        handler: Callable[[Frame, Session], Late | Awaitable[Late]],
    ) -> None:
        self.frame = frame
        self._session = session
        self._steps = steps
        self._handler = handler
        self._refusal: Exception | None = None

    def __await__(self) -> Generator[Any, Any, None]:
        """Check the request, in turns that have time for it."""
        return self._check().__await__()

    async def _check(self) -> None:
        size_bytes = _REQUEST_BYTES + self.frame.kept_bytes
        account = self._session.account
        account.add(size_bytes)
        try:
            await Timed(step_by_step(self._steps), loop_watch(), self, owner=self._session)
        except Exception as error:  # its refusal, or a bug: either is the answer
            self._refusal = error
        finally:
            account.add(-size_bytes)

    def handle(self, frame: Frame, session: Session) -> Late | Awaitable[Late]:
        """Handle the request, once it is checked; raises what its check has raised."""
        if self._refusal is not None:
            raise self._refusal
        return self._handler(frame, session)

    def __str__(self) -> str:
        return f"the check of request {self.frame.code} of {self._session.peer}"
