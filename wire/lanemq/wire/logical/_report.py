"""The report of a lanemq broker to a name server: logical queues, beyond 5.0.0-PREVIEW's map.

It is a member of the table of topics in a registration, so a name server that does not know it
passes over it. The name server's own report is an ext field of its answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import ClassVar, Final, final

from .._errors import RemoteProtocolError
from ..bodies._body import Body
from ._queues import LogicalQueues

REPORT_MEMBER: Final = "lanemqLogicalQueues"

JAVA_ALL: Final = "all"
JAVA_NONE: Final = "none"


@final
class ClientView(StrEnum):
    """The view of a topic with logical queues for clients that do not know them."""

    LOGICAL = "logical"
    """One broker with as many queues: a logical listener, which translates offsets."""
    PHYSICAL = "physical"
    """The queues of the brokers, as they are."""

    @classmethod
    def from_json(cls, value: object) -> "ClientView":
        """Return a view by its name. Raises ``RemoteProtocolError`` for any other value."""
        for view in cls:
            if value == view.value:
                return view
        raise RemoteProtocolError(f"expected logical or physical, not {str(value)[:40]!r}")


@dataclass(frozen=True, slots=True)
class GapReport(Body):
    """Offsets of a logical queue, from ``begin`` to before ``end``, that no broker has.

    Without this, a name server takes a gap for a report that is late, and shows nothing of the
    queue behind it.
    """

    NAMES: ClassVar = {"logical_index": "logicalQueueIndex"}

    logical_index: int
    begin: int
    end: int


def gaps_beside(broker_name: str, queues: LogicalQueues) -> tuple[GapReport, ...]:
    """Return the gaps that a broker knows of: right before or behind a segment of its own.

    ``queues`` are all it knows of a topic. What lies between others' segments it may not have
    heard of; of its own it knows what came before and what comes next.
    """
    gaps = []
    for chain in queues.values():
        placed = chain.placed
        for before, after in pairwise(placed):
            is_beside = broker_name in (before.broker_name, after.broker_name)
            end = before.end_offset
            if is_beside and end is not None and end < after.delta:
                gaps.append(GapReport(chain.index, end, after.delta))
    return tuple(gaps)


@dataclass(frozen=True, slots=True)
class TopicReport(Body):
    """A broker's knowledge of one of its topics with logical queues."""

    client_view: ClientView = ClientView.LOGICAL
    serve_to_java: bool = True
    """True if flagged Java clients may be told of the logical queues (see ``serves_java``)."""
    gaps: tuple[GapReport, ...] = ()
    """The gaps that ``gaps_beside`` finds."""
    brokers: int = 1
    """Number of brokers at which older clients see its logical queues; 0 from a broker that has not
    heard of it yet."""


@dataclass(frozen=True, slots=True)
class LogicalListenerReport(Body):
    """A logical listener of the broker's process."""

    address: str
    """``host:port`` that clients connect to."""
    since_ms: int = 0
    """Time it began to listen, in milliseconds since 1970: all name servers name the oldest."""
    addresses: tuple[str, ...] = ()
    """Its address for each of the brokers that older clients see, from the first on."""

    def address_of(self, number: int) -> str | None:
        """Return the address at which it stands for broker ``number``; None where it does not."""
        addresses = self.addresses or (self.address,)
        return addresses[number] if number < len(addresses) else None


@dataclass(frozen=True, slots=True)
class LogicalQueueReport(Body):
    """The whole member; a broker of lanemq always sends it."""

    is_whole: bool = True
    """True if the registration has every topic: one that it lacks has no logical queues here."""
    listener: LogicalListenerReport | None = None
    topics: Mapping[str, TopicReport] = field(default_factory=dict)

    @classmethod
    def of(cls, members: Mapping[str, object]) -> "LogicalQueueReport | None":
        """Return the report in the further members of a table of topics; None if it has none."""
        value = members.get(REPORT_MEMBER)
        return None if value is None else cls.from_json(value)

    def added_to(self, members: Mapping[str, object]) -> dict[str, object]:
        """Return ``members`` with the report added."""
        return {**members, REPORT_MEMBER: self.to_json()}


def serves_java(setting: str, topic: str) -> bool:
    """Return True if ``serveLogicalQueueToJava`` lets Java clients see a topic's logical queues.

    The setting is ``all``, ``none``, or the topics that they may, with commas between. A client
    of 5.0.0-PREVIEW can read logical queues only if the program around it has initialised a
    class of it first; others fail on every such topic. A broker forwards for them what arrives
    at the wrong segment, so it has to know which topics they do not see.
    """
    if setting in (JAVA_ALL, JAVA_NONE):
        return setting == JAVA_ALL
    return topic in (name.strip() for name in setting.split(","))
