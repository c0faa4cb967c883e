"""Who is connected: the producers and consumers of every group, learnt from their heartbeats.

A registration belongs to a connection, whichever of the broker's ports it came in at, and ends
with it, with an unregistration, or 120 s after the last heartbeat. The consumers of a group
are told when its members or subscriptions change, so that they share the queues anew.

Source: RocketMQ 4.9.8, ConsumerManager, ConsumerGroupInfo, ProducerManager.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar, final

from lanemq.wire import ConsumerData, HeartbeatData, SubscriptionData

from ._consumer_filters import ConsumerFilters

CLIENT_LIFE_S = 120.0

SessionT = TypeVar("SessionT")


@dataclass(slots=True)
class Client(Generic[SessionT]):
    """A member of one group: a connection, and what the client behind it said of itself."""

    session: SessionT
    client_id: str
    language: str
    version: int
    seen_s: float


@dataclass(slots=True)
class ConsumerGroup(Generic[SessionT]):
    """A consumer group with at least one member; the last heartbeat's word counts for all."""

    name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    """By topic. All members are supposed to subscribe alike; they overwrite each other."""
    filters: ConsumerFilters = field(default_factory=ConsumerFilters)
    """Of the subscriptions that are no tags."""
    clients: dict[SessionT, Client[SessionT]] = field(default_factory=dict)
    seen_s: float = 0.0

    def client_ids(self) -> list[str]:
        """Sorted and without duplicates: the members divide the queues by this list."""
        return sorted({client.client_id for client in self.clients.values()})

    def find(self, client_id: str) -> Client[SessionT] | None:
        """The member with that id; the one heard from last, where two connections claim it."""
        found = [client for client in self.clients.values() if client.client_id == client_id]
        return max(found, key=lambda client: client.seen_s, default=None)


@dataclass(slots=True)
class Departed(Generic[SessionT]):
    """What ``expire`` removed."""

    sessions: list[SessionT]
    """Connections not heard from; they are to be closed."""
    changed_groups: list[str]
    """Consumer groups that lost a member; the others are to be told."""


@final
class ClientRegistry(Generic[SessionT]):
    """All groups of one broker. Pure: times are arguments, in seconds of any one clock."""

    def __init__(self) -> None:
        self._consumers: dict[str, ConsumerGroup[SessionT]] = {}
        self._producers: dict[str, dict[SessionT, Client[SessionT]]] = {}
        # The groups of each connection, so that its end costs what it had, not all there are.
        self._sessions: dict[SessionT, set[tuple[bool, str]]] = {}

    def heartbeat(
        self,
        session: SessionT,
        data: HeartbeatData,
        *,
        language: str,
        version: int,
        now_s: float,
    ) -> list[str]:
        """Register everything ``data`` says; returns the consumer groups that changed by it."""
        changed: list[str] = []
        for consumer in data.consumer_data_set:
            group = self._consumers.get(consumer.group_name)
            if group is None:
                group = self._consumers[consumer.group_name] = ConsumerGroup(
                    consumer.group_name, "", "", ""
                )
            group.consume_type = consumer.consume_type
            group.message_model = consumer.message_model
            group.consume_from_where = consumer.consume_from_where
            group.seen_s = now_s
            is_new = self._join(group.clients, session, data.client_id, language, version, now_s)
            if is_new:
                self._sessions.setdefault(session, set()).add((True, group.name))
            if self._subscribe(group, consumer) or is_new:
                changed.append(group.name)
        for producer in data.producer_data_set:
            members = self._producers.setdefault(producer.group_name, {})
            if self._join(members, session, data.client_id, language, version, now_s):
                self._sessions.setdefault(session, set()).add((False, producer.group_name))
        return changed

    def unregister(
        self, session: SessionT, *, producer_group: str | None, consumer_group: str | None
    ) -> list[str]:
        """Take the connection out of the groups named; returns the consumer groups changed."""
        if producer_group:
            self._leave(session, is_consumer=False, name=producer_group)
        if consumer_group and self._leave(session, is_consumer=True, name=consumer_group):
            return [consumer_group]
        return []

    def closed(self, session: SessionT) -> list[str]:
        """Take the connection out of every group; returns the consumer groups changed."""
        return [
            name
            for is_consumer, name in sorted(self._sessions.get(session, ()))
            if self._leave(session, is_consumer=is_consumer, name=name) and is_consumer
        ]

    def expire(self, now_s: float) -> Departed[SessionT]:
        """Remove the members that were not heard from for 120 s.

        The reference does not tell the others of a group; they would find out by themselves
        within 20 s. Telling them is the caller's choice.
        """
        gone: dict[SessionT, None] = {}
        changed: dict[str, None] = {}
        for is_consumer, name, clients in list(self._groups()):
            for session, client in list(clients.items()):
                if now_s - client.seen_s > CLIENT_LIFE_S:
                    gone[session] = None
                    self._leave(session, is_consumer=is_consumer, name=name)
                    if is_consumer:
                        changed[name] = None
        return Departed(list(gone), list(changed))

    def consumer_group(self, name: str) -> ConsumerGroup[SessionT] | None:
        """The consumer group, or None while it has no member."""
        return self._consumers.get(name)

    def consumer_groups(self) -> Iterable[ConsumerGroup[SessionT]]:
        """Every consumer group that has a member."""
        return self._consumers.values()

    def producers(self, group: str) -> Iterable[Client[SessionT]]:
        """The members of a producer group; none for one that is not known."""
        return self._producers.get(group, {}).values()

    def producer_groups(self) -> Iterable[str]:
        """The names of the producer groups that have a member."""
        return self._producers.keys()

    def groups_of_topic(self, topic: str) -> list[str]:
        """The consumer groups that subscribe to ``topic`` now."""
        return [group.name for group in self._consumers.values() if topic in group.subscriptions]

    def sessions_of(self, group: str) -> list[SessionT]:
        """The connections of a consumer group."""
        found = self._consumers.get(group)
        return list(found.clients) if found is not None else []

    def _groups(self) -> Iterator[tuple[bool, str, dict[SessionT, Client[SessionT]]]]:
        for group in self._consumers.values():
            yield True, group.name, group.clients
        for name, members in self._producers.items():
            yield False, name, members

    @staticmethod
    def _join(
        members: dict[SessionT, Client[SessionT]],
        session: SessionT,
        client_id: str,
        language: str,
        version: int,
        now_s: float,
    ) -> bool:
        is_new = session not in members
        members[session] = Client(session, client_id, language, version, now_s)
        return is_new

    @staticmethod
    def _subscribe(group: ConsumerGroup[SessionT], data: ConsumerData) -> bool:
        """Take over the subscriptions; a topic that is not named any more is dropped.

        Only topics that come and go count as a change, a new expression for a known one not.
        """
        changed = False
        named = {subscription.topic for subscription in data.subscription_data_set}
        for subscription in data.subscription_data_set:
            known = group.subscriptions.get(subscription.topic)
            if known is None:
                changed = True
                group.subscriptions[subscription.topic] = subscription
            elif subscription.sub_version > known.sub_version:
                group.subscriptions[subscription.topic] = subscription
        for topic in [topic for topic in group.subscriptions if topic not in named]:
            changed = True
            del group.subscriptions[topic]
        group.filters.register(data.subscription_data_set)
        return changed

    def _leave(self, session: SessionT, *, is_consumer: bool, name: str) -> bool:
        if is_consumer:
            group = self._consumers.get(name)
            members = group.clients if group is not None else {}
        else:
            members = self._producers.get(name, {})
        if members.pop(session, None) is None:
            return False
        if not members:
            if is_consumer:
                del self._consumers[name]
            else:
                del self._producers[name]
        memberships = self._sessions[session]
        memberships.discard((is_consumer, name))
        if not memberships:
            del self._sessions[session]
        return True
