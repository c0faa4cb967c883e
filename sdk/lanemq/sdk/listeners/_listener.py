"""The listener for messages whose order does not matter.

Source: RocketMQ 4.9.8, MessageListenerConcurrently.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .._messages import Outcome, Retry
from .._values import check_fields

Handle = Callable[..., Awaitable[Outcome | Retry | None]]
"""An application's listener, of (messages) or of (messages, context), a sequence of
``ReceivedMessage`` and a ``ListenerContext``; raising means ``Outcome.RETRY``."""


@dataclass(frozen=True, slots=True)
class ConcurrentListener:
    """A listener for which the order of messages does not matter.

    ``handle`` is awaited with up to ``batch_messages`` messages of one queue, in up to
    ``concurrency`` tasks at once. Returning None or ``Outcome.SUCCESS`` settles them;
    ``Outcome.RETRY``, or any exception, has all of them delivered again later; a ``Retry`` says
    when, and which are settled. With a second parameter ``handle`` is given a
    ``ListenerContext`` too.
    """

    handle: Handle
    concurrency: int = 20
    batch_messages: int = 1

    def __post_init__(self) -> None:
        check_fields(self)
        if self.concurrency < 1 or self.batch_messages < 1:
            raise ValueError("concurrency and batch_messages must be at least 1")
