"""The broker of a log, found or chosen once, and its queues as logs of partitions."""

import os
import random
from typing import final

import trio

from lanemq.sdk import RemotingClient
from lanemq.sdk.admin import AdminClient

from ._choice import LogSplit, chosen
from ._queue import NotYet, Pulled
from ._topics import ClusterCandidates, create_log, find_log, note_broker, noted_broker
from ._upstream import UpstreamBroker, UpstreamQueue


@final
class LogLocation:
    """The location of one topic.

    Once a record of the log was seen at a broker, the log is there for as long as this proxy
    runs: another broker with an empty topic of that name must not pass for it.
    """

    def __init__(
        self,
        client: RemotingClient,
        admin: AdminClient,
        topic: str,
        *,
        queues: int,
        broker: str | None,
        beside: "LogLocation | None" = None,
    ) -> None:
        """A new log is begun at ``broker``; a topic ``beside`` a log is made where that is."""
        self._client = client
        self._admin = admin
        self.topic = topic
        self._queues = queues
        self._named = broker
        self._beside = beside
        self._found: UpstreamBroker | None = None
        self._is_fixed = False
        self._looking = trio.Lock()

    async def broker(self) -> UpstreamBroker:
        """Return the broker. Raises ``NotYet``."""
        async with self._looking:
            if self._found is None:
                self._found = await self._look()
            return self._found

    async def _look(self) -> UpstreamBroker:
        broker = await noted_broker(self._client, self._admin, self.topic)
        if broker is None:
            try:
                broker = await self._chosen()
            except LogSplit as error:
                raise NotYet(str(error)) from error
            # The name servers know it before there is anything in the log that counts.
            await note_broker(self._admin, self.topic, broker)
        place = await find_log(self._client, self._admin, self.topic, broker=broker)
        if place is None or place.queues < self._queues:
            await create_log(self._admin, self.topic, queues=self._queues, broker=broker)
            raise NotYet(f"topic {self.topic}, the log of keys, is being created")
        return UpstreamBroker(self._client, self._admin, broker)

    async def _chosen(self) -> str:
        """Return the broker of a topic that no name server knows. Raises ``NotYet``,
        ``LogSplit``."""
        if self._beside is not None:
            found = await find_log(self._client, self._admin, self.topic)
            return (await self._beside.broker()).name if found is None else found.broker
        return await chosen(
            ClusterCandidates(self._client, self._admin, self.topic, queues=self._queues),
            self.topic,
            partitions=self._queues,
            named=self._named,
            rng=random.Random(os.urandom(8)),
        )

    def fix(self) -> None:
        """Note that a record of the log was seen at the broker."""
        self._is_fixed = True

    def failed(self) -> None:
        """Note that the broker has not the log, or cannot be reached."""
        if not self._is_fixed:
            self._found = None


@final
class LocatedQueue:
    """A queue of a log, wherever that is; see ``LogQueue``."""

    def __init__(self, place: LogLocation, queue_id: int) -> None:
        self._place = place
        self._queue_id = queue_id
        self._queue: tuple[UpstreamBroker, UpstreamQueue] | None = None

    async def pull(self, offset: int, *, wait_s: float) -> Pulled:
        queue = await self._at()
        try:
            pulled = await queue.pull(offset, wait_s=wait_s)
        except NotYet:
            self._place.failed()
            raise
        if pulled.end:
            self._place.fix()
        return pulled

    async def append(self, body: bytes, properties: bytes) -> None:
        queue = await self._at()
        await queue.append(body, properties)

    async def end(self) -> int:
        queue = await self._at()
        return await queue.end()

    async def _at(self) -> UpstreamQueue:
        broker = await self._place.broker()
        if self._queue is None or self._queue[0] is not broker:
            self._queue = broker, UpstreamQueue(broker, self._place.topic, self._queue_id)
        return self._queue[1]
