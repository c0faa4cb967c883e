"""The results of the core's ``open_…`` functions, which say how a client is opened."""

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Generic, NoReturn, ParamSpec, TypeVar, final

from .._errors import NotOpened

P = ParamSpec("P")
T = TypeVar("T")


@final
class Unopened(AbstractAsyncContextManager[T], Generic[T]):
    """A client that opens with an ``async with`` block. Made by ``opener``."""

    def __init__(self, block: AbstractAsyncContextManager[T], name: str) -> None:
        self._block = block
        self._name = name

    async def __aenter__(self) -> T:
        return await self._block.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._block.__aexit__(kind, error, traceback)

    def __getattr__(self, name: str) -> NoReturn:
        raise NotOpened(name, f"`async with {self._name}(…) as client:`")


def opener(function: Callable[P, AsyncIterator[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
    """Make an ``open_…`` function of an async generator, as ``asynccontextmanager`` does."""
    make = asynccontextmanager(function)

    @functools.wraps(function)
    def open_client(*args: P.args, **kwargs: P.kwargs) -> AbstractAsyncContextManager[T]:
        return Unopened(make(*args, **kwargs), function.__name__)

    return open_client
