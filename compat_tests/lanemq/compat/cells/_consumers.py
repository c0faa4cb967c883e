"""The consumers that a cell opens, and the messages that they received."""

from collections.abc import Callable
from typing import Any

import msgspec
import trio

from .._errors import ScenarioFailed
from ..clients._driver import Driver
from ..clients._messages import Delivery, Pulled, Received

RECEIVE_S = 120.0
"""Seconds that a message may take to a listener: clients look for new queues every 20 s only."""
READABLE_S = 60.0
"""Seconds that the consume queue may be behind: Apache's broker answers a send before it is
written."""


class Consumer:
    """A push consumer of the client under test, and everything it was handed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.deliveries: list[Delivery] = []
        self._changed = trio.Event()

    def deliver(self, delivery: Delivery) -> None:
        """Take note of a call of the listener."""
        self.deliveries.append(delivery)
        self._changed.set()
        self._changed = trio.Event()

    @property
    def consumed(self) -> list[Received]:
        """The messages whose listener succeeded, in the order of the calls."""
        return [delivery.message for delivery in self.deliveries if delivery.succeeded]

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of ``consumed``."""
        return [message.body for message in self.consumed]

    async def until(
        self, what: str, holds: Callable[[], bool], *, within_s: float = RECEIVE_S
    ) -> None:
        """Wait for deliveries until a condition holds; ``what`` names it in the failure."""
        with trio.move_on_after(within_s):
            while not holds():
                await self._changed.wait()
            return
        bodies = [delivery.message.body[:20] for delivery in self.deliveries[:10]]
        raise ScenarioFailed(
            f"{self.name}: no {what} within {within_s:g} s; "
            f"{len(self.deliveries)} deliveries, first {bodies}"
        )

    async def receive(self, count: int, *, within_s: float = RECEIVE_S) -> list[Received]:
        """Wait until ``count`` messages are consumed and return all that are."""
        await self.until(f"{count} messages", lambda: len(self.bodies) >= count, within_s=within_s)
        return self.consumed


class Puller:
    """A pull consumer of the client under test."""

    def __init__(self, driver: Driver, name: str, topic: str) -> None:
        self._driver, self.name, self.topic = driver, name, topic

    async def _ask(self, command: str, **arguments: object) -> Any:  # noqa: ANN401 - JSON
        return await self._driver.call(command, puller=self.name, topic=self.topic, **arguments)

    async def queues(self) -> list[int]:
        """Return the ids of the topic's queues."""
        return msgspec.convert(await self._ask("queues"), list[int])

    async def pull(
        self, queue_id: int, queue_offset: int, *, max_count: int = 32, tags: str = "*"
    ) -> Pulled:
        """Pull once, without waiting for messages."""
        arguments = {"queue_id": queue_id, "queue_offset": queue_offset, "max_count": max_count}
        return msgspec.convert(await self._ask("pull", tags=tags, **arguments), Pulled)

    async def offset(self, which: str, queue_id: int, **arguments: object) -> int:
        """Ask for an offset: ``which`` is min, max, search or committed."""
        return int(await self._ask(f"{which}_offset", queue_id=queue_id, **arguments))

    async def until_readable(self, queue_id: int, end: int) -> None:
        """Wait until the queue reaches to ``end``."""
        found = 0
        with trio.move_on_after(READABLE_S):
            while (found := await self.offset("max", queue_id)) < end:  # noqa: ASYNC110 - no event
                await trio.sleep(0.05)
            return
        raise ScenarioFailed(
            f"queue {queue_id} of {self.topic} reaches to {found}, not {end}, "
            f"after {READABLE_S:g} s"
        )

    async def earliest_time_ms(self, queue_id: int) -> int:
        """Ask when the first message was stored; only of Java clients."""
        return int(await self._ask("earliest_time", queue_id=queue_id))

    async def commit(self, queue_id: int, queue_offset: int) -> None:
        """Note that the group has read everything before ``queue_offset``."""
        await self._ask("commit_offset", queue_id=queue_id, queue_offset=queue_offset)


class LitePuller:
    """A lite pull consumer of the client under test, subscribed to one topic."""

    def __init__(self, driver: Driver, name: str) -> None:
        self._driver, self.name = driver, name

    async def receive(self, count: int, *, within_s: float = RECEIVE_S) -> list[Received]:
        """Poll until ``count`` messages have come."""
        received: list[Received] = []
        with trio.move_on_after(within_s):
            while len(received) < count:
                received += await self.poll(timeout_ms=1000)
            return received
        raise ScenarioFailed(f"{len(received)} of {count} messages polled within {within_s:g} s")

    async def poll(self, *, timeout_ms: int) -> list[Received]:
        """Poll once."""
        result = await self._driver.call("poll", puller=self.name, timeout_ms=timeout_ms)
        return msgspec.convert(result, list[Received])

    async def commit(self) -> None:
        """Commit the polled messages."""
        await self._driver.call("commit", puller=self.name)
