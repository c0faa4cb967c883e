"""Hooks that observe each call of a listener.

Source: RocketMQ 4.9.8, ConsumeMessageHook, ConsumeMessageContext.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import trio

from .._messages import Outcome, ReceivedMessage, Retry, is_success
from ..listeners._listener import Handle
from ..listeners._listener_context import like
from ._send_hooks import call_hook


@final
@dataclass(slots=True)
class Consumption:
    """A call of a listener."""

    group: str
    """The consumers' group."""
    messages: Sequence[ReceivedMessage]
    """The messages that the listener was given."""
    started_ms: int
    """Milliseconds since 1970."""
    cost_ms: int = 0
    """Milliseconds until the listener returned."""
    outcome: Outcome | Retry | None = None
    """Its result, for ``after``; None means success."""
    error: BaseException | None = None
    """Its exception, for ``after``; a cancellation if it took too long, or the consumer ends."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Place for hooks to leave something from ``before`` to ``after``."""

    @property
    def succeeded(self) -> bool:
        """True if the messages are settled, as far as the listener is concerned."""
        return self.error is None and is_success(self.outcome)


ConsumeWatch = Callable[[Consumption], Awaitable[None] | None]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeHook:
    """Functions called before and after each call of a listener, plain or async.

    They watch: what they raise is logged and changes nothing. ``after`` is called whatever
    happened; when that was a cancellation, an async one ends where it waits.
    """

    before: ConsumeWatch | None = None
    after: ConsumeWatch | None = None


def hooked(
    handle: Handle, group: str, hooks: Sequence[ConsumeHook], clock_ms: Callable[[], int]
) -> Handle:
    """Wrap ``handle`` with ``hooks`` around it."""

    async def handle_with_hooks(
        messages: Sequence[ReceivedMessage], *context: object
    ) -> Outcome | Retry | None:
        event, began_s = Consumption(group, messages, clock_ms()), trio.current_time()
        for hook in hooks:
            if hook.before is not None:
                await call_hook(hook.before, event)
        try:
            event.outcome = await handle(messages, *context)
        except BaseException as error:
            event.error = error
            raise
        finally:
            event.cost_ms = round((trio.current_time() - began_s) * 1000)
            for hook in hooks:
                if hook.after is not None:
                    await call_hook(hook.after, event)
        return event.outcome

    return like(handle, handle_with_hooks)
