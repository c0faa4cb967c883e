"""Checks of what is given to ``open_…`` functions; each error says what to write instead."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from .._errors import InvalidName, WrongUse
from ..consumer._broker_requests import Listener
from ..consumer._expressions import Sql
from ..listeners._listener import ConcurrentListener
from ..listeners._listener_context import check_parameters
from ..listeners._ordered_listeners import (
    KeyOrderedListener,
    OrderlyListener,
    StagedConcurrentListener,
)

LISTENERS: Final = (
    ConcurrentListener,
    OrderlyListener,
    KeyOrderedListener,
    StagedConcurrentListener,
)
NAMES: Final = ", ".join(kind.__name__ for kind in LISTENERS)


def check_subscriptions(subscriptions: object) -> None:
    """Raise ``WrongUse`` or ``InvalidName`` for anything but topics with their subscriptions."""
    if not isinstance(subscriptions, Mapping):
        raise WrongUse(
            f"subscriptions must map topics to expressions, as {{'Orders': '*'}}, and"
            f" {subscriptions!r} does not"
        )
    if not subscriptions:
        raise InvalidName("a consumer needs at least one subscription, as {'my-topic': '*'}")
    for topic, expression in subscriptions.items():
        if not isinstance(expression, str | Sql):
            raise WrongUse(
                f"the subscription of {topic!r} must be tags, as 'A || B' or '*', or a Sql(…),"
                f" not {expression!r}"
            )


def as_listener(listener: object) -> Listener:
    """Return the listener; a plain function becomes a ``ConcurrentListener``.

    Raises ``WrongUse`` for what cannot be awaited.
    """
    if isinstance(listener, LISTENERS):
        check_awaitable(listener.handle, "the listener")
        check_parameters(listener.handle, "the listener")
        return listener
    if inspect.isroutine(listener):
        check_awaitable(listener, "the listener")
        check_parameters(listener, "the listener")
        return ConcurrentListener(listener)
    kind = type(listener)
    if kind.__module__.startswith("lanemq.sdk.blocking"):
        raise WrongUse(
            f"this {kind.__name__} is that of lanemq.sdk.blocking, for plain functions: write"
            f" `from lanemq.sdk import {kind.__name__}`, and `async def`"
        )
    raise WrongUse(f"listener must be one of {NAMES}, or a function, not {listener!r}")


def check_awaitable(function: Callable[..., Any], what: str) -> None:
    """Raise ``WrongUse`` for a plain function, whose result cannot be awaited.

    Functions without a name, and those that say they return something to be awaited, are
    taken at their word.
    """
    inner = inspect.unwrap(function)
    if not (inspect.isfunction(inner) or inspect.ismethod(inner)):
        return
    if inspect.iscoroutinefunction(inner) or inner.__name__ == "<lambda>":
        return
    returns = str(inner.__annotations__.get("return", ""))
    if any(word in returns for word in ("Awaitable", "Coroutine", "Any")):
        return
    raise WrongUse(
        f"{what} {inner.__qualname__!r} is a plain function: write `async def` (and run what blocks"
        " by trio.to_thread.run_sync or asyncio.to_thread), or use lanemq.sdk.blocking, which"
        " runs them in threads"
    )
