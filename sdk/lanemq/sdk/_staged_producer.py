"""Sends the messages of a stage at once, and the next stage when all of them are stored."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import final

import trio

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.message import Stages

from ._errors import ClientClosed, InvalidName, LanemqError, NoRoute, StagedSendFailed
from ._messages import Message
from ._options import ProducerOptions
from ._tasks import open_quiet_nursery
from .net._client import Client
from .observe._log import get_logger
from .producer._outgoing import Outgoing, prepare
from .producer._selectors import HashSelector
from .producer._sender import Sender

LOGGER = get_logger("lanemq.sdk.producer")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0


@final
class StagedSender:
    """Takes messages in the order of their stages; made by ``Producer.staged``."""

    def __init__(
        self,
        client: Client,
        sender: Sender,
        options: ProducerOptions,
        nursery: trio.Nursery,
        *,
        queue_key: str | int | MessageQueue,
        stages: Stages,
        concurrency: int,
        attempts: int,
        is_closed: Callable[[], bool],
    ) -> None:
        self._client = client
        self._sender = sender
        self._options = options
        self._nursery = nursery
        self._queue_key = queue_key
        self._stages = stages
        self._attempts = attempts
        self._is_closed = is_closed
        self._slots = trio.Semaphore(concurrency)
        self._turn = trio.Lock()  # tasks that send at once are numbered one after the other
        self._queue: MessageQueue | None = None
        self._number = 0
        self._in_flight = 0
        self._all_there: trio.Event | None = None
        self._failures: list[tuple[Message, LanemqError]] = []

    @property
    def number(self) -> int:
        """The number of messages taken so far."""
        return self._number

    @property
    def queue(self) -> MessageQueue | None:
        """The queue that all messages go to; None before the first."""
        return self._queue

    async def send(self, message: Message) -> str:
        """Send the next message; return its unique key once it is on its way.

        The first message of a stage waits until all of the stage before are stored; any waits
        while ``concurrency`` others are on their way. Whether a message arrived is known when
        its stage ends: at the first message of the next one, or at the end of the block.

        Raises ``StagedSendFailed`` there; then nothing more can be sent. Raises
        ``MessageRejected`` and ``InvalidName`` for a message that cannot be sent as it is; such
        a one is not counted.
        """
        async with self._turn:
            if self._is_closed():
                raise ClientClosed("staged producer")
            client = self._client
            (message,) = self._options.outbound((message,))
            outgoing = prepare(message, self._options, client.unique_keys, client.clock_ms())
            queue = await self._queue_of(message)
            if self._number and self._begins_stage():
                await self.wait()
            await self._slots.acquire()
            if self._is_closed():
                raise ClientClosed("staged producer")
            self._number += 1
            self._in_flight += 1
            self._nursery.start_soon(self._deliver, message, outgoing, queue)
            return outgoing.message_id

    def _begins_stage(self) -> bool:
        stages, number = self._stages, self._number
        return stages.stage_of(number) != stages.stage_of(number - 1)

    async def _queue_of(self, message: Message) -> MessageQueue:
        if self._queue is None:
            key = self._queue_key
            if isinstance(key, MessageQueue):
                self._queue = key
            else:
                queues = (await self._sender.route(message.topic)).publish_queues
                if not queues:
                    raise NoRoute(message.topic, "no broker takes messages of it")
                self._queue = HashSelector(key)(queues, message)
        if self._queue.topic != message.topic:
            raise InvalidName(
                f"the stages are those of a queue of topic {self._queue.topic}; a message of"
                f" {message.topic} has no place in them"
            )
        return self._queue

    async def wait(self) -> None:
        """Wait until everything taken so far is stored. Raises ``StagedSendFailed``."""
        while self._in_flight:
            self._all_there = trio.Event()
            await self._all_there.wait()
        if self._failures:
            stage = self._stages.stage_of(max(self._number - 1, 0))
            raise StagedSendFailed(stage, tuple(self._failures))

    async def _deliver(self, message: Message, outgoing: Outgoing, queue: MessageQueue) -> None:
        try:
            await self._try_to_send(outgoing, queue)
        except LanemqError as error:
            LOGGER.warning("cannot send %s to %s: %s", outgoing.message_id, queue, error)
            self._failures.append((message, error))
        except trio.Cancelled:  # the block was left by an error
            self._failures.append((message, ClientClosed("staged producer")))
            raise
        finally:
            self._slots.release()
            self._in_flight -= 1
            if not self._in_flight and self._all_there is not None:
                self._all_there.set()

    async def _try_to_send(self, outgoing: Outgoing, queue: MessageQueue) -> None:
        pause_s = FIRST_PAUSE_S
        for attempt in range(1, self._attempts + 1):
            try:
                await self._sender.send(outgoing, queue, self._options.send_timeout_s)
            except LanemqError as error:
                if not error.retriable or attempt == self._attempts:
                    raise
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                return


@asynccontextmanager
async def open_staged_sender(
    client: Client,
    sender: Sender,
    options: ProducerOptions,
    *,
    queue_key: str | int | MessageQueue,
    definitions: Iterable[int],
    concurrency: int,
    attempts: int,
    is_closed: Callable[[], bool],
) -> AsyncIterator[StagedSender]:
    """Open the sender that ``Producer.staged`` returns."""
    if concurrency < 1 or attempts < 1:
        raise ValueError("concurrency and attempts must be at least 1")
    stages = Stages(definitions)
    async with open_quiet_nursery() as nursery:
        over = False
        staged = StagedSender(
            client,
            sender,
            options,
            nursery,
            queue_key=queue_key,
            stages=stages,
            concurrency=concurrency,
            attempts=attempts,
            is_closed=lambda: over or is_closed(),
        )
        try:
            yield staged
            await staged.wait()
        finally:
            over = True
