"""Return of messages that a lite pull consumer handed out and its caller did not get.

The caller was interrupted, or its task cancelled, while they were on their way to it.
"""

from collections.abc import Callable
from contextlib import suppress

from .._errors import WrongUse
from .._lite_pull import LitePullConsumer
from .._messages import ReceivedMessage
from ..consumer._lent import Lent


def give_back(consumer: LitePullConsumer) -> Callable[[list[ReceivedMessage]], None]:
    """Return a function that takes messages of one queue; the next poll returns them again."""

    def give(messages: list[ReceivedMessage]) -> None:
        if messages:
            with suppress(WrongUse):  # the queue is another consumer's now, which starts there
                consumer.seek(messages[0].queue, messages[0].queue_offset)

    return give


def give_back_lent(consumer: LitePullConsumer) -> Callable[[Lent], None]:
    """Return a function that takes a loan which its iteration never saw.

    The next iteration begins with the same messages.
    """

    def give(lent: Lent) -> None:
        if consumer._buffer.lent is lent:
            consumer._buffer.reclaim()

    return give
