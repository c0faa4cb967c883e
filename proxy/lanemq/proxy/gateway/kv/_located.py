"""The broker of a log, found or chosen once, and its queues as logs of partitions."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import RemotingClient
from lanemq.sdk.admin import AdminClient

from ._choice import LogSplit, chosen
from ._known import KnownLog, OtherLog
from ._queue import NotYet, Pulled
from ._topics import (
    ClusterCandidates,
    create_log,
    find_log,
    note_again,
    note_broker,
    noted_broker,
)
from ._upstream import UpstreamBroker, UpstreamQueue

LOGGER: Final = get_logger("lanemq.proxy.gateway.kv", by_peers=True)
NOTED_S: Final = 5.0
"""Seconds between two looks whether all name servers know the broker of a log."""


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
        known: KnownLog | None = None,
    ) -> None:
        """A new log is begun at ``broker``; a topic ``beside`` a log is made where that is.
        ``known`` is what this proxy knows of the log."""
        self._client = client
        self._admin = admin
        self.topic = topic
        self._queues = queues
        self._candidates = ClusterCandidates(client, admin, topic, queues=queues, known=known)
        self._known = known
        self._named = broker
        self._beside = beside
        self._found: UpstreamBroker | None = None
        self._is_fixed = False
        self._is_read = False
        self._said: dict[str, str] = {}
        self._looking = trio.Lock()

    async def broker(self) -> UpstreamBroker:
        """Return the broker. Raises ``NotYet``."""
        async with self._looking:
            if self._found is None:
                self._found = await self._look()
            return self._found

    async def _look(self) -> UpstreamBroker:
        noted = await noted_broker(self._client, self._admin, self.topic)
        broker = noted if self._known is None else self._known.check_broker(noted)
        if broker is None:
            try:
                broker = await self._chosen()
            except LogSplit as error:
                raise NotYet(str(error)) from error
            # The name servers know it before there is anything in the log that counts.
            await note_broker(self._admin, self.topic, broker)
        place = await find_log(self._client, self._admin, self.topic, broker=broker)
        if self._known is not None:
            queues = None if place is None else place.queues
            self._known.check_place(queues, broker, is_noted=noted is not None)
        if place is None or place.queues < self._queues:
            await create_log(
                self._admin, self.topic, queues=self._queues, broker=broker, known=self._known
            )
            raise NotYet(f"topic {self.topic}, the log of keys, is being created")
        return UpstreamBroker(self._client, self._admin, broker)

    async def _chosen(self) -> str:
        """Return the broker of a topic that no name server knows. Raises ``NotYet``,
        ``LogSplit``."""
        if self._beside is not None:
            found = await find_log(self._client, self._admin, self.topic)
            return (await self._beside.broker()).name if found is None else found.broker
        return await chosen(
            self._candidates,
            self.topic,
            partitions=self._queues,
            named=self._named,
            rng=random.Random(os.urandom(8)),
        )

    def check(self, birth: str, is_dropped: bool = False, *, partition: int = 0) -> None:
        """Check the log that was read there; see ``KnownLog``. Where it is another one, its broker
        is looked for again. Raises ``OtherLog``, ``NotYet``."""
        if self._known is None:
            return
        if self._found is None:  # since it was read: another partition was of another log
            raise NotYet(f"the broker of topic {self.topic} is looked for again")
        try:
            self._known.check(
                birth,
                self._found.name,
                is_dropped,
                partition=partition,
                partitions=self._queues,
            )
        except OtherLog:
            self._found, self._is_fixed, self._is_read = None, False, False
            raise

    def fix(self) -> None:
        """Note that a record of the log was seen at the broker, just now."""
        self._is_fixed = self._is_read = True

    def failed(self) -> None:
        """Note that the broker has not the log, or cannot be reached."""
        self._is_read = False
        if not self._is_fixed:
            self._found = None

    def taken(self) -> None:
        """Note that the broker took a record: what is hardly ever read is noted again by this."""
        self._is_read = self._is_fixed

    @property
    def is_read(self) -> bool:
        """True while the broker answers, and has the log; of a topic beside one, which is hardly
        ever read, only while that is read."""
        return self._is_read and (self._beside is None or self._beside.is_read)

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Note where a request to the broker fails. Raises what the block raises."""
        try:
            yield
        except NotYet:
            self.failed()
            raise

    async def keep_noted(self) -> None:
        """See to it that all name servers know the broker, until cancelled.

        Where all have lost their tables, a proxy that starts while that broker is not registered
        yet would begin another log. Nothing is noted while the broker does not answer: the log may
        be gone for good, and deleted at the name servers.
        """
        while True:
            await trio.sleep(NOTED_S)
            found = self._found
            if found is None or not self.is_read:
                continue
            others = await note_again(self._client, self._admin, self.topic, found.name)
            for server, broker in others.items():
                if self._said.get(server) != broker:
                    self._said[server] = broker
                    LOGGER.critical(
                        "topic %s, a log of keys, is followed at broker %s, and name server %s "
                        "says that it is at %s: proxies that start would follow another log",
                        self.topic,
                        found.name,
                        server,
                        broker,
                    )


@final
class LocatedQueue:
    """A queue of a log, wherever that is; see ``LogQueue``."""

    def __init__(self, place: LogLocation, queue_id: int) -> None:
        self._place = place
        self._queue_id = queue_id
        self._queue: tuple[UpstreamBroker, UpstreamQueue] | None = None

    async def pull(self, offset: int, *, wait_s: float) -> Pulled:
        queue = await self._at()
        with self._place.asked():
            pulled = await queue.pull(offset, wait_s=wait_s)
        if pulled.end:
            self._place.fix()
        return pulled

    async def append(self, body: bytes, properties: bytes) -> None:
        queue = await self._at()
        with self._place.asked():
            await queue.append(body, properties)
        self._place.taken()

    async def end(self) -> int:
        queue = await self._at()
        with self._place.asked():
            return await queue.end()

    async def _at(self) -> UpstreamQueue:
        broker = await self._place.broker()
        if self._queue is None or self._queue[0] is not broker:
            self._queue = broker, UpstreamQueue(broker, self._place.topic, self._queue_id)
        return self._queue[1]
