"""Questions to a cluster, each asked in a run of trio of its own."""

import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar, final

import trio

from lanemq.sdk import (
    BrokerUnreachable,
    Credentials,
    LanemqError,
    NoRoute,
    RefusedByBroker,
    RequestTimedOut,
)
from lanemq.sdk.admin import AdminClient, PulledRecords, PullStatus, open_admin, queues_of
from lanemq.wire import (
    DLQ_PREFIX,
    LMQ_PREFIX,
    RETRY_PREFIX,
    ResponseCode,
    is_system_topic,
    reply_topic,
)
from lanemq.wire.bodies import ExpressionType, MessageQueue

from .._errors import OptionInvalid, SourceError
from .._options import Options
from ..records import LogicalPlaces
from ._logical import logical_places
from ._offsets import Bounds, Known, QueueRange

T = TypeVar("T")
PULLED_BYTES: Final = 4 << 20
PULLED_MESSAGES: Final = 1024
"""Asked for at a time; a broker gives what its own limits let it."""
RETRY_PAUSE_S: Final = 1.0
AWAY: Final = (BrokerUnreachable, RequestTimedOut)
AWAY_WITH_ROUTE: Final = (*AWAY, NoRoute)
"""Errors of a broker that is away, for topics that had a route: name servers forget a broker
whose connection ends."""
SQL_PREFIX: Final = "sql:"
INTERNAL_PREFIXES: Final = (RETRY_PREFIX, DLQ_PREFIX, LMQ_PREFIX, "%SYS%", "RMQ_SYS_")


@final
@dataclass(frozen=True, slots=True)
class Chunk:
    """Records of one queue, as a broker gave them, and where to go on."""

    records: bytes
    next_offset: int
    min_offset: int
    places: LogicalPlaces | None = None
    """The logical queues they are in, where that was asked for."""


@final
@dataclass(frozen=True)
class Cluster:
    """A cluster as options name it. It goes to any process, and keeps nothing open."""

    name_server: str
    credentials: Credentials | None
    tls: bool
    trust: str | None
    retries: int

    @staticmethod
    def of(options: Options) -> "Cluster":
        """Read the options. Raises ``OptionInvalid``."""
        return Cluster.named(
            options.text("nameserver"),
            access_key=options.get("accessKey"),
            secret_key=options.get("secretKey"),
            security_token=options.get("securityToken"),
            tls=options.flag("tls"),
            trust=options.get("tlsTrustCertificates"),
            retries=options.number("retries") or 0,
        )

    @staticmethod
    def named(
        name_server: str,
        *,
        access_key: str | None = None,
        secret_key: str | None = None,
        security_token: str | None = None,
        tls: bool = False,
        trust: str | None = None,
        retries: int = 3,
    ) -> "Cluster":
        """Return a cluster by the address of its name servers. Raises ``OptionInvalid``, also
        where requests would go unsigned or in plain though options say otherwise."""
        credentials = None
        if bool(access_key) != bool(secret_key) or (security_token and not access_key):
            raise OptionInvalid(
                "rocketmq: accessKey and secretKey are given together, securityToken beside them"
            )
        if trust and not tls:
            raise OptionInvalid("rocketmq: tlsTrustCertificates needs tls=true")
        if access_key and secret_key:
            credentials = Credentials(
                access_key=access_key, secret_key=secret_key, security_token=security_token
            )
        return Cluster(name_server, credentials, tls, trust, retries)

    def run(
        self,
        ask: Callable[[AdminClient], Awaitable[T]],
        *,
        away: tuple[type[LanemqError], ...] = AWAY,
    ) -> T:
        """Ask, and try again while a broker is away, which errors of ``away`` tell.

        Raises ``SourceError``, naming it.
        """
        return trio.run(self._retry, ask, away)

    async def _retry(
        self, ask: Callable[[AdminClient], Awaitable[T]], away: tuple[type[LanemqError], ...]
    ) -> T:
        for left in range(self.retries, -1, -1):
            try:
                async with self.open() as admin:
                    return await ask(admin)
            except away as error:
                if not left:
                    tries = self.retries + 1
                    raise SourceError(f"rocketmq: {error} (tried {tries} times)") from error
                await trio.sleep(RETRY_PAUSE_S)
            except (LanemqError, ValueError) as error:
                raise SourceError(f"rocketmq: {error}") from error
        raise AssertionError("a loop over at least one try ends within it")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AdminClient]:
        """Open a client."""
        async with open_admin(
            name_servers=self.name_server, credentials=self.credentials, tls=self.tls_context()
        ) as admin:
            yield admin

    def tls_context(self) -> ssl.SSLContext | None:
        """Make the context that the options ask for; brokers are addressed by IP."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.trust)
        except OSError as error:
            raise OptionInvalid(
                f"rocketmq: option tlsTrustCertificates={self.trust!r}: it takes a PEM file of"
                f" authorities on every machine: {error}"
            ) from error
        context.check_hostname = False
        if self.trust is None:
            context.verify_mode = ssl.CERT_NONE
        return context


async def topics_of(admin: AdminClient, pattern: str) -> list[str]:
    """Return the topics whose whole name matches, internal ones left out.

    Internal are the brokers' own topics, those with the name of a cluster or broker among them,
    and those of a group's retries and dead letters.
    """
    wanted = re.compile(pattern)
    cluster = await admin.cluster()
    own = {*cluster.broker_addr_table, *cluster.cluster_addr_table}
    own |= {reply_topic(name) for name in cluster.cluster_addr_table}
    return sorted(
        topic
        for topic in await admin.topics()
        if wanted.fullmatch(topic)
        and topic not in own
        and not is_system_topic(topic)
        and not topic.startswith(INTERNAL_PREFIXES)
    )


async def check_filter(admin: AdminClient, topics: list[str], expression: str) -> None:
    """Let every broker of the topics check a condition in SQL. Raises ``RefusedByBroker``.

    An Apache broker gives a pull with a condition that it cannot compile every message.
    """
    for topic in topics:
        route = await admin.route(topic)
        for address in sorted({address for address, _ in queues_of(route, topic)}):
            await admin.check_filter(address, topic, expression.removeprefix(SQL_PREFIX))


async def bounds_of(admin: AdminClient, topics: list[str]) -> Known:
    """Return what brokers have of every queue of the topics."""
    known: Known = {}

    async def ask(topic: str, address: str, queue: MessageQueue) -> None:
        first = max(0, await admin.min_offset(address, queue))
        end = await admin.max_offset(address, queue)
        known[topic][queue_name(queue)] = Bounds(min(first, end), end)

    for topic in topics:
        known[topic] = {}
        route = await admin.route(topic)
        for address, queue in queues_of(route, topic):
            await ask(topic, address, queue)
        known[topic] = dict(sorted(known[topic].items()))
    return known


async def offset_at(
    admin: AdminClient, topic: str, queue_text: str, bounds: Bounds, time_ms: int
) -> int:
    """Return the offset of a queue's first message stored at a time or later; its end if there is
    none.

    Brokers answer with the message next to the time, before or behind it.
    """
    broker, _, number = queue_text.rpartition(":")
    queue = MessageQueue(topic=topic, broker_name=broker, queue_id=int(number))
    address = await _address(admin, queue)
    found = max(bounds.first, await admin.search_offset(address, queue, time_ms))
    while found < bounds.end:
        pulled = await admin.pull(address, queue, found)
        for message in pulled.messages:
            if message.store_timestamp_ms >= time_ms:
                return message.queue_offset
        if pulled.next_offset <= found:
            break
        found = pulled.next_offset
    return min(found, bounds.end)


def queue_name(queue: MessageQueue) -> str:
    return f"{queue.broker_name}:{queue.queue_id}"


async def read_chunk(
    admin: AdminClient, wanted: QueueRange, expression: str, *, with_places: bool
) -> Chunk:
    """Pull some megabytes from the beginning of a range on. Raises ``LanemqError``.

    ``with_places``: ask for the logical queues they are in, too.
    """
    broker, _, number = wanted.queue.rpartition(":")
    queue = MessageQueue(topic=wanted.topic, broker_name=broker, queue_id=int(number))
    address = await _address(admin, queue)
    is_sql = expression.startswith(SQL_PREFIX)
    parts: list[bytes] = []
    offset, size, first = wanted.begin, 0, 0
    while offset < wanted.end and size < PULLED_BYTES:
        found: PulledRecords = await admin.pull_records(
            address,
            queue,
            offset,
            expression=expression.removeprefix(SQL_PREFIX),
            expression_type=(ExpressionType.SQL92 if is_sql else ExpressionType.TAG).value,
            max_count=min(PULLED_MESSAGES, wanted.end - offset),
        )
        first = found.min_offset
        if found.status is PullStatus.NO_NEW_MSG:
            break
        if found.status is PullStatus.OFFSET_ILLEGAL and found.next_offset <= offset:
            break
        if found.status is PullStatus.OFFSET_ILLEGAL and not parts:
            return Chunk(b"", found.next_offset, first)
        parts.append(found.records)
        size += len(found.records)
        offset = found.next_offset
    # Asked for behind the pulls: what was pulled is in a segment that is known by then.
    places = await logical_places(admin, address, queue) if with_places and parts else None
    return Chunk(b"".join(parts), offset, first, places)


async def _address(admin: AdminClient, queue: MessageQueue) -> str:
    for address, one in queues_of(await admin.route(queue.topic), queue.topic):
        if one == queue:
            return address
    raise NoRoute(queue.topic, f"broker {queue.broker_name} is in no route: it is down or removed")


async def put_offset(
    admin: AdminClient, address: str, group: str, queue: MessageQueue, offset: int
) -> None:
    """Set the offset of a group, which may be new. Raises ``LanemqError``."""
    try:
        await admin.put_offset(address, group, queue, offset)
    except RefusedByBroker as error:
        if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            raise
        # 5.x takes no offset of a group that it does not know, and makes one by its first pull,
        # unless autoCreateSubscriptionGroup=false.
        await admin.pull_records(address, queue, offset, max_count=1, group=group)
        await admin.put_offset(address, group, queue, offset)
