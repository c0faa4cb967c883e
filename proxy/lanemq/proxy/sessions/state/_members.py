"""The members of groups, as their heartbeats describe them, and the memory that they take."""

from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from lanemq.wire.bodies import ConsumerData, HeartbeatData, SubscriptionData

from ...acl import Sender
from ._consumer_filters import EXPRESSION_CHARS_MAX, ConsumerFilters

MEMBER_BYTES: Final = 1024
SUBSCRIPTION_BYTES: Final = 1024
CODE_BYTES: Final = 64
TEXT_BYTES_PER_CHAR: Final = 64
"""Estimated bytes of a member of a group, a subscription, each of its tags' hashes, and each
character of one that is still to be hashed or compiled take."""

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
    seen_s: float = 0.0
    charged: SessionT | None = None
    """The member charged for the subscriptions: the one that brought them, or an heir."""
    charged_bytes: int = 0
    """The bytes charged to that member."""

    def client_ids(self) -> list[str]:
        """Return the members' ids, sorted and without duplicates: by this list they divide the
        queues."""
        return sorted({client.client_id for client in self.clients.values()})

    def find(self, client_id: str) -> Client[SessionT] | None:
        """Return the member with that id; the one heard from last, where two connections claim
        it."""
        found = [client for client in self.clients.values() if client.client_id == client_id]
        return max(found, key=lambda client: client.seen_s, default=None)


def member_bytes(name: str) -> int:
    """Estimate the bytes kept for a member of the group of that name."""
    return MEMBER_BYTES + len(name)


def subscriptions_bytes(data: ConsumerData) -> int:
    """Estimate the bytes kept for a client's subscriptions in a group."""
    total = 0
    for one in data.subscription_data_set:
        total += SUBSCRIPTION_BYTES + len(one.topic) + len(one.filter_class_source or "")
        total += CODE_BYTES * len(one.code_set) + sum(map(len, one.tags_set))
        chars = len(one.sub_string)
        is_made_ready = chars <= EXPRESSION_CHARS_MAX and not one.code_set
        total += chars * (TEXT_BYTES_PER_CHAR if is_made_ready else 1)
    return total


def heartbeat_bytes(data: HeartbeatData) -> int:
    """Estimate the most bytes kept for a heartbeat."""
    producers = sum(member_bytes(one.group_name) for one in data.producer_data_set)
    return producers + sum(
        member_bytes(one.group_name) + subscriptions_bytes(one) for one in data.consumer_data_set
    )
