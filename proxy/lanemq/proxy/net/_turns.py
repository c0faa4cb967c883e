"""Long bodies, which are written beside the loop, and long work, which is done in turns."""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from functools import partial
from typing import Any, Final, TypeVar

import trio

from lanemq.wire.bodies import Body
from lanemq.wire.frame import Frame

from ._session import Session

LONG_PARTS: Final = 500
"""Parts of a body from which on it is written in a thread: each takes some ten microseconds."""
PARTS_OF_A_TURN: Final = 64
"""Parts of a list in a request that are taken in one turn of the loop, at some 0.1 ms each."""
LOOKS_OF_A_STEP: Final = 1000
"""Entries of a table that one step looks at, and mostly passes over, at some microseconds each."""
PART_BYTES: Final = 256
"""Bytes charged to the peer for each part of a body while that is written."""
LONG_ANSWER_BYTES: Final = 16 << 10
"""Another server's answer of so many is read in a thread: each kilobyte takes up to a quarter of a
millisecond."""
THREADS: Final = 2
_ONE_AT_A_TIME: Final = "one at a time"

_T = TypeVar("_T")

Steps = Generator[Callable[[], object] | None, Any, _T]
"""Work in steps. Between two it yields None, or a call to be made beside the event loop, whose
result it is sent."""

_LIMITER: Final = trio.lowlevel.RunVar[trio.CapacityLimiter]("lanemq.proxy.writing_bodies")


def for_turns(parts: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Cut a list from a request into what one turn of the loop takes; the caller has a
    checkpoint before each."""
    for begin in range(0, len(parts), PARTS_OF_A_TURN):
        yield parts[begin : begin + PARTS_OF_A_TURN]


async def in_turns(parts: Iterable[_T]) -> AsyncIterator[_T]:
    """Iterate over parts, as many in one turn of the loop as of ``for_turns``."""
    for number, part in enumerate(tuple(parts)):
        if number and number % PARTS_OF_A_TURN == 0:
            await trio.lowlevel.checkpoint()
        yield part


def all_steps(steps: Steps[_T]) -> _T:
    """Run all steps of some work in this turn and return its result."""
    found: object = None
    while True:
        try:
            call = steps.send(found)
        except StopIteration as stop:
            result: _T = stop.value
            return result
        found = None if call is None else call()


async def step_by_step(steps: Steps[_T]) -> _T:
    """Run each step of some work in a turn of its own, and its calls in threads; return its
    result."""
    found: object = None
    try:
        while True:
            call = steps.send(found)
            if call is None:
                found = None
                await trio.lowlevel.checkpoint()
            else:
                found = await trio.to_thread.run_sync(call)
    except StopIteration as stop:
        result: _T = stop.value
        return result
    finally:
        steps.close()


def reply_with(
    frame: Frame,
    session: Session,
    body: Body,
    parts: int,
    fields: dict[str, str] | None = None,
    *,
    standard: bool = False,
) -> Frame | Awaitable[Frame]:
    """Return the reply that has ``body``, of so many parts; later where they are many.

    Nothing in it may change: what it takes of a table it has to be given as a copy. ``standard``
    is as in ``Body.encode``.
    """
    return reply_made(frame, session, partial(body.encode, standard=standard), parts, fields)


def reply_made(
    frame: Frame,
    session: Session,
    make: Callable[[], bytes],
    parts: int,
    fields: dict[str, str] | None = None,
) -> Frame | Awaitable[Frame]:
    """Return the reply with the body that ``make`` gives, as ``reply_with`` and ``make_beside``."""
    if parts < LONG_PARTS:
        return frame.reply(fields=fields, body=make())

    async def later() -> Frame:
        return frame.reply(fields=fields, body=await make_beside(session, make, parts))

    return later()


async def encode_beside(
    session: Session, body: Body, parts: int, *, standard: bool = False
) -> bytes:
    """Write a body: one of many parts in a thread. It is as in ``reply_with``."""
    return await make_beside(session, partial(body.encode, standard=standard), parts)


async def make_beside(session: Session, make: Callable[[], bytes], parts: int) -> bytes:
    """Make a body: one of many parts in a thread, where nothing may change of what it takes."""
    if parts < LONG_PARTS:
        return make()
    try:
        limiter = _LIMITER.get()
    except LookupError:
        limiter = trio.CapacityLimiter(THREADS)
        _LIMITER.set(limiter)
    charged_bytes = parts * PART_BYTES
    session.account.add(charged_bytes)
    try:
        return await beside(session, make, limiter)
    finally:
        session.account.add(-charged_bytes)


async def beside(session: Session, call: Callable[[], _T], limiter: trio.CapacityLimiter) -> _T:
    """Call in a thread: one call of a connection at a time, so that each waits for its own."""
    lock = session.attributes.get(_ONE_AT_A_TIME)
    if lock is None:
        lock = session.attributes[_ONE_AT_A_TIME] = trio.Lock()
    async with lock:
        return await trio.to_thread.run_sync(call, limiter=limiter)


async def read_answer(size_bytes: int, read: Callable[[], _T]) -> _T:
    """Read another server's answer, of so many bytes: beside the event loop where it is long."""
    return read() if size_bytes < LONG_ANSWER_BYTES else await trio.to_thread.run_sync(read)
