"""The context of a listener's call: stage, group, attempt, queue.

Source: RocketMQ 4.9.8, ConsumeConcurrentlyContext, ConsumeOrderlyContext; proposal RIP-22,
ConsumeStagedConcurrentlyContext.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar, final

import msgspec

from lanemq.wire.bodies import MessageQueue

from .._errors import WrongValue

WANTED: Final = 2  # parameters of a listener that takes a context

F = TypeVar("F", bound=Callable[..., Any])


@final
class Stage(msgspec.Struct, frozen=True):
    """The stage of a queue that messages belong to."""

    index: int
    """Counts from 0; what follows the last stage has the number of stages."""
    size: int | None
    """The number of its messages; None for what follows the last stage."""
    first_number: int
    """The number of the first message at hand, counted in its queue from 0 since the counter was
    reset last."""
    strategy: str | None = None
    """The strategy that the messages belong to; None for a listener that has no strategies."""


@final
class ListenerContext(msgspec.Struct, frozen=True):
    """Circumstances of one call of a listener."""

    group: str
    queue: MessageQueue
    """The queue that all the messages were read from."""
    attempt: int
    """The number of this delivery, from 1; of several messages, the highest."""
    stage: Stage | None
    """The stage of the messages; None but for a staged listener, and for messages by the group's
    retry topic."""


def takes_context(handle: Callable[..., object]) -> bool:
    """Return whether ``handle`` has a second required positional parameter."""
    try:
        parameters = inspect.signature(handle).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = [p for p in parameters if p.kind in positional and p.default is p.empty]
    return len(given) >= WANTED


def check_parameters(handle: Callable[..., object], what: str) -> None:
    """Raise ``WrongValue`` unless ``handle`` can be called as a listener is."""
    try:
        signature = inspect.signature(handle)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return
    given = ("messages", "context")[: WANTED if takes_context(handle) else 1]
    try:
        signature.bind(*given)
    except TypeError as error:
        name = getattr(handle, "__qualname__", repr(handle))
        raise WrongValue(
            f"{what} {name}{signature} cannot be called with (messages) or (messages, context):"
            f" {error}"
        ) from None


def like(handle: Callable[..., object], wrapper: F) -> F:
    """Return ``wrapper`` with the signature of ``handle``, to which it passes its arguments on."""
    if takes_context(handle):
        wrapper.__signature__ = inspect.signature(handle)  # type: ignore[attr-defined] # functions do
    return wrapper
