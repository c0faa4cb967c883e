"""Execution of an application's functions outside of the core: in threads, or on an event loop."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar, final

import trio

from lanemq.local import get_logger
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.message import StageRecord

from .._errors import ClientClosed, WrongUse
from .._messages import Outcome, ReceivedMessage, Retry
from .._options import ConsumerOptions, LitePullOptions, ProducerOptions, PushOptions
from .._push_consumer import PushConsumer
from .._tasks import first_of
from ..consumer.ordered._stage_stores import (
    BrokerStageOffsets,
    LocalStageOffsets,
    MemoryStageOffsets,
)
from ..consumer.pool._outside_calls import ListenerExecutor, run_outside
from ..kv import KvOffsetStore
from ..listeners._listener import Handle
from ..listeners._listener_context import like
from ..listeners._ordered_listeners import StageOffsetStore
from ..observe._consume_hooks import ConsumeHook
from ..observe._send_hooks import SendHook
from ._portal import Portal
from ._portal_calls import AGAIN_S, Callback, calling

LOGGER = get_logger("lanemq.sdk.listener")

T = TypeVar("T")
HookT = TypeVar("HookT", SendHook, ConsumeHook)
OptionsT = TypeVar("OptionsT", ProducerOptions, PushOptions, LitePullOptions)

OUR_STORES: Final = (BrokerStageOffsets, KvOffsetStore, LocalStageOffsets, MemoryStageOffsets)


class Executor(Protocol):
    """A place where an application's functions run."""

    cancel_grace_s: float
    """Longest time a function that was told to stop may take for it; 0 where it cannot be told."""

    @property
    def is_closed(self) -> bool:
        """True once nothing can run there any more."""

    def start(self, callback: Callback[Any]) -> None:
        """Begin to run it. Called in the core's thread. Raises ``ClientClosed``."""


async def run_callback(executor: Executor, callback: Callback[T]) -> T:
    """Run ``callback`` there and wait; when cancelled, tell it to stop and do not wait."""
    executor.start(callback)
    try:
        await callback.over.wait()
    except trio.Cancelled:
        callback.cancel()
        raise
    return callback.result()


def in_caller(portal: Portal, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Return a function that runs where the caller of the current call waits: its thread, its
    task."""

    async def forwarded(*arguments: object) -> object:
        callback: Callback[object] = Callback(portal, partial(function, *arguments))
        calling.get().hand_over(callback)
        await callback.over.wait()
        return callback.result()

    return forwarded


@final
class ListenerGate:
    """Runs a listener elsewhere, never in more places at once than allowed.

    Calls that cannot be stopped count as long as they run. Where ``ordered``, nothing that may only
    come later begins meanwhile: the core is not told before it has really ended, except when
    the client is being closed (``leaving``).
    """

    def __init__(
        self,
        portal: Portal,
        executor: Executor,
        leaving: trio.Event,
        *,
        ordered: bool,
        concurrency: int,
    ) -> None:
        self._portal = portal
        self._executor = executor
        self._leaving = leaving
        self._ordered = ordered
        self._limiter = trio.CapacityLimiter(concurrency)
        self._limit: Callable[[], int] = lambda: concurrency

    def handle(self, handle: Callable[..., Any], executor: ListenerExecutor) -> Handle:
        """Wrap ``handle`` for the core, whose pool may have ``executor`` call it directly."""

        async def forwarded(
            messages: Sequence[ReceivedMessage], *context: object
        ) -> Outcome | Retry | None:
            return await self._run(partial(handle, messages, *context))

        run_outside(forwarded, executor)
        return like(handle, forwarded)

    @asynccontextmanager
    async def follow(
        self, opening: AbstractAsyncContextManager[PushConsumer]
    ) -> AsyncIterator[PushConsumer]:
        """Open the consumer whose listener this is; what it allows counts from then on."""
        async with opening as consumer:
            self._limit = lambda: consumer.concurrency
            yield consumer

    async def _run(self, function: Callable[[], Any]) -> Outcome | Retry | None:
        callback: Callback[Outcome | Retry | None] = Callback(self._portal, function)
        limiter = self._limiter
        if limiter.total_tokens != self._limit():
            limiter.total_tokens = self._limit()
        try:
            limiter.acquire_on_behalf_of_nowait(callback)  # its own way takes one turn of the core
        except trio.WouldBlock:
            await limiter.acquire_on_behalf_of(callback)
        callback.at_end(partial(limiter.release_on_behalf_of, callback))
        try:
            await self._start(callback)
        except BaseException:  # it never began, so nothing else gives the place back
            limiter.release_on_behalf_of(callback)
            raise
        try:
            await callback.over.wait()
        except trio.Cancelled:
            callback.cancel()
            with trio.CancelScope(shield=True):
                await self._wait_out(callback)
            if not callback.over.is_set() or callback.was_cancelled:
                raise
        if callback.was_cancelled:
            # Not by us, so probably by the end of its loop, which closes next.
            await trio.sleep(self._executor.cancel_grace_s)
            if self._executor.is_closed:  # its client will be soon, with nothing settled
                await trio.sleep_forever()
        return callback.result()

    async def _start(self, callback: Callback[Outcome | Retry | None]) -> None:
        is_news = True
        while True:
            try:
                self._executor.start(callback)
            except ClientClosed:  # its loop is gone; its client will be soon, with nothing settled
                await trio.sleep_forever()
            except RuntimeError:  # no thread can be started at the moment; no fault of the messages
                if is_news:
                    LOGGER.exception("a listener is called later")
                is_news = False
                await trio.sleep(AGAIN_S)
            else:
                return

    async def _wait_out(self, callback: Callback[Outcome | Retry | None]) -> None:
        if self._ordered:
            await first_of(callback.over.wait, self._leaving.wait)
        with trio.move_on_after(self._executor.cancel_grace_s):
            await callback.over.wait()


class AnyStore(Protocol):
    """A `StageOffsetStore`, or the like with plain functions."""

    # Either kind of function.
    def load(self, queue: MessageQueue, strategy: str = "") -> Any: ...  # noqa: ANN401

    # As above.
    def save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> Any: ...  # noqa: ANN401


@final
class _ForwardedStore:
    """An application's store, which runs elsewhere."""

    def __init__(self, portal: Portal, executor: Executor, store: AnyStore) -> None:
        self._portal, self._executor, self._store = portal, executor, store

    async def load(self, queue: MessageQueue, strategy: str = "") -> StageRecord | None:
        load = partial(self._store.load, queue, *filter(None, (strategy,)))
        callback: Callback[StageRecord | None] = Callback(self._portal, load)
        return await run_callback(self._executor, callback)

    async def save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> None:
        save = partial(self._store.save, queue, record, *filter(None, (strategy,)))
        callback: Callback[None] = Callback(self._portal, save)
        await run_callback(self._executor, callback)


def forward_store(
    portal: Portal, executor: Executor, store: AnyStore | None
) -> StageOffsetStore | None:
    """Wrap ``store`` for the core; stores of this package run there as they are."""
    if store is None or isinstance(store, OUR_STORES):
        return store
    return _ForwardedStore(portal, executor, store)


def forward_hooks(portal: Portal, executor: Executor, options: OptionsT) -> OptionsT:
    """Return ``options`` with their watching functions wrapped, to run outside the core."""

    def forward(watch: Callable[[Any], Any] | None) -> Callable[[Any], Awaitable[None]] | None:
        if watch is None:
            return None

        async def forwarded(event: object) -> None:
            callback: Callback[None] = Callback(portal, partial(watch, event))
            await run_callback(executor, callback)

        return forwarded

    def forward_both(hook: HookT) -> HookT:
        return replace(hook, before=forward(hook.before), after=forward(hook.after))

    if isinstance(options, ProducerOptions | PushOptions):
        options = replace(options, hooks=tuple(map(forward_both, options.hooks)))
    if isinstance(options, ConsumerOptions):
        if not isinstance(options.offset_store, KvOffsetStore | None):
            raise WrongUse("here offset_store takes a KvOffsetStore; others run on trio")
        options = replace(
            options,
            on_queues_changed=forward(options.on_queues_changed),
            on_statistics=forward(options.on_statistics),
        )
    return options


def watches(options: object) -> list[Callable[[Any], Any]]:
    """Return the functions of ``options`` that watch."""
    found: list[Callable[[Any], Any] | None] = []
    if isinstance(options, ProducerOptions | PushOptions):
        for hook in options.hooks:
            found += (hook.before, hook.after)
    if isinstance(options, ConsumerOptions):
        found += (options.on_queues_changed, options.on_statistics)
    return [watch for watch in found if watch is not None]
