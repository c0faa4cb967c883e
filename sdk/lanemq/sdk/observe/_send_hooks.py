"""Hooks that observe each send.

Source: RocketMQ 4.9.8, SendMessageHook, SendMessageContext.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar, final

from lanemq.wire.bodies import MessageQueue

from .._messages import Message, SendResult
from ._log import get_logger

LOGGER = get_logger("lanemq.sdk.hooks")

Event = TypeVar("Event")


class SendKind(Enum):
    """The kind of a send, by the number that message traces have for it."""

    NORMAL = 0
    HALF = 1
    """The message of a transaction that is not decided yet."""
    DELAYED = 3


@final
@dataclass(slots=True)
class SendAttempt:
    """An attempt to send; a repeated send has one of these each time."""

    group: str
    """The producer's group."""
    messages: tuple[Message, ...]
    """The messages that are sent: more than one in a batch."""
    message_ids: tuple[str, ...]
    """The unique keys of the messages."""
    kind: SendKind
    queue: MessageQueue
    """The queue they go to."""
    address: str
    """The broker's address."""
    started_ms: int
    """Milliseconds since 1970."""
    oneway: bool = False
    """True if no answer is awaited; ``result`` stays None."""
    cost_ms: int = 0
    """Milliseconds until the outcome."""
    result: SendResult | None = None
    """The broker's answer, for ``after``."""
    error: BaseException | None = None
    """The error, for ``after``; may be a cancellation."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Place for hooks to leave something from ``before`` to ``after``."""
    began_s: float = field(default=0.0, repr=False)
    """The start by trio's clock, which is never set: ``cost_ms`` counts from it."""


SendWatch = Callable[[SendAttempt], Awaitable[None] | None]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SendHook:
    """Functions called before and after each attempt to send, plain or async.

    They watch: what they raise is logged and changes nothing. ``after`` is called whatever
    happened to the attempt; when that was a cancellation, an async one ends where it waits.
    """

    before: SendWatch | None = None
    after: SendWatch | None = None


async def call_before(hooks: Sequence[SendHook], attempt: SendAttempt) -> None:
    """Call the hooks that come before ``attempt``."""
    for hook in hooks:
        if hook.before is not None:
            await call_hook(hook.before, attempt)


async def call_after(hooks: Sequence[SendHook], attempt: SendAttempt) -> None:
    """Call the hooks that come after ``attempt``."""
    for hook in hooks:
        if hook.after is not None:
            await call_hook(hook.after, attempt)


async def call_hook(watch: Callable[[Event], Awaitable[None] | None], event: Event) -> None:
    """Call a hook, plain or async; what it raises is logged."""
    try:
        pending = watch(event)
        if inspect.isawaitable(pending):
            await pending
    except Exception:  # the application's own
        LOGGER.exception("a hook failed")
