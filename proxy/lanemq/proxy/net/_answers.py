"""The answers of handlers: values, of which only a server's edge makes bytes.

One may come later. If nobody will wait for it, it is given up (``drop``), so that nothing is left
that it would have come from.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar, final

import msgspec

from lanemq.wire.frame import Frame

from ._stored_reply import StoredReply

_T = TypeVar("_T")


class Result(msgspec.Struct, frozen=True, gc=False):
    """The base of typed results of handlers; each class of them has an encoder at the edge."""


Answer = Frame | Result
"""A handler's answer. A frame is the typed result of what is asked rarely; there are no bytes."""

Late = Answer | None
"""The answer of a handler that waits; None where it answers itself."""

Encoded = bytes | StoredReply
"""An answer on its way out; what has a large record may leave that in the log."""


@final
class Later(Generic[_T]):
    """The rest of a handler that begins with a wait for another's answer: both are given up
    together.

    A coroutine that has not begun cannot give up what it was called with.
    """

    __slots__ = ("_first", "_rest")

    def __init__(self, first: object, rest: Coroutine[Any, Any, _T]) -> None:
        self._first = first
        self._rest = rest

    def __await__(self) -> Generator[Any, Any, _T]:
        return self._rest.__await__()

    def close(self) -> None:
        """Give both up."""
        self._rest.close()
        drop(self._first)


def passed_on(asked: Frame, answer: Frame) -> Frame:
    """Turn another peer's answer into the answer to a request."""
    return asked.reply(answer.code, dict(answer.fields), answer.body, answer.remark)


def drop(answer: object) -> None:
    """Give up an answer that is not awaited yet; nothing happens if it has come."""
    close = getattr(answer, "close", None)
    if close is not None:
        close()


def kept_after(step: Callable[[], None], answer: _T) -> _T:
    """Return a handler's answer once a step is done that has to come first; give it up if that
    fails."""
    try:
        step()
    except BaseException:  # whatever it was, nobody will wait for the answer
        drop(answer)
        raise
    return answer


async def answer_after(step: Callable[[], Awaitable[None]], answer: _T | Awaitable[_T]) -> _T:
    """Wait for a handler's answer after such a step, which may wait, too; as ``kept_after``."""
    try:
        await step()
    except BaseException:
        drop(answer)
        raise
    return await answer if isinstance(answer, Awaitable) else answer
