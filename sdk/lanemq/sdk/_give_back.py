"""What becomes of messages that a lite pull consumer handed out and nobody got.

The caller was interrupted, or its task cancelled, while they were on their way to it.
"""

from collections.abc import Callable
from contextlib import suppress

from ._errors import WrongUse
from ._lite_pull import LitePullConsumer
from ._messages import ReceivedMessage


def give_back(consumer: LitePullConsumer) -> Callable[[list[ReceivedMessage]], None]:
    """Takes messages of one queue; the next poll returns them again."""

    def give(messages: list[ReceivedMessage]) -> None:
        if messages:
            with suppress(WrongUse):  # the queue is another consumer's now, which starts there
                consumer.seek(messages[0].queue, messages[0].queue_offset)

    return give


def give_one_back(consumer: LitePullConsumer) -> Callable[[ReceivedMessage], None]:
    """The same for what iteration gave."""
    give = give_back(consumer)
    return lambda message: give([message])
