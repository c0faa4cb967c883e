"""Allocation of a topic's queues to the consumers of a group: pure functions.

Every client of a group computes the same division from the same two lists, so none has to ask.
All of them, Java clients included, must use the same way of dividing.

Source: RocketMQ 4.9.8, the classes of org.apache.rocketmq.client.consumer.rebalance.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, SupportsIndex, TypeAlias, final

from lanemq.wire import RETRY_PREFIX
from lanemq.wire.bodies import MessageQueue

from .._tasks import beside_if

HASHED_AT_ONCE: Final = 1000
"""Queues and members that are hashed in one turn, at ten microseconds a member."""

Allocate: TypeAlias = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]
"""(own client id, sorted queues, sorted client ids) -> the queues of this client."""


def allocate_averagely(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Give each client a run of neighbouring queues; no two clients differ by more than one.

    ``queues`` and ``client_ids`` are sorted and free of duplicates. A client that is not in
    ``client_ids`` gets nothing: the broker does not know it (yet).
    """
    if client_id not in client_ids:
        return []
    index = client_ids.index(client_id)
    size, longer = divmod(len(queues), len(client_ids))
    start = index * size + min(index, longer)  # the first `longer` clients take one more
    return list(queues[start : start + size + (index < longer)])


def allocate_by_circle(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Deal the queues out one by one, so that each client reads from every broker."""
    if client_id not in client_ids:
        return []
    return list(queues[client_ids.index(client_id) :: len(client_ids)])


async def allocated(
    allocate: Allocate, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Return the queues of this client. Raises as ``check_division``, and what ``allocate`` does.

    The application's own function runs where it always does; a long ring of hashes is made beside
    the event loop.
    """
    is_ring = isinstance(allocate, AllocateConsistentHash)
    is_long = is_ring and len(queues) + len(client_ids) > HASHED_AT_ONCE
    return check_division(
        await beside_if(is_long, partial(allocate, client_id, queues, client_ids))
    )


def check_division(found: object) -> list[MessageQueue]:
    """Return what a division gave. Raises ``TypeError`` for anything but queues."""
    queues = list(found) if isinstance(found, Iterable) else None
    if queues is None or not all(isinstance(one, MessageQueue) for one in queues):
        raise TypeError(f"`allocate` must return a list of queues, not {found!r}")
    return queues


@final
@dataclass(frozen=True, slots=True)
class AllocateConsistentHash:
    """Give each queue to the client that is next on a ring of hashes.

    A client that comes or goes moves only queues of its own; the shares are less even.
    """

    virtual_nodes: int = 10
    """Places of each client on the ring."""

    def __post_init__(self) -> None:
        if self.virtual_nodes < 1:
            raise ValueError("AllocateConsistentHash.virtual_nodes must be at least 1")

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        ring, owners = _ring(tuple(client_ids), self.virtual_nodes)
        return [
            queue
            for queue in queues
            if owners[ring[bisect_left(ring, _ring_hash(queue.java_text)) % len(ring)]] == client_id
        ]


@lru_cache(maxsize=4)  # topics of a consumer are divided one after the other
def _ring(client_ids: tuple[str, ...], virtual_nodes: int) -> tuple[list[int], dict[int, str]]:
    """Return the places of clients on a ring, ascending, and the client at each."""
    owners = {
        _ring_hash(f"{owner}-{number}"): owner
        for owner in client_ids
        for number in range(virtual_nodes)
    }
    return sorted(owners), owners


@final
class _Members(tuple[str, ...]):
    """Client ids of which each is found at once; a division looks for one in every room."""

    def __init__(self, _: Iterable[str]) -> None:
        self._places = {client_id: place for place, client_id in enumerate(self)}

    def __contains__(self, client_id: object) -> bool:
        return client_id in self._places

    def index(self, client_id: str, *_: SupportsIndex) -> int:
        return self._places[client_id]


def _ring_hash(key: str) -> int:
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:4], "big")


@final
@dataclass(frozen=True, slots=True)
class AllocateMachineRoom:
    """Divide the queues in some machine rooms; those in others are not read.

    A broker's room is what stands before the ``@`` in its name, as in ``room1@broker-a``.
    """

    rooms: frozenset[str]
    """The rooms to read from."""

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        near = [queue for queue in queues if _room_in_name(queue.broker_name) in self.rooms]
        index, size = client_ids.index(client_id), len(near) // len(client_ids)
        # The remainder is dealt out from the end, unlike in `allocate_averagely`.
        rest = near[size * len(client_ids) :][index : index + 1]
        return near[size * index : size * (index + 1)] + rest


def _room_in_name(broker_name: str) -> str | None:
    room, _, name = broker_name.rstrip("@").partition("@")
    return room if name and "@" not in name else None


@final
@dataclass(frozen=True, slots=True)
class AllocateMachineRoomNearby:
    """Let the clients of a machine room read its queues, and all clients those of rooms without.

    ``queue_room`` and ``client_room`` name the room of a queue's broker and of a client id.
    """

    queue_room: Callable[[MessageQueue], str]
    client_room: Callable[[str], str]
    within: Allocate = allocate_averagely
    """The division of the queues of one room."""

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        clients: dict[str, list[str]] = {}
        for other in client_ids:
            clients.setdefault(_named(self.client_room(other), other), []).append(other)
        rooms: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            rooms.setdefault(_named(self.queue_room(queue), queue), []).append(queue)
        own, members = self.client_room(client_id), _Members(client_ids)
        mine = self.within(client_id, rooms.pop(own, []), clients[own])
        for room in sorted(rooms):
            if room not in clients:
                mine += self.within(client_id, rooms[room], members)
        return mine


def _named(room: str, what: object) -> str:
    if not room:
        raise ValueError(f"no machine room is named for {what}")
    return room


@final
@dataclass(frozen=True, slots=True)
class AllocateByConfig:
    """Read exactly ``queues``, no matter who else is in the group.

    The queues of the group's own retry topic are divided averagely: left out, as in Java,
    what failed once would never come again.
    """

    queues: frozenset[MessageQueue]

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if queues and queues[0].topic.startswith(RETRY_PREFIX):
            return allocate_averagely(client_id, queues, client_ids)
        return [queue for queue in queues if queue in self.queues]
