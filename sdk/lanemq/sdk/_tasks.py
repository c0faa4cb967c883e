"""Nurseries and calls at once that raise the one error that happened, not a group around it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Final, TypeVar

import trio

from ._errors import LanemqError

T = TypeVar("T")

AT_ONCE: Final = 32
"""Questions that are asked side by side."""
WIDE_BYTES: Final = 64 << 10
"""Bytes of a body from which on it is read beside the event loop: it may take some ten
milliseconds."""


async def beside_if(is_long: bool, call: Callable[[], T]) -> T:
    """Call, in a thread if that takes long: heartbeats and listeners do not wait for it."""
    return await trio.to_thread.run_sync(call) if is_long else call()


async def read_body(body: bytes, read: Callable[[bytes], T]) -> T:
    """Read what a server has sent, beside the event loop where it is wide."""
    return await beside_if(len(body) > WIDE_BYTES, partial(read, body))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def lone_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the only error in ``group`` but for cancellations, or ``group`` if it has several.

    A group of cancellations only gives one of them: trio counts on seeing it again.
    """
    leaves = list(_leaves(group))
    real = [leaf for leaf in leaves if not isinstance(leaf, trio.Cancelled)]
    if len(real) == 1:
        return real[0]
    return group if real else leaves[0]


@asynccontextmanager
async def open_quiet_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery that raises a lone error as it is, so ``except BrokerUnreachable`` works."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        error = lone_error(group)
        if error is group:
            raise
        _raise_as_it_was(error)


def _raise_as_it_was(error: BaseException) -> None:
    """Raise ``error`` without giving it the group it came out of as its context."""
    context = error.__context__
    traceback: TracebackType | None = error.__traceback__
    try:
        raise error.with_traceback(traceback)
    finally:
        error.__context__ = context
        del error, context, traceback


async def gather(asked: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Await all at once, and return their results in order.

    The first error ends the others, and is raised as it is.
    """
    if len(asked) == 1:
        return [await asked[0]()]
    results: dict[int, T] = {}
    errors: list[Exception] = []

    async def run(number: int, ask: Callable[[], Awaitable[T]]) -> None:
        try:
            results[number] = await ask()
        except Exception as error:
            errors.append(error)
            nursery.cancel_scope.cancel()

    async with open_quiet_nursery() as nursery:
        for number, ask in enumerate(asked):
            nursery.start_soon(run, number, ask)
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(asked))]


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Await all at once; return when the first has returned."""
    async with trio.open_nursery() as nursery:

        async def one(wait: Callable[[], Awaitable[object]]) -> None:
            await wait()
            nursery.cancel_scope.cancel()

        for wait in waits:
            nursery.start_soon(one, wait)


async def settle(asked: Sequence[Callable[[], Awaitable[T]]]) -> list[T | LanemqError]:
    """Await all, up to ``AT_ONCE`` at once; return the results or errors of each, in order."""
    at_once = trio.CapacityLimiter(AT_ONCE)

    async def one(ask: Callable[[], Awaitable[T]]) -> T | LanemqError:
        async with at_once:
            try:
                return await ask()
            except LanemqError as error:
                return error

    return await gather([partial(one, ask) for ask in asked])
