"""Has an application's functions run outside of the core: in threads, or on an event loop."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar, final

import trio

from lanemq.wire import MessageQueue, StageRecord

from ._consume_hooks import ConsumeHook
from ._errors import ClientClosed
from ._listener import Handle
from ._messages import Outcome, ReceivedMessage
from ._options import ProducerOptions, PushOptions
from ._portal import Portal
from ._portal_calls import Errand, calling
from ._push_consumer import PushConsumer
from ._send_hooks import SendHook
from ._stage_offsets import (
    BrokerStageOffsets,
    LocalStageOffsets,
    MemoryStageOffsets,
    StageOffsetStore,
)

T = TypeVar("T")
HookT = TypeVar("HookT", SendHook, ConsumeHook)
OptionsT = TypeVar("OptionsT", ProducerOptions, PushOptions)

OUR_STORES: Final = (BrokerStageOffsets, LocalStageOffsets, MemoryStageOffsets)


class Place(Protocol):
    """Where an application's functions run."""

    cancel_grace_s: float
    """How long a function that was told to stop may take for it; 0 where it cannot be told."""

    def start(self, errand: Errand[Any]) -> None:
        """Begin to run it. Called in the core's thread. Raises ``ClientClosed``."""


async def run_at(place: Place, errand: Errand[T]) -> T:
    """Have ``errand`` done there and wait; when cancelled, tell it to stop and do not wait."""
    place.start(errand)
    try:
        await errand.over.wait()
    except trio.Cancelled:
        errand.cancel()
        raise
    return errand.result()


def in_caller(portal: Portal, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """A function that runs where the caller of the current call waits: its thread, its task."""

    async def forwarded(*arguments: object) -> object:
        errand: Errand[object] = Errand(portal, partial(function, *arguments))
        calling.get().hand_over(errand)
        await errand.over.wait()
        return errand.result()

    return forwarded


@final
class Gate:
    """Runs a listener elsewhere, never in more places at once than allowed.

    What cannot be stopped counts as long as it runs. Where ``ordered``, nothing that may only
    come later begins meanwhile: the core is not told before it has really ended, except when
    the client is being closed (``leaving``).
    """

    def __init__(
        self,
        portal: Portal,
        place: Place,
        leaving: trio.Event,
        *,
        ordered: bool,
        concurrency: int,
    ) -> None:
        self._portal = portal
        self._place = place
        self._leaving = leaving
        self._ordered = ordered
        self._limiter = trio.CapacityLimiter(concurrency)
        self._limit: Callable[[], int] = lambda: concurrency

    def handle(self, handle: Callable[[Sequence[ReceivedMessage]], Any]) -> Handle:
        """``handle`` for the core."""

        async def forwarded(messages: Sequence[ReceivedMessage]) -> Outcome | None:
            return await self._run(partial(handle, messages))

        return forwarded

    @asynccontextmanager
    async def follow(
        self, opening: AbstractAsyncContextManager[PushConsumer]
    ) -> AsyncIterator[PushConsumer]:
        """Open the consumer whose listener this is; what it allows counts from then on."""
        async with opening as consumer:
            self._limit = lambda: consumer.concurrency
            yield consumer

    async def _run(self, function: Callable[[], Any]) -> Outcome | None:
        errand: Errand[Outcome | None] = Errand(self._portal, function)
        limiter = self._limiter
        if limiter.total_tokens != self._limit():
            limiter.total_tokens = self._limit()
        await limiter.acquire_on_behalf_of(errand)
        errand.at_end(partial(limiter.release_on_behalf_of, errand))
        try:
            self._place.start(errand)
        except ClientClosed:  # its loop is gone; soon its client is, and then nothing was settled
            limiter.release_on_behalf_of(errand)
            await trio.sleep_forever()
        try:
            await errand.over.wait()
        except trio.Cancelled:
            errand.cancel()
            with trio.CancelScope(shield=True):
                await self._wait_out(errand)
            if not errand.over.is_set() or errand.was_cancelled:
                raise
        if errand.was_cancelled:
            # Not by us, so probably by the end of its loop: then this client is closed now.
            await trio.sleep(self._place.cancel_grace_s)
        return errand.result()

    async def _wait_out(self, errand: Errand[Outcome | None]) -> None:
        if self._ordered:
            await _first_of(errand.over, self._leaving)
        with trio.move_on_after(self._place.cancel_grace_s):
            await errand.over.wait()


async def _first_of(*events: trio.Event) -> None:
    async with trio.open_nursery() as nursery:

        async def look(event: trio.Event) -> None:
            await event.wait()
            nursery.cancel_scope.cancel()

        for event in events:
            nursery.start_soon(look, event)


class AnyStore(Protocol):
    """A `StageOffsetStore`, or the like with plain functions."""

    def load(self, queue: MessageQueue) -> Any: ...  # noqa: ANN401 - either kind of function

    def save(self, queue: MessageQueue, record: StageRecord) -> Any: ...  # noqa: ANN401


@final
class _ForwardedStore:
    """An application's store, which runs elsewhere."""

    def __init__(self, portal: Portal, place: Place, store: AnyStore) -> None:
        self._portal, self._place, self._store = portal, place, store

    async def load(self, queue: MessageQueue) -> StageRecord | None:
        load = partial(self._store.load, queue)
        errand: Errand[StageRecord | None] = Errand(self._portal, load)
        return await run_at(self._place, errand)

    async def save(self, queue: MessageQueue, record: StageRecord) -> None:
        save = partial(self._store.save, queue, record)
        errand: Errand[None] = Errand(self._portal, save)
        await run_at(self._place, errand)


def forward_store(portal: Portal, place: Place, store: AnyStore | None) -> StageOffsetStore | None:
    """``store`` for the core; those of this package run there."""
    if store is None or isinstance(store, OUR_STORES):
        return store
    return _ForwardedStore(portal, place, store)


def forward_hooks(portal: Portal, place: Place, options: OptionsT | None) -> OptionsT | None:
    """``options`` with hooks that run elsewhere."""
    if options is None or not options.hooks:
        return options

    def forward(watch: Callable[[Any], Any] | None) -> Callable[[Any], Awaitable[None]] | None:
        if watch is None:
            return None

        async def forwarded(event: object) -> None:
            errand: Errand[None] = Errand(portal, partial(watch, event))
            await run_at(place, errand)

        return forwarded

    def forward_both(hook: HookT) -> HookT:
        return replace(hook, before=forward(hook.before), after=forward(hook.after))

    return replace(options, hooks=tuple(forward_both(hook) for hook in options.hooks))
