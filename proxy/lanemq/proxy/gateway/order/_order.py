"""The order of a topic's queues that clients see: queues come in at its end, and nowhere else.

Clients sort queues by the name of the broker and the number there. So queues that a cluster adds in
between are seen at an *added broker*, whose name sorts behind those of the cluster's brokers, and
by the number of the added broker. Each stands for one broker of the cluster in one topic, and for
another one in another topic: so topics share them. All pure.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Final, NamedTuple, Self, final

import msgspec

from lanemq.wire import ROUTE_QUEUES_MAX, RemoteProtocolError

ADDED_PREFIX: Final = "~lanemq-"
"""Begin of the names of added brokers; nearly all names of brokers sort before."""
ADDED_MAX: Final = 100
"""Most added brokers of a topic. It needs another one where it grows at another broker than the
last time."""
BEHIND_MAX: Final = 1000
"""Most brokers of the cluster that have queues at added brokers."""
_DIGITS: Final = 3
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
    with; ``runs`` follow, by the numbers of their added brokers.
    """

    first: tuple[tuple[str, int], ...] = ()
    runs: tuple[Run, ...] = ()

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
        ):
            raise RemoteProtocolError("no order of queues: its numbers contradict one another")
        return order

    def encode(self) -> bytes:
        """Return the order as ``decode`` reads it."""
        return msgspec.json.encode(self)

    @property
    def is_the_clusters(self) -> bool:
        """True if clients sort the queues as they do without a proxy."""
        return not self.runs

    @cached_property
    def _first_counts(self) -> dict[str, int]:
        return dict(self.first)

    @cached_property
    def _known_counts(self) -> dict[str, int]:
        counts = dict(self.first)
        for run in self.runs:
            counts[run.broker] = counts.get(run.broker, 0) + run.count
        return counts

    def first_of(self, broker: str) -> int:
        """Return how many queues of a broker are seen under its own name."""
        return self._first_counts.get(broker, 0)

    def known_of(self, broker: str) -> int:
        """Return how many queues of a broker are in the order."""
        return self._known_counts.get(broker, 0)

    def lacks(self, told: Mapping[str, int]) -> bool:
        """Return whether brokers, by how many queues each has, have some that are not in it."""
        return any(
            count > self.known_of(broker)
            for broker, count in told.items()
            if sorts_before_added(broker)
        )

    def seen(self, broker: str, queue_id: int) -> SeenQueue | None:
        """Return where clients see a queue of a broker; None for one that is not in the order."""
        if queue_id < self.first_of(broker):
            return SeenQueue(broker, queue_id)
        for run in self.runs:
            if run.broker == broker and run.start <= queue_id < run.end:
                return SeenQueue(run.name, queue_id - run.start)
        return None

    def run_at(self, number: int) -> Run | None:
        """Return the queues at an added broker; None where it has none of this topic."""
        return next((run for run in self.runs if run.number == number), None)

    @property
    def count(self) -> int:
        """The number of queues."""
        return sum(self._known_counts.values())

    def queues(self) -> list[SeenQueue]:
        """Return all queues as clients see them, in their order."""
        places = [*self.first, *((run.name, run.count) for run in self.runs)]
        return [SeenQueue(name, at) for name, count in places for at in range(count)]


def extended(
    order: QueueOrder, told: Mapping[str, int], behind: Sequence[str]
) -> tuple[QueueOrder, tuple[str, ...]]:
    """Return the order with all queues of the brokers ``told``, and the brokers behind added ones.

    ``behind`` has the brokers of the cluster that have queues at added ones in any topic. Queues
    for which there would be more than ``ADDED_MAX`` added brokers, or more than ``BEHIND_MAX``
    brokers behind them, stay out.
    """
    new = {
        broker: count
        for broker, count in sorted(told.items())
        if sorts_before_added(broker) and count > order.known_of(broker)
    }
    first = dict(order.first)
    if not order.runs:
        last = max(first, default="")
        at_the_end = {broker: count for broker, count in new.items() if broker >= last}
        first |= at_the_end
        new = {broker: count for broker, count in new.items() if broker not in at_the_end}
    runs, all_behind = list(order.runs), list(behind)
    for broker, count in new.items():
        known = order.known_of(broker)
        last_run = runs[-1] if runs else None
        if last_run is not None and last_run.broker == broker:
            more = last_run.count + count - known
            runs[-1] = Run(last_run.number, broker, last_run.start, more)
            continue
        number = 0 if last_run is None else last_run.number + 1
        if broker not in all_behind and len(all_behind) < BEHIND_MAX:
            all_behind.append(broker)
        if number < ADDED_MAX and broker in all_behind:
            runs.append(Run(number, broker, known, count - known))
    return QueueOrder(tuple(sorted(first.items())), tuple(runs)), tuple(all_behind)


def encode_behind(behind: Sequence[str]) -> bytes:
    """Return the brokers behind added ones as ``decode_behind`` reads them."""
    return msgspec.json.encode(behind)


def decode_behind(data: bytes) -> tuple[str, ...]:
    """Read the brokers behind added ones. Raises ``RemoteProtocolError``."""
    try:
        return msgspec.json.decode(data, type=_Behind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"no list of brokers behind added ones: {error}") from error
