"""Checks of the listener that a blocking consumer is given."""

import inspect

from .._errors import WrongUse
from ..opening._mistakes import LISTENERS, NAMES
from ._callables import check_plain
from ._listeners import ConcurrentListener, OrderlyListener, StagedConcurrentListener

Listener = ConcurrentListener | OrderlyListener | StagedConcurrentListener


def as_listener(listener: object) -> Listener:
    """The listener; a plain function stands for a ``ConcurrentListener`` of it.

    Raises ``WrongUse`` for a listener of another face, and for what is none.
    """
    if isinstance(listener, ConcurrentListener | OrderlyListener | StagedConcurrentListener):
        return listener
    if isinstance(listener, LISTENERS):
        name = type(listener).__name__
        raise WrongUse(
            f"this {name} is that of lanemq.sdk, for coroutine functions: write"
            f" `from lanemq.sdk.blocking import {name}`"
        )
    if inspect.isroutine(listener):
        check_plain(listener, "the listener")
        return ConcurrentListener(listener)
    raise WrongUse(f"listener must be one of {NAMES}, or a function, not {listener!r}")
