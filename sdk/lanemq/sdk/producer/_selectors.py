"""Selectors of the queue that a message goes to, where that is not left to turns.

Source: RocketMQ 4.9.8, MessageQueueSelector, SelectMessageQueueByHash, SelectMessageQueueByRandom.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

from lanemq.wire import java_hash
from lanemq.wire.bodies import MessageQueue

from .._errors import InvalidName, WrongUse
from .._messages import Message

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses one of a topic's queues, sorted by broker and id, for the message."""

Target = MessageQueue | QueueSelector
"""The way to the queue: the queue itself, or a chooser."""

Select = Callable[[Sequence[MessageQueue]], MessageQueue]
"""Chooses one of the queues of a topic for a message that it knows."""

INT_BITS: Final = 32
LONG_BITS: Final = 64


@final
@dataclass(frozen=True, slots=True)
class HashSelector:
    """Sends all messages of one key to one queue, so that they keep their order.

    A key goes to the queue a Java producer with ``SelectMessageQueueByHash`` would choose: texts
    hash as ``String``, numbers as ``Integer``, or as ``Long`` where they need one. When the
    number of queues changes, keys move.
    """

    key: str | int

    def __post_init__(self) -> None:
        if isinstance(self.key, int) and not -(1 << 63) <= self.key < 1 << 63:
            raise ValueError(f"the queue key {self.key} does not fit 64 bits; make it a text")

    def __call__(self, queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return queues[abs(_java_hash_code(self.key)) % len(queues)]


def _java_hash_code(key: str | int) -> int:
    """Return ``Object.hashCode`` of the Java value that ``key`` is: signed 32 bits."""
    if isinstance(key, str):
        return java_hash(key)
    if -(1 << 31) <= key < 1 << 31:
        return key
    bits = key & (1 << LONG_BITS) - 1
    folded = (bits ^ bits >> INT_BITS) & (1 << INT_BITS) - 1
    return folded - (1 << INT_BITS) if folded >> INT_BITS - 1 else folded


def select_randomly(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """Choose any queue, each as likely as the next; a `QueueSelector`."""
    return random.choice(queues)


def target_of(
    queue: Target | None, queue_key: str | int | None, message: Message
) -> MessageQueue | Select | None:
    """Return the target that a caller of the producer asked for, in the form that its sender takes.

    Raises ``WrongUse`` or ``InvalidName`` where it makes no sense; so does the selection.
    """
    if queue_key is not None:
        if queue is not None:
            raise WrongUse("give `queue` or `queue_key`, not both")
        queue = HashSelector(queue_key)
    if queue is None:
        return None
    if isinstance(queue, MessageQueue):
        if queue.topic != message.topic:
            raise InvalidName(
                f"the queue belongs to topic {queue.topic}, the message to {message.topic}"
            )
        return queue
    selector = queue

    def select(queues: Sequence[MessageQueue]) -> MessageQueue:
        chosen = selector(queues, message)
        if chosen not in queues:
            raise WrongUse(f"{selector!r} chose {chosen!r}, which is not one of the queues given")
        return chosen

    return select
