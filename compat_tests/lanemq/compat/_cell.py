"""What a scenario works with: one client, one cluster, names nobody else uses.

Objects opened here are closed by their ``async with``, also when the cell is cancelled: the
driver process lives on and serves other cells.
"""

import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import trio

from ._driver import Driver
from ._errors import CompatError, NotApplicable
from ._messages import Delivery, Outgoing, Pulled, Received, Sent
from ._scenario import ScenarioFailed
from ._servers import Cluster

RECEIVE_S = 60.0
"""How long a message may take to a listener: clients look for new queues every 20 s only."""
CLOSE_S = 30.0
READABLE_S = 10.0
"""Apache's broker answers a send before it has written the consume queue."""


class Producer:
    """A producer of the client under test."""

    def __init__(self, driver: Driver, name: str) -> None:
        self._driver, self.name = driver, name

    async def send(
        self, message: Outgoing, *, mode: str = "sync", queue_id: int | None = None
    ) -> Sent:
        """Send and return what the client made of the answer (mode "sync" or "async")."""
        result = await self._send(message, mode, queue_id)
        return msgspec.convert(result, Sent)

    async def send_oneway(self, message: Outgoing, *, queue_id: int | None = None) -> None:
        """Send without an answer."""
        await self._send(message, "oneway", queue_id)

    async def _send(self, message: Outgoing, mode: str, queue_id: int | None) -> Any:  # noqa: ANN401
        chosen = {} if queue_id is None else {"queue_id": queue_id}
        return await self._driver.call(
            "send", producer=self.name, mode=mode, message=message, **chosen
        )

    async def send_batch(self, messages: Sequence[Outgoing]) -> Sent:
        """Send several messages as one request."""
        result = await self._driver.call("send_batch", producer=self.name, messages=messages)
        return msgspec.convert(result, Sent)

    async def query_by_key(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = 1 << 62
    ) -> list[Received]:
        """Ask for messages by one of their KEYS, stored in a span of time."""
        result = await self._driver.call(
            "query_by_key",
            producer=self.name,
            topic=topic,
            key=key,
            max_count=32,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )
        return msgspec.convert(result, list[Received])

    async def query_by_unique_key(self, topic: str, message_id: str) -> Received:
        """Ask for a message by the unique key its sender gave it."""
        arguments = {"producer": self.name, "topic": topic, "message_id": message_id}
        return msgspec.convert(
            await self._driver.call("query_by_unique_key", **arguments), Received
        )

    async def view(self, topic: str, offset_id: str) -> Received:
        """Ask for a message by the id that says where it lies."""
        arguments = {"producer": self.name, "topic": topic, "offset_id": offset_id}
        return msgspec.convert(await self._driver.call("view_message", **arguments), Received)


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
        """Wait until so many messages are consumed and return all that are."""
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
        """Wait until the queue reaches to ``end``, or had time enough to."""
        with trio.move_on_after(READABLE_S):
            # Nobody tells a client; it asks again.
            while await self.offset("max", queue_id) < end:  # noqa: ASYNC110
                await trio.sleep(0.05)

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
        """Poll until so many messages have come."""
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
        """Commit what was polled."""
        await self._driver.call("commit", puller=self.name)


class Cell:
    """One scenario with one client on one cluster."""

    def __init__(
        self,
        scenario: str,
        driver: Driver,
        cluster: Cluster,
        partner: Callable[[str], Awaitable[Driver]] | None = None,
    ) -> None:
        self.driver = driver
        self.cluster = cluster
        self._scenario = scenario
        self._partner = partner
        label = re.sub("[^a-zA-Z0-9]", "_", f"{scenario}_{driver.client}")
        self._prefix = f"{label}_{secrets.token_hex(3)}"
        self._names = 0

    @property
    def client(self) -> str:
        """The name of the client under test."""
        return self.driver.client

    def name(self, kind: str) -> str:
        """Return a name nobody else uses."""
        self._names += 1
        return f"{self._prefix}_{kind}{self._names}"

    async def topic(self, queues: int = 4) -> str:
        """Create a topic."""
        topic = self.name("topic")
        await self.cluster.control.create_topic(topic, queues)
        return topic

    async def partner(self, client: str) -> "Cell":
        """Return the same cell with another client; raises ``NotApplicable`` if it is missing."""
        if self._partner is None:
            raise NotApplicable("no other client is running beside this one")
        return Cell(self._scenario, await self._partner(client), self.cluster, self._partner)

    @asynccontextmanager
    async def producer(self, **options: object) -> AsyncIterator[Producer]:
        """Open a producer. Options: ``max_message_bytes``."""
        name = self.name("producer")
        async with self._opened("producer", name, group=f"{name}_group", **options):
            yield Producer(self.driver, name)

    @asynccontextmanager
    async def consumer(
        self, topic: str, *, group: str | None = None, tags: str = "*", **options: object
    ) -> AsyncIterator[Consumer]:
        """Open a push consumer, from the first offset.

        Options: ``orderly``, ``broadcasting``, ``fail_first`` (the listener fails the first so
        many deliveries of each body), ``max_reconsume_times``, ``sql`` (in place of tags), for
        the SDK ``stages`` (their sizes; the listener is then a staged one), and for Java
        ``takes_ms`` (the listener takes up to so long, differently for each body).
        """
        consumer = Consumer(self.name("consumer"))
        self.driver.listen(consumer.name, consumer.deliver)
        group = group or self.name("group")
        options = {"group": group, "topic": topic, "tags": tags, **options}
        async with self._opened("consumer", consumer.name, **options):
            yield consumer

    @asynccontextmanager
    async def puller(self, topic: str, *, group: str | None = None) -> AsyncIterator[Puller]:
        """Open a pull consumer."""
        name = self.name("puller")
        async with self._opened("puller", name, group=group or f"{name}_group"):
            yield Puller(self.driver, name, topic)

    @asynccontextmanager
    async def lite_puller(self, topic: str, *, group: str) -> AsyncIterator[LitePuller]:
        """Open a lite pull consumer, from the first offset."""
        name = self.name("lite")
        async with self._opened("lite_puller", name, group=group, topic=topic, tags="*"):
            yield LitePuller(self.driver, name)

    @asynccontextmanager
    async def _opened(self, kind: str, name: str, **arguments: object) -> AsyncIterator[None]:
        address = self.cluster.name_server
        await self.driver.call(f"open_{kind}", name=name, name_server=address, **arguments)
        try:
            yield
        except BaseException:
            # The failure inside is what matters, not that closing after it failed too.
            with (
                suppress(CompatError),
                trio.CancelScope(shield=True),
                trio.move_on_after(CLOSE_S),
            ):
                await self.driver.call(f"close_{kind}", name=name)
            raise
        await self.driver.call(f"close_{kind}", name=name)
