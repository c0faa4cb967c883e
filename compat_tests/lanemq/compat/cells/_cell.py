"""A cell of the matrix: one client, one cluster, and names of its own.

Objects opened here are closed by their ``async with``, also when the cell is cancelled: the
driver process lives on and serves other cells.
"""

import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import trio

from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import ConsumerIdList
from lanemq.wire.frame import Frame
from lanemq.wire.logical import parse_progress_topic

from .._errors import CompatError, NotApplicable
from ..clients._driver import Driver
from ..servers._clusters import Cluster
from ..stores._view import committed_offsets
from ._consumers import Consumer, LitePuller, Puller
from ._producers import Producer, TransactionProducer

CLOSE_S = 30.0
COMMITTED_S = 60.0
"""Seconds that a client may keep an offset to itself: some look for changes every ten seconds."""
LEFT_S = 150.0
"""Seconds after which Apache's brokers have forgotten a silent member: they look for members of 120
seconds' silence every ten."""


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
        """Return a name that is unique to this cell."""
        self._names += 1
        return f"{self._prefix}_{kind}{self._names}"

    async def topic(self, queues: int = 4) -> str:
        """Create a topic."""
        topic = self.name("topic")
        await self.cluster.control.create_topic(topic, queues)
        return topic

    async def group(self, topic: str) -> str:
        """Create a group that has an offset in ``topic``, its start.

        Apache's brokers lose one of the first offsets of a group that are committed at once
        (``ConsumerOffsetManager.commitOffset`` looks for their table and puts it in two steps).
        """
        group, control = self.name("group"), self.cluster.control
        if self.cluster.maker.startswith("apache-"):
            await control.create_group(group, retry_max_times=16)
            start = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": "0"}
            for address in await control.masters():
                await control.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, start)
        return group

    async def until_committed(self, group: str, topic: str, count: int) -> None:
        """Wait until the brokers know that a group has read ``count`` messages of a new topic.

        Returns after ``COMMITTED_S`` in any case: what the group is given next tells.
        """
        with trio.move_on_after(COMMITTED_S):
            while await self._committed(group, topic) < count:  # noqa: ASYNC110 - another process
                await trio.sleep(0.1)

    async def until_left(self, group: str, *, members: int = 0) -> None:
        """Wait until Apache's brokers list no more than ``members`` of a group, whose other
        consumers are closed.

        They take heartbeats and departures in threads of their own, so the last heartbeat may be
        taken after the departure, and after the end of its connection
        (``ClientManageProcessor``; ``heartbeatExecutor`` and ``clientManageExecutor``). The
        member that is left over holds its share of the queues. Nothing is waited for at lanemq's
        servers. Returns after ``LEFT_S`` in any case.
        """
        control = self.cluster.control
        if not self.cluster.maker.startswith("apache-"):
            return
        fields = {"consumerGroup": group}
        with trio.move_on_after(LEFT_S):
            for address in await control.masters():
                code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
                # Another process: nothing tells when it has forgotten.
                while (  # noqa: ASYNC110
                    len(_members(await control.ask(address, code, fields))) > members
                ):
                    await trio.sleep(0.2)

    async def _committed(self, group: str, topic: str) -> int:
        ends: dict[tuple[str, int], int] = {}
        for address in await self.cluster.control.masters():
            for (reader, name), queues in (await committed_offsets(address)).items():
                logical = parse_progress_topic(name)
                if reader != group or topic != (name if logical is None else logical.topic):
                    continue
                for queue_id, offset in queues.items():
                    # A logical queue is the same at all brokers, any other is its broker's own.
                    place = (address if logical is None else "", queue_id)
                    ends[place] = max(offset, ends.get(place, 0))
        return sum(ends.values())

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
    async def transaction_producer(
        self, *, group: str | None = None
    ) -> AsyncIterator[TransactionProducer]:
        """Open a producer of transactions."""
        name = self.name("transactions")
        checks = Consumer(name)
        self.driver.listen(name, checks.deliver)
        group = group or f"{name}_group"
        async with self._opened("transaction_producer", name, group=group):
            yield TransactionProducer(self.driver, name, checks)

    @asynccontextmanager
    async def replier(self, topic: str) -> AsyncIterator[None]:
        """Open a consumer that replies to requests with their bodies in capitals."""
        name = self.name("replier")
        async with self._opened("replier", name, topic=topic, group=f"{name}_group"):
            yield

    @asynccontextmanager
    async def consumer(
        self, topic: str, *, group: str | None = None, tags: str = "*", **options: object
    ) -> AsyncIterator[Consumer]:
        """Open a push consumer, from the first offset.

        Options: ``orderly``, ``broadcasting``, ``fail_first`` (the listener fails the first so
        many deliveries of each body), ``max_reconsume_times``, ``sql`` (in place of tags),
        ``properties`` (names to look for, where the API does not list them), for the SDK
        ``stages`` (their sizes; the listener is then a staged one), and for Java ``takes_ms``
        (the listener takes up to so long, differently for each body).
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


def _members(answer: Frame) -> list[str]:
    """Return the client ids that a broker lists; none where it refuses, as without any."""
    if answer.code != ResponseCode.SUCCESS:
        return []
    return list(ConsumerIdList.decode(answer.body).consumer_id_list)
