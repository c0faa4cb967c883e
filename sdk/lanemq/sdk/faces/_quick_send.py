"""Sends of callers outside of the core that need no task of it."""

from contextvars import copy_context
from functools import partial
from typing import final

from .._errors import ClientClosed
from .._messages import SendResult
from ..producer._first_attempt import FirstAttempt
from ._portal import Portal
from ._portal_calls import Call, Caller


@final
class QuickSend:
    """A send whose first attempt its caller makes; a task of the core continues what fails."""

    __slots__ = ("_attempt", "_caller", "_context", "_over", "_portal", "_rest")

    def __init__(self, portal: Portal, attempt: FirstAttempt, caller: Caller[SendResult]) -> None:
        self._portal = portal
        self._attempt = attempt
        self._caller = caller
        self._context = copy_context()
        self._rest: Call[SendResult] | None = None
        self._over = False

    def submit(self) -> bool:
        """Send the request; return False if nothing was sent. Raises ``ClientClosed``."""
        return self._attempt.submit(self._answered, self._portal.post)

    # The core's thread

    def _answered(self, answer: object) -> None:
        attempt = self._attempt
        attempt.answer = answer
        if attempt.is_stored:
            try:
                result = attempt.result()
            except Exception:  # raised again where another attempt may follow
                attempt.answer = answer
            else:
                self._over = True
                self._caller.deliver(result, None)
                return
        self._rest = Call(
            self._portal, partial(attempt.resume, attempt), self._caller, self._context
        )
        self._rest.start()

    def cancel(self) -> None:
        """Give up the send: the caller no longer wants the outcome; there will be one."""
        if self._rest is not None:
            self._rest.cancel()
        elif not self._over:
            self._over = True
            self._attempt.forget()
            self._caller.deliver(None, ClientClosed("client"))
