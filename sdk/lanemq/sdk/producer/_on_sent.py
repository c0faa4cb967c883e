"""An application's ``on_sent``, which hears what became of each posted message."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias, final

from .._errors import LanemqError
from .._messages import Message, SendResult

OnSent: TypeAlias = Callable[[Message, SendResult | LanemqError], None]
"""Called with each posted message and what became of it; it does not wait."""


@final
@dataclass(frozen=True, slots=True)
class ForwardedOnSent:
    """An ``on_sent`` that runs outside of the core."""

    call: Callable[[Message, SendResult | LanemqError, Callable[[], object]], None]
    """Has it called, and does not wait for that; when it has returned, calls the last argument."""
    wait: Callable[[], Awaitable[None]]
    """Waits until every call so far has returned."""

    def __call__(
        self,
        message: Message,
        outcome: SendResult | LanemqError,
        returned: Callable[[], object] = lambda: None,
    ) -> None:
        self.call(message, outcome, returned)


in_on_sent: ContextVar[bool] = ContextVar("in_on_sent", default=False)
"""True within a forwarded ``on_sent``: what it posts waits for no other call of one."""
