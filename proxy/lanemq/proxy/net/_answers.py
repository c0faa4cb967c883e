"""The answers of handlers: values, of which only a server's edge makes bytes."""

import inspect
from collections.abc import Callable
from typing import TypeVar

import msgspec

from lanemq.wire.frame import Frame

from ._stored_reply import StoredReply

_OutcomeT = TypeVar("_OutcomeT")


class Result(msgspec.Struct, frozen=True, gc=False):
    """The base of typed results of handlers; each class of them has an encoder at the edge."""


Answer = Frame | Result
"""A handler's answer. A frame is the typed result of what is asked rarely; there are no bytes."""

Encoded = bytes | StoredReply
"""An answer on its way out; what has a large record may leave that in the log."""


def committed(outcome: _OutcomeT, commit: Callable[[], None]) -> _OutcomeT:
    """Return the outcome of a handler once ``commit`` has written what it stored.

    Raises as ``commit``; then nobody waits for the outcome, which is dropped.
    """
    try:
        commit()
    except BaseException:
        drop(outcome)
        raise
    return outcome


def drop(outcome: object) -> None:
    """Give up a handler that has not begun to wait, if it is one, and what it is to wait for."""
    if inspect.iscoroutine(outcome):
        for argument in inspect.getcoroutinelocals(outcome).values():
            drop(argument)
        outcome.close()
