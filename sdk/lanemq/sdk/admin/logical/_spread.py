"""Plans that spread logical queues over brokers: emptying one, evening out all of them. Pure.

Only the ends of the logical queues are spread, where messages go; data stays where it is.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from lanemq.wire import KV_PREFIX
from lanemq.wire.logical import Chain

Topics = Mapping[str, Mapping[int, Chain]]
"""Topic -> logical index -> chain."""


@final
@dataclass(frozen=True, slots=True, order=True)
class Move:
    """A planned migration of one logical queue."""

    topic: str
    index: int
    source: str
    destination: str


WrittenAt = dict[str, dict[int, str]]
"""Topic -> logical index -> the broker to which it is written."""


def plan_drain(topics: Topics, broker: str, others: Collection[str]) -> list[Move]:
    """Do ``drain_moves`` for chains."""
    return drain_moves(_written_at(topics), broker, others)


def drain_moves(
    written: Mapping[str, Mapping[int, str]], broker: str, others: Collection[str]
) -> list[Move]:
    """Move every logical queue that is written at ``broker`` to ``others``, evenly.

    Even means: for each topic by itself, and then for all together. Raises ``ValueError``
    where something has to go and there is nowhere to.
    """
    targets = sorted(name for name in others if name != broker)
    totals = _totals(written)
    moves: list[Move] = []
    for topic, brokers in sorted(written.items()):
        counts = Counter(brokers.values())
        for index, source in sorted(brokers.items()):
            if source != broker:
                continue
            if not targets:
                raise ValueError(f"{broker} is the only broker: its logical queues cannot go")
            chosen = min(targets, key=lambda name: (counts[name], totals[name], name))
            counts[chosen] += 1
            totals[chosen] += 1
            moves.append(Move(topic, index, source, chosen))
    return moves


def plan_balance(topics: Topics, brokers: Collection[str]) -> list[Move]:
    """Do ``balance_moves`` for chains."""
    return balance_moves(_written_at(topics), brokers)


def balance_moves(before: Mapping[str, Mapping[int, str]], brokers: Collection[str]) -> list[Move]:
    """Plan the fewest moves that spread the written ends of logical queues evenly.

    Afterwards no broker of ``brokers`` has two more of one topic than another, nor two more of
    all topics together than another where a single move could help. Queues written elsewhere,
    at a broker that is not among ``brokers``, come to these.
    """
    names = sorted(brokers)
    if not names:
        return []
    after: WrittenAt = {topic: dict(queues) for topic, queues in before.items()}
    totals = _totals(after)
    for topic in sorted(after):
        _even_out_topic(after[topic], names, totals)
    while _even_out_total(after, names, totals):
        pass
    return [
        Move(topic, index, before[topic][index], destination)
        for topic, queues in sorted(after.items())
        for index, destination in sorted(queues.items())
        if before[topic][index] != destination
    ]


def _even_out_topic(queues: dict[int, str], names: Sequence[str], totals: Counter[str]) -> None:
    counts = Counter(dict.fromkeys(names, 0))
    counts.update(queues.values())
    while True:
        strangers = sorted(name for name in counts if name not in names and counts[name])
        # Of equal brokers the one with more queues in all gives, and the one with fewer takes.
        most = max(names, key=lambda name: (counts[name], totals[name], name))
        least = min(names, key=lambda name: (counts[name], totals[name], name))
        source = strangers[0] if strangers else most
        if not strangers and counts[most] - counts[least] < 2:
            return
        # The youngest index moves: the others were there longer and may stay.
        index = max(index for index, name in queues.items() if name == source)
        _move(queues, index, least, totals)
        counts[source] -= 1
        counts[least] += 1


def _even_out_total(written: WrittenAt, names: Sequence[str], totals: Counter[str]) -> bool:
    """Move one queue where all brokers become more even and no topic less; False if none can."""
    for source in sorted(names, key=lambda name: (-totals[name], name)):
        for target in sorted(names, key=lambda name: (totals[name], name)):
            if totals[source] - totals[target] < 2:
                break
            for topic in sorted(written):
                counts = Counter(written[topic].values())
                if counts[source] > counts[target]:
                    index = max(i for i, name in written[topic].items() if name == source)
                    _move(written[topic], index, target, totals)
                    return True
    return False


def _move(queues: dict[int, str], index: int, destination: str, totals: Counter[str]) -> None:
    totals[queues[index]] -= 1
    totals[destination] += 1
    queues[index] = destination


@final
@dataclass(frozen=True, slots=True)
class Remains:
    """Segments of logical queues that are left at a broker."""

    written: int
    """Logical queues that messages still go to there."""
    segments: int
    """Sealed segments that can still be read only there."""
    messages: int
    """Messages in them, gone or not."""
    last_time_ms: int
    """Store time of the last of them; 0 if it is not known."""


def remains_at(topics: Topics, broker: str) -> Remains:
    """Count the reasons that keep ``broker`` from being switched off."""
    segments = [
        segment
        for chains in topics.values()
        for chain in chains.values()
        for segment in chain
        if segment.broker_name == broker
    ]
    # Keys are in the state of the broker that has their partition, not in the log of before.
    readable = [
        s
        for s in segments
        if s.is_readable and not s.is_writable and not s.topic.startswith(KV_PREFIX)
    ]
    return Remains(
        written=sum(segment.is_writable for segment in segments),
        segments=len(readable),
        messages=sum(segment.count for segment in readable),
        last_time_ms=max((segment.last_time_ms for segment in readable), default=0),
    )


def _written_at(topics: Topics) -> WrittenAt:
    return {
        topic: {
            index: segment.broker_name
            for index, chain in chains.items()
            if (segment := chain.normal or chain.writable) is not None
        }
        for topic, chains in topics.items()
    }


def _totals(written: Mapping[str, Mapping[int, str]]) -> Counter[str]:
    return Counter(name for queues in written.values() for name in queues.values())
