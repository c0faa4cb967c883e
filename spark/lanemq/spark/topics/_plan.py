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

from lanemq.sdk import InvalidName, Sql
from lanemq.sdk.admin import AdminClient
from lanemq.wire import LocalProtocolError
from lanemq.wire.bodies import parse_tag_expression

from .._errors import SourceError
from .._filters import values_of
from .._options import PUSH_FILTERS, TRUE_OR_FALSE, Option, Options
from ._cluster import SQL_PREFIX, Cluster, bounds_of, check_filter, offset_at, topics_of
from ._offsets import (
    EARLIEST,
    LATEST,
    LATEST_MS,
    Assigned,
    Known,
    Offsets,
    QueueRange,
    Times,
    parse_assigned,
    parse_offsets,
    parse_times,
    resolve,
    unknown_queues,
)

NAME: Final = "rocketmq"
NOT_IN_TAGS: Final = "|&<>=(),"
"""Characters of lists and conditions: as one tag, which no message has, they would find nothing."""
OPTIONS: Final = (
    Option("path"),
    Option("nameserver"),
    Option("subscribe"),
    Option("subscribePattern"),
    Option("assign"),
    Option("startingOffsets"),
    Option("endingOffsets"),
    Option("startingTimestamp"),
    Option("startingOffsetsByTimestamp"),
    Option("endingTimestamp"),
    Option("endingOffsetsByTimestamp"),
    Option("filterExpression", "*"),
    Option("minPartitions"),
    Option("maxOffsetsPerTrigger"),
    Option("minOffsetsPerTrigger"),
    Option("maxTriggerDelay", "15m"),
    Option("groupId"),
    Option("failOnDataLoss", "true", TRUE_OR_FALSE),
    Option("columns"),
    Option(PUSH_FILTERS, "false", TRUE_OR_FALSE),
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
    assigned: Assigned | None
    """The queues of each topic that ``assign`` names; None for all of a topic's queues."""
    starting: str | Offsets | Times
    ending: str | Offsets | Times
    since_ms: int | None
    expression: str
    """Tags, or ``sql:`` and a condition."""

    @staticmethod
    def of(options: Options, *, default_start: str) -> "Plan":
        """Read the options. Raises ``OptionInvalid``."""
        topics, pattern = options.listed("subscribe"), options.get("subscribePattern")
        assigned = parse_assigned(options)
        if [bool(topics), bool(pattern), assigned is not None].count(True) != 1:
            raise options.wrong(
                "subscribe", "give either subscribe, or subscribePattern, or assign"
            )
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise options.wrong(
                "subscribePattern", f"it is not a regular expression: {error}"
            ) from error
        starting = _one_of(options, "starting", default_start)
        ending = _one_of(options, "ending", LATEST)
        if (
            isinstance(starting, Times)
            and isinstance(ending, Times)
            and (starting.of_all or 0) > (LATEST_MS if ending.of_all is None else ending.of_all)
        ):
            raise options.wrong(
                "startingTimestamp", f"endingTimestamp={ending.of_all} is before it"
            )
        return Plan(
            Cluster.of(options),
            tuple(assigned) if assigned is not None else tuple(topics),
            pattern,
            assigned,
            starting,
            ending,
            starting.of_all if isinstance(starting, Times) else None,
            _expression(options),
        )

    @property
    def since(self) -> datetime | None:
        """The earliest store time that is wanted."""
        return None if self.since_ms is None else datetime.fromtimestamp(self.since_ms / 1000, UTC)

    async def checked(self, admin: AdminClient) -> Known:
        """Return the queues that there are now, after their brokers have checked a condition.

        Raises ``LanemqError``.
        """
        known = await self.known(admin)
        if self.expression.startswith(SQL_PREFIX):
            await check_filter(admin, list(known), self.expression)
        return known

    async def known(self, admin: AdminClient) -> Known:
        """Return the queues that there are now."""
        topics = list(self.topics)
        if self.pattern is not None:
            topics = await topics_of(admin, self.pattern)
        known = await bounds_of(admin, topics)
        return known if self.assigned is None else _assigned(self.assigned, known)

    async def start(self, admin: AdminClient, known: Known) -> Offsets:
        """Return the offsets at which a query begins. Raises ``SourceError``."""
        return await _resolved(admin, self.starting, known, otherwise=EARLIEST)

    async def end(self, admin: AdminClient, known: Known) -> Offsets:
        """Return the offsets before which a query of one batch ends. Raises ``SourceError``."""
        return await _resolved(admin, self.ending, known, otherwise=LATEST)


def _one_of(options: Options, edge: str, default: str) -> str | Offsets | Times:
    """Read the options of one edge, of which at most one may be given. Raises ``OptionInvalid``."""
    names = (f"{edge}Timestamp", f"{edge}OffsetsByTimestamp", f"{edge}Offsets")
    given = [name for name in names if options.is_given(name)]
    if len(given) > 1:
        raise options.wrong(given[0], f"{given[1]} is given as well")
    if not given:
        return default
    if given[0] == f"{edge}Offsets":
        return parse_offsets(options, given[0])
    if given[0] == f"{edge}OffsetsByTimestamp":
        return Times(None, parse_times(options, given[0]))
    number = options.number(given[0])
    if number is None or number > LATEST_MS:
        raise options.wrong(given[0], "it takes milliseconds since 1970")
    return Times(number, {})


def _assigned(assigned: Assigned, known: Known) -> Known:
    """Return the queues that ``assign`` names. Raises ``SourceError`` if one is not there."""
    _check({topic: dict.fromkeys(queues, 0) for topic, queues in assigned.items()}, known)
    return {
        topic: {queue: known[topic][queue] for queue in queues}
        for topic, queues in assigned.items()
    }


async def _resolved(
    admin: AdminClient, wanted: str | Offsets | Times, known: Known, *, otherwise: str
) -> Offsets:
    if not isinstance(wanted, Times):
        _check(wanted, known)
        return resolve(wanted, known, otherwise=otherwise)
    _check(wanted.by_queue, known)
    found = resolve(otherwise, known, otherwise=otherwise)
    for topic, queues in known.items():
        for queue, bounds in queues.items():
            time_ms = wanted.by_queue.get(topic, {}).get(queue, wanted.of_all)
            if time_ms is not None:
                found[topic][queue] = await offset_at(admin, topic, queue, bounds, time_ms)
    return found


def _expression(options: Options) -> str:
    """Return the filter, checked as the broker would. Raises ``OptionInvalid``."""
    expression = options.text("filterExpression")
    if expression.startswith(SQL_PREFIX):
        try:
            Sql(expression.removeprefix(SQL_PREFIX))
        except InvalidName as error:
            raise options.wrong("filterExpression", str(error)) from error
        return expression
    try:
        tags = parse_tag_expression(expression).tags
    except LocalProtocolError as error:
        raise options.wrong("filterExpression", str(error)) from error
    for tag in sorted(tags):
        if any(one in NOT_IN_TAGS or one.isspace() for one in tag):
            raise options.wrong(
                "filterExpression",
                f"{tag!r} is no tag: write tags as A || B, and a condition as sql: price > 100."
                " Tags with commas are for filters of Spark",
            )
    return expression


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
