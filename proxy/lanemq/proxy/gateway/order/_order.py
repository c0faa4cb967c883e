"""The order of a topic's queues that clients see: queues come in at its end, and nowhere else.

Clients sort queues by the name of the broker and the number there. So queues that a cluster adds in
between are seen at an *added broker*, whose name sorts behind those of the cluster's brokers, and
by the number of the added broker. Each stands for one broker of the cluster in one topic, and for
another one in another topic: so topics share them. All pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Final, NamedTuple, Self, final

import msgspec
from msgspec.structs import replace

from lanemq.wire import ROUTE_QUEUES_MAX, RemoteProtocolError

from ._moved import MovedQueue

ADDED_PREFIX: Final = "~lanemq-"
"""Begin of the names of added brokers; nearly all names of brokers sort before."""
ADDED_MAX: Final = 100
"""Most added brokers of a topic. It needs another one where it grows at another broker than the
last time."""
BEHIND_MAX: Final = 1000
"""Most brokers of the cluster that have queues at added brokers."""
_DIGITS: Final = 3
NONE: Final[Mapping[str, int]] = {}
_Behind = Annotated[tuple[str, ...], msgspec.Meta(max_length=BEHIND_MAX)]


class SeenQueue(NamedTuple):
    """A queue by a broker's name, and its number there."""

    broker: str
    queue_id: int


def added_name(number: int) -> str:
    """Return the name of an added broker; names sort as numbers do."""
    return f"{ADDED_PREFIX}{number:0{_DIGITS}}"


def added_number(name: str) -> int | None:
    """Return the number of an added broker by its name; None for a broker of the cluster."""
    digits = name.removeprefix(ADDED_PREFIX)
    is_added = digits != name and len(digits) == _DIGITS and digits.isascii() and digits.isdecimal()
    return int(digits) if is_added else None


def sorts_before_added(broker: str) -> bool:
    """Return whether clients sort a broker of the cluster before all added ones."""
    return broker < ADDED_PREFIX


@final
class Run(msgspec.Struct, frozen=True, array_like=True):
    """Queues of one broker of the cluster that are seen at an added broker, from number 0 on."""

    number: int
    """The number of the added broker."""
    broker: str
    start: int
    """The first of the broker's own queues."""
    count: int

    @property
    def name(self) -> str:
        """The name of the added broker."""
        return added_name(self.number)

    @property
    def end(self) -> int:
        """The end of the broker's own queues."""
        return self.start + self.count


@final
class QueueOrder(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """The order of one topic's queues.

    ``first`` has the brokers that are seen under their own names, with how many queues each is seen
    with; ``runs`` follow, by the numbers of their added brokers. ``moved`` are those of them that
    have gone on at other brokers, or are to; ``kept`` are the queues of brokers that were made for
    these, and that nobody sees.
    """

    first: tuple[tuple[str, int], ...] = ()
    runs: tuple[Run, ...] = ()
    moved: tuple[MovedQueue, ...] = ()
    kept: tuple[tuple[str, int], ...] = ()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read an order. Raises ``RemoteProtocolError``."""
        try:
            order = msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RemoteProtocolError(f"no order of queues: {error}") from error
        counts = [count for _, count in order.first]
        counts += (number for run in order.runs for number in (run.start, run.count))
        numbers = [run.number for run in order.runs]
        if (
            not all(0 <= one <= ROUTE_QUEUES_MAX for one in counts)
            or numbers != sorted({*range(ADDED_MAX)} & {*numbers})
            or any(order.known_of(run.broker) < run.end for run in order.runs)
            or not order._has_sound_moves()
        ):
            raise RemoteProtocolError("no order of queues: its numbers contradict one another")
        return order

    def encode(self) -> bytes:
        """Return the order as ``decode`` reads it."""
        return msgspec.json.encode(self)

    def _has_sound_moves(self) -> bool:
        kept = set(self.kept)
        later = [part.place for one in self.moved for part in one.parts[1:]]
        later += [one.target.place for one in self.moved if one.target is not None]
        seen = {one.place for one in self.moved}
        return (
            len(kept) == len(self.kept)
            and all(0 <= number < ROUTE_QUEUES_MAX for _, number in kept)
            and len({*later}) == len(later)
            and kept >= {*later}
            and len(seen) == len(self.moved)
            and all(one.is_sound and self.place_of(*one.place) for one in self.moved)
        )

    @property
    def is_the_clusters(self) -> bool:
        """True if clients sort the queues as they do without a proxy, and find all messages there
        that they find here."""
        return not self.runs and not self.moved

    @cached_property
    def _first_counts(self) -> dict[str, int]:
        return dict(self.first)

    @cached_property
    def _known_counts(self) -> dict[str, int]:
        counts = dict(self.first)
        for run in self.runs:
            counts[run.broker] = counts.get(run.broker, 0) + run.count
        for broker, _ in self.kept:
            counts[broker] = counts.get(broker, 0) + 1
        return counts

    @cached_property
    def _moved_by_place(self) -> dict[tuple[str, int], MovedQueue]:
        return {part.place: one for one in self.moved for part in one.parts}

    def first_of(self, broker: str) -> int:
        """Return how many queues of a broker are seen under its own name."""
        return self._first_counts.get(broker, 0)

    def known_of(self, broker: str) -> int:
        """Return how many queues of a broker are in the order."""
        return self._known_counts.get(broker, 0)

    def lacks(self, told: Mapping[str, int], written: Mapping[str, int] = NONE) -> bool:
        """Return whether brokers, by how many queues each has and how many of these can be written,
        have some that are not in it."""
        return bool(self.left_over(written)) or any(
            count > self.known_of(broker)
            for broker, count in told.items()
            if sorts_before_added(broker)
        )

    def left_over(self, written: Mapping[str, int]) -> list[tuple[str, int]]:
        """Return the queues of moves that were called off, and that can be written."""
        used = {one.target.place for one in self.moved if one.target is not None}
        return sorted(
            one
            for one in self.kept
            if one[1] < written.get(one[0], 0) and one not in used | self._moved_by_place.keys()
        )

    def moved_at(self, broker: str, queue_id: int) -> MovedQueue | None:
        """Return the moved queue that has a broker's queue as a part; None where none has."""
        return self._moved_by_place.get((broker, queue_id)) if self.moved else None

    def with_moved(self, before: MovedQueue | None, now: MovedQueue | None) -> "QueueOrder":
        """Return the order with a moved queue in place of one; None for none."""
        others = tuple(one for one in self.moved if one != before)
        return replace(self, moved=others if now is None else (*others, now))

    def with_kept(self, place: tuple[str, int]) -> "QueueOrder":
        """Return the order with a queue of a broker that is made for a moved one."""
        return replace(self, kept=(*self.kept, place))

    def own_of(self, seen: SeenQueue) -> tuple[str, int] | None:
        """Return the broker's own queue for one that clients see; None where there is none."""
        number = added_number(seen.broker)
        if number is None:
            is_there = 0 <= seen.queue_id < self.first_of(seen.broker)
            return (seen.broker, seen.queue_id) if is_there else None
        run = self.run_at(number)
        if run is None or not 0 <= seen.queue_id < run.count:
            return None
        return run.broker, run.start + seen.queue_id

    def seen(self, broker: str, queue_id: int) -> SeenQueue | None:
        """Return where clients see a queue of a broker; None for one that is not in the order."""
        moved = self.moved_at(broker, queue_id)
        return self.place_of(broker, queue_id) if moved is None else self.place_of(*moved.place)

    def place_of(self, broker: str, queue_id: int) -> SeenQueue | None:
        """Return what ``seen`` does, of a queue that is the first part of a moved one, or none."""
        if queue_id < self.first_of(broker):
            return SeenQueue(broker, queue_id)
        for run in self.runs:
            if run.broker == broker and run.start <= queue_id < run.end:
                return SeenQueue(run.name, queue_id - run.start)
        return None

    def run_at(self, number: int) -> Run | None:
        """Return the queues at an added broker; None where it has none of this topic."""
        return next((run for run in self.runs if run.number == number), None)

    def first_at(self, broker: str) -> list[int]:
        """Return the numbers of the queues that a broker has had first."""
        runs = (range(run.start, run.end) for run in self.runs if run.broker == broker)
        return [number for one in (range(self.first_of(broker)), *runs) for number in one]

    def ends_of(self, broker: str) -> list[str]:
        """Return the broker of the open end of each queue that a broker has had first."""
        ids = self.first_at(broker)
        found = (self._moved_by_place.get((broker, number)) for number in ids)
        return [broker if moved is None else moved.last.broker for moved in found]

    def has_left(self, broker: str) -> bool:
        """Return whether all queues that a broker has had first go on elsewhere."""
        ends = self.ends_of(broker)
        return bool(ends) and broker not in ends

    def ends(self) -> list[str]:
        """Return the broker of the open end of each queue, in the order of ``queues``."""
        found: list[str] = []
        for seen in self.queues():
            own = self.own_of(seen)
            assert own is not None, "it is in the order"
            moved = self._moved_by_place.get(own)
            found.append(own[0] if moved is None else moved.last.broker)
        return found

    def targets(self) -> list[str]:
        """Return the broker that each queue is on its way to, as ``ends``; empty for none."""
        found: list[str] = []
        for seen in self.queues():
            own = self.own_of(seen)
            moved = None if own is None else self._moved_by_place.get(own)
            found.append("" if moved is None or moved.target is None else moved.target.broker)
        return found

    @property
    def count(self) -> int:
        """The number of queues."""
        return sum(self._known_counts.values()) - len(self.kept)

    def queues(self) -> list[SeenQueue]:
        """Return all queues as clients see them, in their order."""
        return [SeenQueue(name, at) for name, count in self._counts() for at in range(count)]

    def index_of(self, seen: SeenQueue) -> int:
        """Return the place of a queue in ``queues``."""
        before = 0
        for name, count in self._counts():
            if name == seen.broker:
                return before + seen.queue_id
            before += count
        raise ValueError(f"no queue of {seen.broker} is in the order")

    def _counts(self) -> Iterator[tuple[str, int]]:
        yield from self.first
        for run in self.runs:
            yield run.name, run.count


def encode_behind(behind: Sequence[str]) -> bytes:
    """Return the brokers behind added ones as ``decode_behind`` reads them."""
    return msgspec.json.encode(behind)


def decode_behind(data: bytes) -> tuple[str, ...]:
    """Read the brokers behind added ones. Raises ``RemoteProtocolError``."""
    try:
        return msgspec.json.decode(data, type=_Behind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"no list of brokers behind added ones: {error}") from error
