"""Functions that an application gives to a blocking client: plain ones, run in threads."""

import inspect
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.message import StageRecord

from .._errors import WrongUse
from .._messages import Message, Outcome, ReceivedMessage, Retry
from .._transactions import TransactionState
from ..consumer.ordered._stage_stores import (
    BrokerStageOffsets,
    LocalStageOffsets,
    MemoryStageOffsets,
)
from ..kv import KvOffsetStore

Handle = Callable[..., Outcome | Retry | None]
"""An application's listener, of (messages) or of (messages, context), run in a thread of its own;
raising means ``Outcome.RETRY``."""

Execute = Callable[[Message, str], TransactionState]
"""Does the local transaction of a message whose half is stored: (message, transaction id). Runs in
the thread that called ``send_in_transaction``."""

Check = Callable[[ReceivedMessage], TransactionState]
"""Says what became of the local transaction of a message; ``message_id`` is its id. Runs in a
thread of its own."""


class PlainStageOffsets(Protocol):
    """Keeps one record for each queue, and one for each of its strategies, if there are any.

    Both methods raise ``LanemqError`` when they cannot.
    """

    def load(self, queue: MessageQueue, strategy: str = "") -> StageRecord | None:
        """Return the record that was saved last, or None if none was."""

    def save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> None:
        """Keep ``record``; it lasts on return."""


StageOffsetStore: TypeAlias = (
    PlainStageOffsets | BrokerStageOffsets | KvOffsetStore | LocalStageOffsets | MemoryStageOffsets
)
"""The store of a staged consumer's progress: one of this package's, or an application's."""


def check_plain(function: Callable[..., object], what: str) -> None:
    """Raise ``WrongUse`` for a coroutine function, which would not be awaited."""
    if inspect.iscoroutinefunction(function):
        raise WrongUse(f"{what} is an async function; lanemq.sdk.blocking takes plain ones")


async def no_handle(messages: Sequence[ReceivedMessage]) -> None:
    """Do nothing: stand for a handle where only the rest of a listener is checked."""
