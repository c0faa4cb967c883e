"""Several requests at once."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ..._tasks import open_quiet_nursery

T = TypeVar("T")


async def gather(asked: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Await all at once; returns their results in order.

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
