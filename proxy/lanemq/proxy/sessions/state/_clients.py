"""The connected producers and consumers of every group, known from their heartbeats.

A registration belongs to a connection, whichever of the broker's ports it came in at, and ends
with it, with an unregistration, or 120 s after the last heartbeat. The consumers of a group
are told when its members or subscriptions change, so that they share the queues again.

Source: RocketMQ 4.9.8, ConsumerManager, ConsumerGroupInfo, ProducerManager.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar, final

from lanemq.wire.bodies import HeartbeatData

from ...acl import Sender
from ...net._turns import LOOKS_OF_A_STEP, Steps
from ._consumer_filters import Compile, ConsumerFilters, compile_filter
from ._members import NOBODY, Client, ConsumerGroup, can_ask, member_bytes
from ._subscription_charges import Leave, SubscriptionCharges

CLIENT_LIFE_S = 120.0

SessionT = TypeVar("SessionT")


@dataclass(slots=True)
class Departed(Generic[SessionT]):
    """The result of ``expire``."""

    sessions: list[SessionT]
    """Connections not heard from, which are to be closed."""
    changed_groups: list[str]
    """Consumer groups that lost a member, whose others are to be notified."""


@final
class ClientRegistry(Generic[SessionT]):
    """The registry of one broker's groups. Pure: times are arguments, in seconds of any one clock.

    ``charge`` is told how many bytes more, or fewer, are kept for a connection. ``leave`` is told
    of one that leaves subscriptions to its group, with the bytes of each topic's: it pays in its
    place until what it puts into ``left`` of the group is called.
    """

    def __init__(
        self,
        charge: Callable[[SessionT, int], None] = lambda session, size: None,
        leave: Leave[SessionT] = lambda session, group, paid: None,
    ) -> None:
        self._charge, self._subscriptions = charge, SubscriptionCharges(charge, leave)
        self._consumers: dict[str, ConsumerGroup[SessionT]] = {}
        self._producers: dict[str, dict[SessionT, Client[SessionT]]] = {}
        # Client id -> its connections that can ask by it, the one heard from last at the end.
        self._producers_by_id: dict[str, dict[SessionT, int]] = {}
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
        knows_indices: bool = False,
        sender: Sender = NOBODY,
        compiled: Compile = compile_filter,
    ) -> list[str]:
        """Register everything ``data`` says; returns the consumer groups that changed by it.

        ``compiled`` gives the filters of its expressions in SQL92.
        """
        changed: list[str] = []
        client = Client(session, data.client_id, language, version, now_s, knows_indices, sender)
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
            former = group.clients.get(session)
            if former is None or former.client_id != client.client_id:
                group.list_data = None
            is_new = former is None
            self._join(group.clients, client, is_consumer=True, name=group.name)
            self._subscriptions.charge(group, session, consumer)
            if group.subscribe(consumer, compiled) or is_new:
                changed.append(group.name)
        for producer in data.producer_data_set:
            members = self._producers.setdefault(producer.group_name, {})
            if can_ask(producer.group_name):
                self._index_producer(members.get(session), session, data.client_id)
            self._join(members, client, is_consumer=False, name=producer.group_name)
        return changed

    def new_expressions(self, data: HeartbeatData) -> Iterator[tuple[str, str]]:
        """Yield the type and text of each expression that ``heartbeat`` is going to compile."""
        for consumer in data.consumer_data_set:
            group = self._consumers.get(consumer.group_name)
            filters = group.filters if group is not None else ConsumerFilters()
            for one in consumer.subscription_data_set:
                if filters.is_new(one):
                    yield one.expression_type, one.sub_string

    def groups_with(self, session: SessionT, data: HeartbeatData) -> int:
        """Return in how many groups the connection would be once ``data`` is registered."""
        known = self._sessions.get(session, set())
        named = {(True, one.group_name) for one in data.consumer_data_set}
        named |= {(False, one.group_name) for one in data.producer_data_set}
        return len(known) + len(named - known)

    def unregister(
        self, session: SessionT, *, producer_group: str | None, consumer_group: str | None
    ) -> list[str]:
        """Remove the connection from the named groups; returns the consumer groups changed."""
        if producer_group:
            self._leave(session, is_consumer=False, name=producer_group)
        if consumer_group and self._leave(session, is_consumer=True, name=consumer_group):
            return [consumer_group]
        return []

    def closed(self, session: SessionT) -> list[str]:
        """Remove the connection from every group; returns the consumer groups changed."""
        return [
            name
            for is_consumer, name in sorted(self._sessions.get(session, ()))
            if self._leave(session, is_consumer=is_consumer, name=name) and is_consumer
        ]

    def expire(self, now_s: float) -> Steps[Departed[SessionT]]:
        """Remove the members that were not heard from for 120 s, so many in each step.

        The reference does not tell the others of a group; they would find out by themselves
        within 20 s. Telling them is the caller's choice.
        """
        gone: dict[SessionT, None] = {}
        changed: dict[str, None] = {}
        looks = 0
        for session in list(self._sessions):
            for is_consumer, name in sorted(self._sessions.get(session, ())):
                looks += 1
                if looks % LOOKS_OF_A_STEP == 0:
                    yield None
                client = self._members(is_consumer=is_consumer, name=name).get(session)
                if client is not None and now_s - client.seen_s > CLIENT_LIFE_S:
                    gone[session] = None
                    self._leave(session, is_consumer=is_consumer, name=name)
                    if is_consumer:
                        changed[name] = None
        return Departed(list(gone), list(changed))

    def consumer_group(self, name: str) -> ConsumerGroup[SessionT] | None:
        """Return the consumer group, or None while it has no member."""
        return self._consumers.get(name)

    def producers(self, group: str) -> Collection[Client[SessionT]]:
        """Return the members of a producer group; none for an unknown one."""
        return self._producers.get(group, {}).values()

    def producer_session(self, client_id: str) -> SessionT | None:
        """Return the connection of the producers that ask by that client id; the one heard from
        last, where several do."""
        sessions = self._producers_by_id.get(client_id)
        return next(reversed(sessions)) if sessions else None

    def consumer_groups_of(self, session: SessionT) -> list[ConsumerGroup[SessionT]]:
        """Return the groups of consumers that a connection is in, by name."""
        groups = sorted(self._sessions.get(session, ()))
        return [self._consumers[name] for is_consumer, name in groups if is_consumer]

    def producer_groups_of(self, session: SessionT) -> Iterator[str]:
        """Yield the producer groups that a connection is in."""
        for is_consumer, name in self._sessions.get(session, ()):
            if not is_consumer:
                yield name

    def askers_of(
        self, session: SessionT, client_id: str
    ) -> Iterator[tuple[str, Client[SessionT]]]:
        """Yield the producer groups in which a connection asks by that client id, each with the
        connection as its member."""
        for name in self.producer_groups_of(session):
            client = self._producers[name][session]
            if can_ask(name) and client.client_id == client_id:
                yield name, client

    def is_claimed(self, client_id: str, session: SessionT, account: str) -> bool:
        """Return whether another connection has producers that ask by that client id, for another
        account."""
        for other in self._producers_by_id.get(client_id, ()):
            if other != session:
                for _, producer in self.askers_of(other, client_id):
                    return producer.sender.name != account
        return False

    def producer_groups(self) -> Iterable[str]:
        """Return the names of the producer groups that have a member."""
        return self._producers.keys()

    def consumer_groups(self) -> tuple[ConsumerGroup[SessionT], ...]:
        """Return the consumer groups that have a member."""
        return tuple(self._consumers.values())

    def sessions_of(self, group: str) -> list[SessionT]:
        """Return the connections of a consumer group."""
        found = self._consumers.get(group)
        return list(found.clients) if found is not None else []

    def _members(self, *, is_consumer: bool, name: str) -> dict[SessionT, Client[SessionT]]:
        if not is_consumer:
            return self._producers.get(name, {})
        group = self._consumers.get(name)
        return group.clients if group is not None else {}

    def _join(
        self,
        members: dict[SessionT, Client[SessionT]],
        client: Client[SessionT],
        *,
        is_consumer: bool,
        name: str,
    ) -> None:
        """Make the connection a member, or give its member this description."""
        session, former = client.session, members.get(client.session)
        if former is not None and former.claim != client.claim:
            del members[session]  # the new claim comes behind those of others
        members[session] = client
        if former is None:
            self._sessions.setdefault(session, set()).add((is_consumer, name))
        before_bytes = 0 if former is None else member_bytes(name, former.client_id)
        size_bytes = member_bytes(name, client.client_id)
        if size_bytes != before_bytes:
            self._charge(session, size_bytes - before_bytes)

    def _index_producer(
        self, former: Client[SessionT] | None, session: SessionT, client_id: str
    ) -> None:
        """Count one more group of a client's producers, and put its connection last."""
        if former is not None:
            self._unindex_producer(session, former.client_id)
        sessions = self._producers_by_id.setdefault(client_id, {})
        sessions[session] = sessions.pop(session, 0) + 1

    def _unindex_producer(self, session: SessionT, client_id: str) -> None:
        sessions = self._producers_by_id[client_id]
        sessions[session] -= 1
        if not sessions[session]:
            del sessions[session]
            if not sessions:
                del self._producers_by_id[client_id]

    def _leave(self, session: SessionT, *, is_consumer: bool, name: str) -> bool:
        group = self._consumers.get(name) if is_consumer else None
        members = self._members(is_consumer=is_consumer, name=name)
        client = members.pop(session, None)
        if client is None:
            return False
        if group is not None:
            group.list_data = None
        elif can_ask(name):
            self._unindex_producer(session, client.client_id)
        self._charge(session, -member_bytes(name, client.client_id))
        if group is not None:
            self._subscriptions.leave(group, session)
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
