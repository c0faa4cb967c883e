"""The plan of a query of topics: its queues, and the offsets from and to which they are read."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)

from lanemq.sdk.admin import AdminClient

from .._errors import SourceError
from .._filters import values_of
from .._options import TRUE_OR_FALSE, Option, Options
from ._cluster import Cluster, bounds_of, offsets_at, topics_of
from ._offsets import (
    EARLIEST,
    LATEST,
    Known,
    Offsets,
    QueueRange,
    parse_offsets,
    resolve,
    unknown_queues,
)

NAME: Final = "rocketmq"
LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, behind which neither Spark nor Python has times."""
OPTIONS: Final = (
    Option("path"),
    Option("nameserver"),
    Option("subscribe"),
    Option("subscribePattern"),
    Option("startingOffsets"),
    Option("endingOffsets", LATEST),
    Option("startingTimestamp"),
    Option("filterExpression", "*"),
    Option("minPartitions"),
    Option("maxOffsetsPerTrigger"),
    Option("groupId"),
    Option("failOnDataLoss", "true", TRUE_OR_FALSE),
    Option("columns"),
    Option("retries", "3"),
    Option("accessKey"),
    Option("secretKey"),
    Option("securityToken"),
    Option("tls", "false", TRUE_OR_FALSE),
    Option("tlsTrustCertificates"),
)


@final
@dataclass(frozen=True)
class Plan:
    """The options of a query, read; goes to any process."""

    cluster: Cluster
    topics: tuple[str, ...]
    pattern: str | None
    starting: str | Offsets
    ending: str | Offsets
    since_ms: int | None

    @staticmethod
    def of(options: Options, *, default_start: str) -> "Plan":
        """Read the options. Raises ``OptionInvalid``."""
        topics, pattern = options.listed("subscribe"), options.get("subscribePattern")
        if bool(topics) == bool(pattern):
            raise options.wrong("subscribe", "give either subscribe, or subscribePattern")
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise options.wrong(
                "subscribePattern", f"it is not a regular expression: {error}"
            ) from error
        since = options.number("startingTimestamp")
        if since is not None and since > LATEST_MS:
            raise options.wrong("startingTimestamp", "it takes milliseconds since 1970")
        starting: str | Offsets = default_start
        if options.get("startingOffsets"):
            if since is not None:
                raise options.wrong("startingTimestamp", "startingOffsets is given as well")
            starting = parse_offsets(options, "startingOffsets")
        return Plan(
            Cluster.of(options),
            tuple(topics),
            pattern,
            starting,
            parse_offsets(options, "endingOffsets"),
            since,
        )

    @property
    def since(self) -> datetime | None:
        """The earliest store time that is wanted."""
        return None if self.since_ms is None else datetime.fromtimestamp(self.since_ms / 1000, UTC)

    async def known(self, admin: AdminClient) -> Known:
        """Return the queues that there are now."""
        topics = list(self.topics)
        if self.pattern is not None:
            topics = await topics_of(admin, self.pattern)
        return await bounds_of(admin, topics)

    async def start(self, admin: AdminClient, known: Known) -> Offsets:
        """Return where a query begins. Raises ``SourceError``."""
        _check(self.starting, known)
        if self.since_ms is not None:
            return await offsets_at(admin, list(known), self.since_ms)
        return resolve(self.starting, known, otherwise=EARLIEST)

    def end(self, known: Known) -> Offsets:
        """Return where a query of one batch ends. Raises ``SourceError``."""
        _check(self.ending, known)
        return resolve(self.ending, known, otherwise=LATEST)


def _check(wanted: str | Offsets, known: Known) -> None:
    if missing := unknown_queues(wanted, known):
        there = ", ".join(f"{topic} {queue}" for topic in known for queue in known[topic])
        raise SourceError(f"rocketmq: there is no queue {', '.join(missing)}; there are {there}")


def narrowed(one: QueueRange, filters: Iterable[Filter]) -> QueueRange | None:
    """Return the part of a range that may have rows for the filters; None where there is none."""
    filters = tuple(filters)
    topics, queues = values_of(filters, "topic"), values_of(filters, "queue")
    if topics is not None and one.topic not in topics:
        return None
    if queues is not None and int(one.queue.rpartition(":")[2]) not in queues:
        return None
    begin, end = one.begin, one.end
    for condition in filters:
        if getattr(condition, "attribute", None) != ("queueOffset",):
            continue
        if isinstance(condition, EqualTo | GreaterThanOrEqual | GreaterThan):
            begin = max(begin, condition.value + isinstance(condition, GreaterThan))
        if isinstance(condition, EqualTo | LessThanOrEqual | LessThan):
            end = min(end, condition.value + (not isinstance(condition, LessThan)))
    return one._replace(begin=begin, end=end) if begin < end else None
