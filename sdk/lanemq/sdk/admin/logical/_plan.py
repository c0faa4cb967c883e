"""Plans that assign segments of logical queues to physical queues. Pure.

Source: RocketMQ 5.0.0-PREVIEW, UpdateTopicLogicalQueueMappingCommand,
UpdateTopicLogicalQueueNumCommand, MigrateTopicLogicalQueueCommand.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import final

from lanemq.wire import TOPIC_QUEUES_MAX, queue_ids
from lanemq.wire.logical import Chain, Segment

from ._view import BrokerView, ClusterTopic


@final
@dataclass(frozen=True, slots=True)
class MapQueue:
    """A physical queue becomes a logical one; offsets stay what they are."""

    broker: str
    address: str
    queue_id: int
    index: int


@final
@dataclass(frozen=True, slots=True)
class OpenSegment:
    """A logical queue gets a writable segment where it has none."""

    broker: str
    address: str
    queue_id: int | None
    """A physical queue to be used again; None for a new one."""
    index: int
    delta: int
    """Its first logical offset."""


@final
@dataclass(frozen=True, slots=True)
class SealSegment:
    """A logical queue takes no more messages; what it holds can be read."""

    broker: str
    address: str
    segment: Segment


NumberStep = OpenSegment | SealSegment


def plan_mapping(view: ClusterTopic, *, in_turn: bool = False) -> list[MapQueue]:
    """Map every unmapped physical queue, broker by broker in the order of their addresses.

    Each takes the lowest index that was never used. So it can be repeated after a failure. With
    ``in_turn`` the first queue of each broker comes first, in the order of their names, then the
    second of each. So the queues are divided like the brokers that older clients see, and a broker
    that dies takes away a part of these, with the queues that are seen at it.
    """
    chains = view.chains()
    found: list[tuple[int, MapQueue]] = []
    for broker in view.brokers:
        mapped = {
            segment.queue_id
            for chain in chains.values()
            for segment in chain
            if segment.broker_name == broker.name
        }
        found += [
            (queue_id, MapQueue(broker.name, broker.address, queue_id, -1))
            for queue_id in queue_ids(broker.queues)
            if queue_id not in mapped
        ]
    if in_turn:
        found.sort(key=lambda one: (one[0], one[1].broker))
    unused = (index for index in count() if index not in chains)
    return [replace(step, index=index) for (_, step), index in zip(found, unused, strict=False)]


def plan_number(view: ClusterTopic, number: int) -> list[NumberStep]:
    """Bring the number of logical queues that can be written to ``number``.

    More: indices that were closed go on where they ended, the lowest first, then come new ones.
    A closed one stays at its broker; a new one takes a queue that is free, else one is made at
    the broker with the fewest segments. Fewer: the greatest indices are closed, and can be read.
    Raises ``ValueError`` for a number that is negative or more than brokers take, where no broker
    could take a queue, and where one that is to be closed is being migrated.
    """
    if number < 0:
        raise ValueError(f"there cannot be {number} logical queues")
    chains = view.chains()
    writable = {index: chain.writable for index, chain in chains.items()}
    live = [index for index, segment in writable.items() if segment is not None]
    if number < len(live):
        return list(_seals(view, chains, sorted(live, reverse=True)[: len(live) - number]))
    if not view.brokers:
        raise ValueError("there is no broker to put logical queues on")
    return _opens(view, chains, number, len(live))


def _seals(
    view: ClusterTopic, chains: dict[int, Chain], indices: list[int]
) -> Iterator[SealSegment]:
    for index in indices:
        waiting = chains[index].write_only
        if waiting is not None:
            raise ValueError(
                f"logical queue {index} is on its way to {waiting.broker_name}: "
                "resumeMigrateTopicLogicalQueue or abortMigrateTopicLogicalQueue comes first"
            )
        segment = chains[index].normal
        assert segment is not None
        broker = view.broker(segment.broker_name)
        if broker is None:
            raise ValueError(
                f"logical queue {index} cannot be closed: its broker {segment.broker_name} is away"
            )
        yield SealSegment(broker.name, broker.address, segment)


def _opens(
    view: ClusterTopic, chains: dict[int, Chain], number: int, open_now: int
) -> list[NumberStep]:
    count = number - open_now
    queues = Counter({broker.name: broker.queues for broker in view.brokers})
    free = {broker.name: view.free_queues(broker) for broker in view.brokers}
    load = Counter({broker.name: 0 for broker in view.brokers})
    load.update(segment.broker_name for chain in chains.values() for segment in chain)
    closed = [index for index, chain in chains.items() if chain.writable is None]
    fresh = (index for index in range(len(chains) + count) if index not in chains)
    steps: list[NumberStep] = []
    for _ in range(count):
        if closed:
            index = closed.pop(0)
            delta = chains[index].known_end
            broker = _last_broker(view, chains[index]) or _least_loaded(view, load)
            queue_id = _take_own(view, chains[index], broker, free[broker.name])
        else:
            index, delta = next(fresh), 0
            having = [broker for broker in view.brokers if free[broker.name]]
            broker = having[0] if having else _least_loaded(view, load)
            queue_id = free[broker.name].pop(0) if having else None
        load[broker.name] += 1
        queues[broker.name] += queue_id is None
        if queues[broker.name] > TOPIC_QUEUES_MAX:
            raise ValueError(
                f"{view.topic} can have at most {open_now + len(steps)} logical queues here: "
                f"a topic has at most {TOPIC_QUEUES_MAX} queues at a broker"
            )
        steps.append(OpenSegment(broker.name, broker.address, queue_id, index, delta))
    return steps


def _last_broker(view: ClusterTopic, chain: Chain) -> BrokerView | None:
    return None if chain.last is None else view.broker(chain.last.broker_name)


def _least_loaded(view: ClusterTopic, load: Counter[str]) -> BrokerView:
    return min(view.brokers, key=lambda broker: (load[broker.name], broker.name))


def _take_own(view: ClusterTopic, chain: Chain, broker: BrokerView, free: list[int]) -> int | None:
    """Return a closed chain's last queue if it is free by now, else any free one of the broker.

    The queue of an empty segment at its end is free too: the new segment is that one, open again.
    But not where an earlier segment there can still be read.
    """
    last = chain.last
    if last is not None and last.broker_name == broker.name and last.queue_id in free:
        free.remove(last.queue_id)
        return last.queue_id
    own = view.free_queues(broker, chain.index)
    for end in reversed(chain):  # an empty segment is expired as soon as it is sealed
        is_end = end.is_empty and end.next_delta == chain.known_end
        if end.broker_name == broker.name and is_end and end.queue_id in own:
            return end.queue_id
    return free.pop(0) if free else None


@final
@dataclass(frozen=True, slots=True)
class Destination:
    """The place of the new end of a logical queue."""

    broker: str
    address: str
    queue_id: int | None
    """A physical queue to be used again; None for a new one."""
    begun: Segment | None = None
    """The segment an earlier attempt left there; the migration goes on from it."""


def plan_destination(view: ClusterTopic, index: int, broker: BrokerView) -> Destination:
    """Choose the physical queue at ``broker``: that of a migration begun, a free or a new one."""
    chain = view.chains().get(index)
    begun = None if chain is None else chain.write_only
    if begun is not None and begun.broker_name == broker.name:
        return Destination(broker.name, broker.address, begun.queue_id, begun)
    free = view.free_queues(broker, index)
    return Destination(broker.name, broker.address, free[0] if free else None)
