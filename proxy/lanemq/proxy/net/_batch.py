"""The answers to one read of a connection, from its handlers until they may leave."""

from collections.abc import Awaitable, Callable, Sequence
from typing import final

from lanemq.local import get_logger
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import Frame, encode_frame

from ._answers import Encoded, Late, drop
from ._dispatch import failure
from ._session import Session

LOGGER = get_logger("lanemq.proxy.connection", by_peers=True)


@final
class Batch:
    """The answers to one read."""

    __slots__ = ("_session", "answered", "has_stored", "replies", "steps", "waiting")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.replies: list[Encoded] = []
        self.answered: list[Frame] = []
        """The requests of ``replies``."""
        self.waiting: list[tuple[Awaitable[Late], Frame]] = []
        """Handlers that wait, and their requests."""
        self.has_stored = False
        """True if a reply is partly in the log."""
        self.steps: Sequence[Callable[[], Awaitable[None]]] = ()
        """The waits that come before the replies."""

    async def steps_done(self) -> None:
        """Await ``steps``; if one fails, all is refused."""
        try:
            for step in self.steps:
                await step()
        except Exception as error:
            self.refuse(error)
        except BaseException:  # nobody is left to answer
            self._drop()
            raise

    def refuse(self, error: Exception) -> None:
        """Put the same refusal in place of all answers: no effect of the read may count as done."""
        if not isinstance(error, Refused):
            LOGGER.error("a batch of %s could not be completed", self._session.peer, exc_info=error)
            remark = "the server failed to complete its answers; its log says why"
            error = Refused(ResponseCode.SYSTEM_ERROR, remark)
        self.answered += [request for _, request in self.waiting if not request.is_oneway]
        self._drop()
        self.has_stored = False
        self.replies = [
            encode_frame(failure(request, self._session, error)) for request in self.answered
        ]

    def _drop(self) -> None:
        for awaitable, _ in self.waiting:
            drop(awaitable)
        self.waiting = []
