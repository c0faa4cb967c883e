"""A sender that collects messages of many tasks, and stores them in batches.

Source of the idea: Kafka's producer (linger.ms, batch.size, buffer.memory).
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final, TypeAlias, final

import trio

from ._errors import BatchingFailed, ClientClosed, LanemqError
from ._messages import Message, SendResult
from ._options import ProducerOptions
from ._tasks import open_quiet_nursery
from ._values import check_seconds, check_whole
from .net._client import Client
from .observe._log import get_logger
from .producer._accumulator import Accumulator
from .producer._batches import each_of, prepare_batch
from .producer._on_sent import ForwardedOnSent, OnSent, in_on_sent
from .producer._outgoing import Outgoing, prepare
from .producer._selectors import target_of
from .producer._sender import Sender

LOGGER = get_logger("lanemq.sdk.producer")

ENTRY_BYTES: Final = 200
"""Bytes that a message may need in a batch beside what its fields show: ids, lengths, flags."""

Key: TypeAlias = tuple[str, bool, str | int | None]
"""Topic, durability and queue key of the messages that may share a batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchingLimits:
    """Limits of a batching sender; see `Producer.batching`."""

    linger_s: float
    batch_messages: int
    batch_bytes: int
    pending_messages: int
    pending_bytes: int

    def __post_init__(self) -> None:
        check_seconds("linger_s", self.linger_s, zero=True, most_s=3600.0)
        for name in ("batch_messages", "batch_bytes", "pending_messages", "pending_bytes"):
            check_whole(name, getattr(self, name), least=1)


@dataclass(eq=False, slots=True)
class _Posted:
    given: Message
    ready: Message
    """The message past interceptors and codec."""
    size_bytes: int
    on_sent: OnSent | None
    is_awaited: bool
    done: trio.Event = field(default_factory=trio.Event)
    outcome: SendResult | LanemqError | None = None


@final
class BatchingSender:
    """Sends messages in batches of one topic; made by `Producer.batching`.

    Any number of tasks may use it at once.
    """

    def __init__(
        self,
        client: Client,
        sender: Sender,
        options: ProducerOptions,
        nursery: trio.Nursery,
        *,
        limits: BatchingLimits,
        is_closed: Callable[[], bool],
    ) -> None:
        self._client = client
        self._sender = sender
        self._options = options
        self._nursery = nursery
        self._limits = limits
        self._is_closed = is_closed
        self._accumulator: Accumulator[Key, _Posted] = Accumulator(
            linger_s=limits.linger_s,
            batch_messages=limits.batch_messages,
            batch_bytes=min(limits.batch_bytes, options.message_bytes_max),
        )
        self._open: dict[_Posted, None] = {}  # without an outcome, in the order of the calls
        self._size_bytes = 0
        self._uncalled = self._uncalled_bytes = 0  # with an outcome; on_sent has not returned
        self._flushing = 0
        self._closed = False
        self._changed = trio.Event()  # something arrived, or has an outcome
        self._failed: list[tuple[Message, LanemqError]] = []
        self._forwarded: ForwardedOnSent | None = None

    @property
    def pending(self) -> int:
        """The number of messages that are neither stored nor failed yet."""
        return len(self._open)

    async def send(self, message: Message, *, queue_key: str | int | None = None) -> SendResult:
        """Send a message with others of its topic; wait until it is stored.

        The result is this message's own. Messages with one ``queue_key`` go to one queue, in order.
        One with a delay is sent by itself. Waits for room first. Raises as ``Producer.send``; a
        failure is that of the whole batch. A cancelled call leaves its message to be sent.
        """
        posted = await self._post(message, queue_key, None, is_awaited=True)
        await posted.done.wait()
        outcome = posted.outcome
        if isinstance(outcome, SendResult):
            return outcome
        assert outcome is not None
        raise outcome

    async def post(
        self,
        message: Message,
        *,
        queue_key: str | int | None = None,
        on_sent: OnSent | None = None,
    ) -> None:
        """Leave a message to be sent; wait only for room.

        ``on_sent`` is called with the message and its result, or its error; without it, the next
        ``flush`` or the end of the block raises that. Raises ``MessageRejected``, ``InvalidName``.
        """
        await self._post(message, queue_key, on_sent, is_awaited=False)

    async def flush(self) -> None:
        """Send what lingers, and wait until everything sent before has a result.

        Raises ``BatchingFailed`` if posted messages could not be sent; it has them all.
        """
        self._flushing += 1
        try:
            self._notify()
            await trio.lowlevel.checkpoint()
            for posted in tuple(self._open):
                await posted.done.wait()
            if self._forwarded is not None:
                await self._forwarded.wait()
        finally:
            self._flushing -= 1
        failed, self._failed = self._failed, []
        if failed:
            raise BatchingFailed(failed)

    # Messages on their way

    async def _post(
        self,
        message: Message,
        queue_key: str | int | None,
        on_sent: OnSent | None,
        *,
        is_awaited: bool,
    ) -> _Posted:
        self._check_open()
        (ready,) = self._options.outbound((message,))
        self._prepare([ready])  # raises here what would fail the batch
        target_of(None, queue_key, ready)
        size_bytes = ENTRY_BYTES + len(ready.body) + _extras(ready)
        await trio.lowlevel.checkpoint()
        self._check_open()  # after each wait: what is taken once the block ends is never sent
        while not self._has_room(size_bytes):
            await self._changed.wait()
            self._check_open()
        posted = _Posted(message, ready, size_bytes, on_sent, is_awaited)
        self._open[posted] = None
        self._size_bytes += size_bytes
        if ready.is_delayed:
            self._nursery.start_soon(self._send_all, [posted], queue_key)
        else:
            key = ready.topic, ready.wait, queue_key
            self._accumulator.add(key, posted, size_bytes, trio.current_time())
            self._notify()
        return posted

    def _check_open(self) -> None:
        if self._closed or self._is_closed():
            raise ClientClosed("batching sender")

    def _has_room(self, size_bytes: int) -> bool:
        """Return whether one more message may be pending; a single one always may."""
        limits = self._limits
        messages, pending_bytes = len(self._open), self._size_bytes
        if not in_on_sent.get():  # there it would wait for itself
            messages += self._uncalled
            pending_bytes += self._uncalled_bytes
        return not messages or (
            messages < limits.pending_messages
            and pending_bytes + size_bytes <= limits.pending_bytes
        )

    def _prepare(self, messages: list[Message]) -> Outgoing:
        client, options = self._client, self._options
        if len(messages) == 1:
            return prepare(messages[0], options, client.unique_keys, client.clock_ms())
        return prepare_batch(messages, options, client.unique_keys, client.clock_ms())

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _run(self) -> None:
        """Send batches when they are ready; runs until cancelled."""
        while True:
            ready = self._accumulator.take(trio.current_time(), all_of_it=self._flushing > 0)
            if ready is not None:
                self._nursery.start_soon(self._send_batch, *ready)
                continue
            changed, due_s = self._changed, self._accumulator.due_s()
            with trio.move_on_at(due_s) if due_s < inf else trio.CancelScope():
                await changed.wait()

    async def _send_batch(self, key: Key, batch: list[_Posted]) -> None:
        await self._send_all(batch, key[2])
        self._accumulator.returned(key)
        self._notify()

    async def _send_all(self, batch: list[_Posted], queue_key: str | int | None) -> None:
        target = target_of(None, queue_key, batch[0].ready)
        try:
            outgoing = self._prepare([posted.ready for posted in batch])
            result = await self._sender.send(outgoing, target, self._options.send_timeout_s)
        except LanemqError as error:
            for posted in batch:
                self._settle(posted, error)
        else:
            for posted, own in zip(batch, each_of(result, len(batch)), strict=True):
                self._settle(posted, own)

    def _settle(self, posted: _Posted, outcome: SendResult | LanemqError) -> None:
        del self._open[posted]
        self._size_bytes -= posted.size_bytes
        posted.outcome = outcome
        posted.done.set()
        if posted.on_sent is not None:
            try:
                if isinstance(posted.on_sent, ForwardedOnSent):
                    self._forwarded = posted.on_sent
                    self._uncalled += 1
                    self._uncalled_bytes += posted.size_bytes
                    posted.on_sent(posted.given, outcome, partial(self._called, posted.size_bytes))
                else:
                    posted.on_sent(posted.given, outcome)
            except Exception:  # the application's own
                LOGGER.exception("on_sent failed")
        elif not posted.is_awaited and isinstance(outcome, LanemqError):
            self._failed.append((posted.given, outcome))
        self._notify()

    def _called(self, size_bytes: int) -> None:
        self._uncalled -= 1
        self._uncalled_bytes -= size_bytes
        self._notify()

    def _close(self) -> None:
        self._closed = True
        self._notify()

    def _drop_all(self) -> None:
        """Have everything without a result fail, for those who wait for it: nothing is sent now."""
        for posted in tuple(self._open):
            self._settle(posted, ClientClosed("batching sender"))


def _extras(message: Message) -> int:
    """Return an upper bound for the bytes of tags, keys and properties."""
    texts = (message.tags, *message.keys, *message.properties, *message.properties.values())
    return sum(len(text.encode()) + 1 for text in texts)


@asynccontextmanager
async def open_batching_sender(
    client: Client,
    sender: Sender,
    options: ProducerOptions,
    *,
    limits: BatchingLimits,
    is_closed: Callable[[], bool],
) -> AsyncIterator[BatchingSender]:
    """Open the sender that ``Producer.batching`` returns."""
    batching: BatchingSender | None = None
    try:
        async with open_quiet_nursery() as nursery:
            batching = BatchingSender(
                client, sender, options, nursery, limits=limits, is_closed=is_closed
            )
            nursery.start_soon(batching._run)
            try:
                yield batching
                batching._close()
                await batching.flush()
            finally:
                batching._close()
            nursery.cancel_scope.cancel()
    finally:
        if batching is not None:
            batching._drop_all()
