"""Groups that have members who go direct, where these see another order of queues.

Who comes through a proxy has a producer group more, which the proxy adds to heartbeats. So each
broker knows all of them, whichever proxies they use, and the members of a group that lack it go
direct.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import LanemqError
from lanemq.sdk.admin import AdminClient
from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import MASTER_ID, DirectGroup, MessageModel

from ._brokers import UpstreamBrokers
from ._numbers import BrokerKey
from .moves._move_brokers import proxied_at
from .order import QueueOrder, QueueOrders

LOGGER = get_logger("lanemq.proxy.gateway", by_peers=True)

LOOK_S: Final = 30.0
"""Seconds between looks: clients send heartbeats as often."""
TOPICS_MAX: Final = 1000
GROUPS_MAX: Final = 1000
"""Most groups of a topic that are looked at."""
IDS_MAX: Final = 10
"""Most direct members of a group that are named."""

Topic = str
Group = tuple[Topic, str]
"""A topic, and a group that reads it."""


class _Members(NamedTuple):
    """The members of the groups at one broker, and who of its clients comes through proxies."""

    groups: Mapping[Group, frozenset[str]]
    proxied: frozenset[str]


@final
class DirectMembers:
    """Groups of topics in another order than the cluster's; ``run`` looks again and again."""

    def __init__(self, admin: AdminClient, brokers: UpstreamBrokers, orders: QueueOrders) -> None:
        self._admin = admin
        self._brokers = brokers
        self._orders = orders
        self._both_ways: frozenset[Group] = frozenset()
        self.groups: tuple[DirectGroup, ...] = ()
        """The groups that have direct members, by topic and name."""
        self.looks = 0
        """The number of looks that are done."""

    @property
    def both_ways(self) -> int:
        """The number of groups that have direct members and others: they divide queues twice."""
        return len(self._both_ways)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look()
            await trio.sleep(LOOK_S)

    async def look(self) -> None:
        """Ask the brokers of the topics for the members of all groups that read them.

        One that does not answer is passed over: members register at all brokers of a topic.
        """
        members: dict[Group, set[str]] = {}
        direct: dict[Group, set[str]] = {}
        for broker, topics in self._places():
            found = await self._members_at(broker, topics)
            if found is None:
                continue
            for group, ids in found.groups.items():
                members.setdefault(group, set()).update(ids)
                direct.setdefault(group, set()).update(ids - found.proxied)
        self.groups = tuple(
            DirectGroup(
                topic,
                name,
                direct=len(ids),
                proxied=len(members[topic, name] - ids),
                direct_ids=tuple(sorted(ids)[:IDS_MAX]),
            )
            for (topic, name), ids in sorted(direct.items())
            if ids
        )
        both_ways = frozenset((one.topic, one.group) for one in self.groups if one.proxied)
        for topic, name in sorted(both_ways - self._both_ways):
            LOGGER.error(
                "group %s has members who go direct and members who come through proxies: they "
                "divide the queues of topic %s in two ways, and messages are handled twice or by "
                "nobody; proxyStatus names the direct ones",
                name,
                topic,
            )
        self._both_ways = both_ways
        self.looks += 1

    def _places(self) -> Iterator[tuple[str, list[Topic]]]:
        """Iterate over the addresses of brokers, each with the topics to ask it about."""
        topics: dict[str, list[Topic]] = {}
        for topic, order in sorted(self._orders.others.items())[:TOPICS_MAX]:
            for broker in _brokers_of(order):
                topics.setdefault(broker, []).append(topic)
        for broker, asked in sorted(topics.items()):
            port = self._brokers.ports.get(BrokerKey(broker, MASTER_ID))
            if port is not None and broker not in self._brokers.gone:
                yield port.upstream, asked

    async def _members_at(self, address: str, topics: Iterable[Topic]) -> _Members | None:
        """Ask a broker; None where it does not answer."""
        admin, groups = self._admin, dict[Group, frozenset[str]]()
        try:
            proxied = await proxied_at(admin, address)
            for topic in topics:
                for name in (await admin.groups_of_topic(address, topic))[:GROUPS_MAX]:
                    ids = await self._sharing(address, name, topic)
                    if ids:
                        groups[topic, name] = ids
            # Who has left meanwhile, or come, is in one of the two.
            return _Members(groups, proxied | await proxied_at(admin, address))
        except (LanemqError, RemoteProtocolError) as error:
            LOGGER.info("groups at %s are not known: %s", address, error)
            return None

    async def _sharing(self, address: str, group: str, topic: Topic) -> frozenset[str]:
        """Return the members of a group who share the queues of a topic among themselves."""
        found = await self._admin.consumer_connections(address, group)
        if (
            found is None
            or found.message_model == MessageModel.BROADCASTING
            or topic not in found.subscription_table
        ):
            return frozenset()
        return frozenset(one.client_id for one in found.connection_set)


def _brokers_of(order: QueueOrder) -> set[str]:
    names = {name for name, _ in order.first} | {run.broker for run in order.runs}
    return names | {moved.last.broker for moved in order.moved}
