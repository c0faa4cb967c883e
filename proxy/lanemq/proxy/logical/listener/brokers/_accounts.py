"""Proofs for segments that a name server does not list: the accounts of the segments' brokers.

A name server that has just started knows no topic, or some of the brokers only. So what it does
not list is not gone for that: the broker of a segment decides. A broker that does not answer
is given the time in which it would have registered again.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, Protocol, final

import trio
from attrs import define, field

from lanemq.sdk import LanemqError, RemotingClient
from lanemq.wire import RemoteProtocolError, RequestCode
from lanemq.wire.frame import request
from lanemq.wire.headers import QueryLogicalQueueMapping
from lanemq.wire.logical import LogicalQueues, Segment, SegmentKey

from ....net._turns import read_answer
from ._views import TopicView, is_lasting

ASK_S: Final = 2.0
"""Seconds that a broker may take to show its account."""
UNHEARD_S: Final = 60.0
"""Seconds for which a segment is kept that name servers do not list and whose broker does not
answer. Brokers register every 30 s at the latest, so a broker that is alive is listed by then."""

Accounts = Mapping[str, LogicalQueues]
"""Broker name -> everything that it knows of a topic, for the brokers that answered."""


class OwnAccount(Protocol):
    """The logical queues on the disk of this process's broker."""

    @property
    def broker_name(self) -> str:
        """The name of the broker."""

    @property
    def address(self) -> str:
        """The address of the broker."""

    @property
    def brokers(self) -> Mapping[str, int]:
        """Topic -> number of brokers at which older clients see it; 0 if that is not known."""

    def queues(self, topic: str) -> LogicalQueues | None:
        """Return everything known of a topic; None if it has no logical queues."""

    def known_queues(self) -> Mapping[str, LogicalQueues]:
        """Return everything known of every topic."""


@final
@define(eq=False, kw_only=True, repr=False)
class BrokerAccounts:
    """Questions to brokers about their own segments (413)."""

    _client: RemotingClient
    _own: OwnAccount | None
    _missing_since: dict[str, dict[SegmentKey, float]] = field(factory=dict, init=False)
    """Topic -> segment whose broker does not answer -> time from which no name server listed it."""

    _closed_since: dict[str, dict[int, float]] = field(factory=dict, init=False)
    """Topic -> closed queue -> time from which no name server listed it."""

    async def ask(self, topic: str, addresses: Mapping[str, str | None]) -> Accounts:
        """Ask brokers, by name and address, for their accounts of a topic; this process's own as
        well."""
        accounts: dict[str, LogicalQueues] = {}
        if self._own is not None:
            accounts[self._own.broker_name] = self._own.queues(topic) or LogicalQueues()
        header = QueryLogicalQueueMapping(topic=topic)
        asked = request(RequestCode.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING, header.to_fields())

        async def ask(name: str, address: str) -> None:
            try:
                answer = await self._client.call(address, asked, ASK_S)
                body = answer.body
                told = await read_answer(len(body), partial(LogicalQueues.decode, body))
            except (LanemqError, RemoteProtocolError):
                return
            accounts[name] = told if told is not None else LogicalQueues()

        async with trio.open_nursery() as nursery:
            for name, address in addresses.items():
                if address is not None and name not in accounts:
                    nursery.start_soon(ask, name, address)
        return accounts

    def kept(
        self, topic: str, missing: Iterable[Segment], accounts: Accounts, now_s: float
    ) -> list[Segment]:
        """Return the segments that are still there, in the states that their brokers report."""
        kept: list[Segment] = []
        known, since = self._missing_since.pop(topic, {}), dict[SegmentKey, float]()
        for segment in missing:
            account = accounts.get(segment.broker_name)
            if account is not None:
                chain = account.get(segment.logical_index)
                found = chain.find(segment.key) if chain is not None else None
                if found is not None and is_lasting(found):
                    kept.append(found)
                continue
            since[segment.key] = begun_s = known.get(segment.key, now_s)
            if now_s - begun_s < UNHEARD_S:
                kept.append(segment)
        if since:
            self._missing_since[topic] = since
        return kept

    def closed(
        self,
        topic: str,
        known: TopicView | None,
        view: TopicView,
        accounts: Accounts,
        now_s: float,
    ) -> list[Segment]:
        """Return the segments of known queues that ``view`` lacks as a whole, since they were
        closed without a message.

        Whoever still sends there is told that by them, and not that there is no such queue. Name
        servers that have forgotten a topic list them when their broker has registered again.
        """
        before, since = self._closed_since.pop(topic, {}), dict[int, float]()
        found: list[Segment] = []
        for index, chain in () if known is None else known.queues.items():
            if index in view.queues or not chain:
                continue
            account = accounts.get(chain[-1].broker_name)
            if account is not None:
                told = account.of_broker(chain[-1].broker_name).get(index)
                found += [segment for segment in told or () if segment.delta >= 0]
            elif not any(map(is_lasting, chain)):
                since[index] = begun_s = before.get(index, now_s)
                if now_s - begun_s < UNHEARD_S:
                    found += chain
        if since:
            self._closed_since[topic] = since
        return found

    def with_own(self, topic: str, view: TopicView | None) -> TopicView | None:
        """Return the view with the segments of this process's broker as it has them on its disk.

        Without a view it is all that this broker knows of the topic.
        """
        own = self._own
        queues = own.queues(topic) if own is not None else None
        if own is None or queues is None:
            return view
        if view is None:
            return TopicView(queues, {own.broker_name: own.address}, self.brokers_of(topic))
        segments = queues.of_broker(own.broker_name).segments
        return view.with_segments(*filter(is_lasting, segments))

    def brokers_of(self, topic: str) -> int:
        """Return the number of brokers at which older clients see a topic, as far as this process's
        broker has it on its disk; else 1."""
        return (self._own.brokers.get(topic) if self._own is not None else None) or 1


def told_by_brokers(accounts: Accounts) -> list[Segment]:
    """Return each broker's segments as it reports them itself, and those of the brokers that did
    not answer as others know them."""
    found: dict[SegmentKey, Segment] = {}
    for name, queues in accounts.items():
        for segment in filter(is_lasting, queues.segments):
            is_its_own = segment.broker_name == name
            if is_its_own or (segment.broker_name not in accounts and segment.key not in found):
                found[segment.key] = segment
    return list(found.values())
