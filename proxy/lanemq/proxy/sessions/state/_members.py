"""The members of groups, as their heartbeats describe them, and the memory that they take."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from lanemq.wire import INNER_PRODUCER_PREFIXES
from lanemq.wire.bodies import ConsumerData, ConsumerIdList, HeartbeatData, SubscriptionData

from ...acl import Sender
from ._consumer_filters import EXPRESSION_CHARS_MAX, Compile, ConsumerFilters

MEMBER_BYTES: Final = 1024
SUBSCRIPTION_BYTES: Final = 1024
CODE_BYTES: Final = 64
TEXT_BYTES_PER_CHAR: Final = 64
"""Estimated bytes of a member of a group beside the names of the group and the client, a
subscription, each of its tags' hashes, and each character of one that is still to be hashed or
compiled take."""

SessionT = TypeVar("SessionT")
NOBODY: Final = Sender()


@dataclass(slots=True)
class Client(Generic[SessionT]):
    """A member of one group: a connection, and the client's description of itself."""

    session: SessionT
    client_id: str
    language: str
    version: int
    seen_s: float
    knows_indices: bool = False
    """True if it says that it names logical queues by their index."""
    sender: Sender = NOBODY
    """The account behind its last heartbeat."""

    @property
    def claim(self) -> tuple[str, str]:
        """The client id, and the account that uses it."""
        return self.client_id, self.sender.name


@dataclass(slots=True)
class ConsumerGroup(Generic[SessionT]):
    """A consumer group with at least one member; the last heartbeat holds for all."""

    name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    """The subscriptions by topic. All members should subscribe alike; they overwrite each other."""
    filters: ConsumerFilters = field(default_factory=ConsumerFilters)
    """The filters of subscriptions by SQL92."""
    clients: dict[SessionT, Client[SessionT]] = field(default_factory=dict)
    """The members in the order in which they made their present claims."""
    seen_s: float = 0.0
    payers: dict[str, SessionT] = field(default_factory=dict)
    """The member that brought each topic's subscription, and is charged for it, by topic; those
    that have left are not here."""
    paid: dict[SessionT, dict[str, int]] = field(default_factory=dict)
    """The bytes that each of them is charged for, by topic."""
    left: dict[str, Callable[[], object]] = field(default_factory=dict)
    """Ends what is charged for a topic in the place of a member that has left."""
    list_data: bytes | None = None
    """The result of ``listed``, until the members or their ids change."""

    def subscribe(self, data: ConsumerData, compiled: Compile) -> bool:
        """Take over the subscriptions of a heartbeat; topics that are no longer named are dropped.

        Only topics that come and go count as a change, a new expression for a known one not.
        """
        changed = False
        named = {subscription.topic for subscription in data.subscription_data_set}
        for subscription in data.subscription_data_set:
            known = self.subscriptions.get(subscription.topic)
            if known is None:
                changed = True
                self.subscriptions[subscription.topic] = subscription
            elif subscription.sub_version > known.sub_version:
                self.subscriptions[subscription.topic] = subscription
        for topic in [topic for topic in self.subscriptions if topic not in named]:
            changed = True
            del self.subscriptions[topic]
        self.filters.register(data.subscription_data_set, compiled)
        return changed

    def will_keep(self, subscription: SubscriptionData, size_bytes: int) -> bool:
        """Return whether ``subscribe`` keeps one of that size rather than what is known of its
        topic, or as good as keeps it, since both take the same."""
        known = self.subscriptions.get(subscription.topic)
        if known is None or subscription.sub_version > known.sub_version:
            return True
        return subscription_bytes(known) == size_bytes

    def drop_subscriptions(self, topics: Iterable[str]) -> None:
        """Forget some subscriptions, as nobody pays for them, until a member names its own."""
        for topic in topics:
            del self.left[topic]
            self.subscriptions.pop(topic, None)
            self.filters.drop(topic)

    def client_ids(self) -> list[str]:
        """Return the members' ids, sorted and without duplicates: by this list they divide the
        queues."""
        return sorted({client.client_id for client in self.clients.values()})

    def listed(self) -> bytes:
        """Return the ``client_ids`` as the body of a ``ConsumerIdList``, which is written once for
        all members that ask after a change."""
        if self.list_data is None:
            self.list_data = ConsumerIdList(tuple(self.client_ids())).encode()
        return self.list_data

    def find(
        self, client_id: str, is_fit: Callable[[Client[SessionT]], bool] = lambda client: True
    ) -> Client[SessionT] | None:
        """Return the fit member with that id. Of several accounts' the first account keeps the id;
        of several connections' of one account it is the one with the latest heartbeat."""
        found = [
            client
            for client in self.clients.values()
            if client.client_id == client_id and is_fit(client)
        ]
        return max(
            (client for client in found if client.claim == found[0].claim),
            key=lambda client: client.seen_s,
            default=None,
        )


def can_ask(producer_group: str) -> bool:
    """Return whether requests for replies may come from a producer group: those that clients make
    for themselves never do, and are everyone's, so they tell nothing of whose a client id is."""
    return not producer_group.startswith(INNER_PRODUCER_PREFIXES)


def member_bytes(name: str, client_id: str) -> int:
    """Estimate the bytes kept for a member of the group of that name."""
    return MEMBER_BYTES + len(name) + len(client_id)


def subscription_bytes(one: SubscriptionData) -> int:
    """Estimate the bytes kept for a subscription of a group."""
    chars = len(one.sub_string)
    is_made_ready = chars <= EXPRESSION_CHARS_MAX and not one.code_set
    return (
        SUBSCRIPTION_BYTES
        + len(one.topic)
        + len(one.filter_class_source or "")
        + len(one.expression_type)
        + CODE_BYTES * len(one.code_set)
        + sum(map(len, one.tags_set))
        + chars * (TEXT_BYTES_PER_CHAR if is_made_ready else 1)
    )


def heartbeat_bytes(data: HeartbeatData) -> int:
    """Estimate the most bytes kept for a heartbeat."""
    client_id = data.client_id
    producers = sum(member_bytes(one.group_name, client_id) for one in data.producer_data_set)
    return producers + sum(
        member_bytes(one.group_name, client_id)
        + sum(map(subscription_bytes, one.subscription_data_set))
        for one in data.consumer_data_set
    )
