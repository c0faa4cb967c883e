"""Offsets of queues: parsing of options, and division of a query into ranges. No I/O.

An offset counts messages of a queue. A queue is named ``BROKER:ID`` within its topic, and the
offsets of a query are ``{topic: {queue: offset}}``, as in Spark's source for Kafka.
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple, final

from .._options import Options

Offsets = dict[str, dict[str, int]]
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
LATEST_NUMBER: Final = -1
EARLIEST_NUMBER: Final = -2
"""The numbers of the two in JSON, as in Spark's source for Kafka."""


@final
class Bounds(NamedTuple):
    """The offsets that a broker has of a queue: the oldest one, and the one behind the newest."""

    first: int
    end: int


Known = dict[str, dict[str, Bounds]]
Assigned = dict[str, list[str]]
"""Topic -> names of queues."""
LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, behind which neither Spark nor Python has times."""


@final
class Times(NamedTuple):
    """Store times in milliseconds since 1970, in place of offsets: the first message stored then
    or later, and the end of the queue if there is none."""

    of_all: int | None
    """The time for queues that ``by_queue`` leaves out, if there is one."""
    by_queue: dict[str, dict[str, int]]


@final
class QueueRange(NamedTuple):
    """The offsets from ``begin`` to before ``end`` of one queue."""

    topic: str
    queue: str
    begin: int
    end: int


def parse_offsets(options: Options, name: str) -> str | Offsets:
    """Read an option: ``earliest``, ``latest`` or JSON. Raises ``OptionInvalid``."""
    text = options.text(name).strip()
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    why = (
        'it takes earliest, latest, or JSON as {"topic": {"broker-a:0": 23, "broker-a:1": -2}},'
        " where -1 is latest and -2 earliest"
    )
    try:
        found = json.loads(text)
        return {
            topic: {queue: _offset(number) for queue, number in queues.items()}
            for topic, queues in found.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise options.wrong(name, why) from error


def parse_times(options: Options, name: str) -> dict[str, dict[str, int]]:
    """Read a JSON of times, in milliseconds, for queues. Raises ``OptionInvalid``."""
    try:
        found = json.loads(options.text(name))
        return {
            topic: {queue: _time(number) for queue, number in queues.items()}
            for topic, queues in found.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise options.wrong(
            name,
            'it takes JSON as {"topic": {"broker-a:0": 1700000000000}}, in milliseconds since 1970',
        ) from error


def parse_assigned(options: Options) -> Assigned | None:
    """Read the option ``assign``; None if it is not given. Raises ``OptionInvalid``."""
    if not options.get("assign"):
        return None
    wrong = options.wrong("assign", 'it takes JSON as {"topic": ["broker-a:0", "broker-a:1"]}')
    try:
        found = json.loads(options.text("assign"))
        result = {topic: list(dict.fromkeys(queues)) for topic, queues in found.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise wrong from error
    names = [name for queues in result.values() for name in queues]
    if not names or not all(isinstance(name, str) and ":" in name for name in names):
        raise wrong
    return result


def _time(number: Any) -> int:  # noqa: ANN401 - as JSON has it
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= LATEST_MS:
        raise ValueError(number)
    return number


def _offset(number: Any) -> int:  # noqa: ANN401 - as JSON has it
    if not isinstance(number, int) or isinstance(number, bool) or number < EARLIEST_NUMBER:
        raise ValueError(number)
    return number


def resolve(wanted: str | Offsets, known: Known, *, otherwise: str) -> Offsets:
    """Return an offset for each queue; ``otherwise`` is for those that JSON leaves out."""

    def offset(topic: str, queue: str, bounds: Bounds) -> int:
        if isinstance(wanted, str):
            number = _number(wanted)
        else:
            number = wanted.get(topic, {}).get(queue, _number(otherwise))
        if number == LATEST_NUMBER:
            return bounds.end
        return bounds.first if number == EARLIEST_NUMBER else number

    return {
        topic: {queue: offset(topic, queue, bounds) for queue, bounds in queues.items()}
        for topic, queues in known.items()
    }


def _number(word: str) -> int:
    return LATEST_NUMBER if word == LATEST else EARLIEST_NUMBER


def unknown_queues(wanted: str | Offsets, known: Known) -> list[str]:
    """Return the queues that JSON names and that are not there."""
    if isinstance(wanted, str):
        return []
    return [
        f"{topic} {queue}"
        for topic, queues in wanted.items()
        for queue in queues
        if queue not in known.get(topic, {})
    ]


@final
class LostOffset(NamedTuple):
    """A given offset that a queue no longer has, or does not have yet."""

    option: str
    topic: str
    queue: str
    offset: int
    bounds: Bounds

    def __str__(self) -> str:
        where = f"queue {self.queue} of {self.topic}"
        if self.offset > self.bounds.end:
            what = f"{where} ends at {self.bounds.end}"
        else:
            what = f"the oldest message of {where} is {self.bounds.first}"
        return (
            f"{self.option} has offset {self.offset}, and {what}. Its broker removed or lost"
            " messages, or the topic was made again"
        )


def lost_starts(begin: Offsets, known: Known) -> list[LostOffset]:
    """Return the offsets of a start that are behind the ends of their queues."""
    return [
        LostOffset("startingOffsets", topic, queue, begin[topic][queue], bounds)
        for topic, queues in known.items()
        for queue, bounds in queues.items()
        if begin[topic][queue] > bounds.end
    ]


def lost_ends(begin: Offsets, end: Offsets, known: Known) -> list[LostOffset]:
    """Return the offsets of an end that are before the first messages of their queues."""
    return [
        LostOffset("endingOffsets", topic, queue, end[topic][queue], bounds)
        for topic, queues in known.items()
        for queue, bounds in queues.items()
        if end[topic][queue] < min(bounds.first, begin[topic][queue])
    ]


def crossed(begin: Offsets, end: Offsets, known: Known) -> QueueRange | None:
    """Return a queue whose start is behind its end, though both are among its messages."""
    for topic, queues in known.items():
        for queue, bounds in queues.items():
            first, last = begin[topic][queue], end[topic][queue]
            if bounds.first <= last < first <= bounds.end:
                return QueueRange(topic, queue, first, last)
    return None


def ranges(begin: Offsets, end: Offsets) -> list[QueueRange]:
    """Return the ranges between; a queue that ``begin`` lacks is read from its first message."""
    return [
        QueueRange(topic, queue, begin.get(topic, {}).get(queue, 0), stop)
        for topic, queues in end.items()
        for queue, stop in queues.items()
        if begin.get(topic, {}).get(queue, 0) < stop
    ]


def shares(sizes: list[int], whole: int) -> list[int]:
    """Divide ``whole`` among parts in proportion to their sizes: the shares add up to it exactly.

    No share is greater than its size, and none is 0. ``whole`` is at least the number of parts;
    one above the sum of the sizes gives the sizes. The largest remainders take what rounding
    leaves.
    """
    total, count = sum(sizes), len(sizes)
    if whole >= total:
        return list(sizes)
    over, left = whole - count, total - count
    exact = [divmod(over * (size - 1), left) for size in sizes]
    result = [1 + floor for floor, _ in exact]
    by_remainder = sorted(range(count), key=lambda one: -exact[one][1])
    for one in by_remainder[: whole - sum(result)]:
        result[one] += 1
    return result


def split(found: list[QueueRange], least: int) -> list[QueueRange]:
    """Divide ranges, the longest the most, until there are ``least``, or one for each message."""
    if len(found) >= least:
        return found
    parts: list[QueueRange] = []
    counts = shares([one.end - one.begin for one in found], least)
    for one, count in zip(found, counts, strict=True):
        size = one.end - one.begin
        cuts = [one.begin + size * number // count for number in range(count + 1)]
        parts += [one._replace(begin=low, end=high) for low, high in pairwise(cuts)]
    return parts


def limited(begin: Offsets, end: Offsets, most: int) -> Offsets:
    """Return an end with ``most`` messages behind ``begin``, in proportion to what queues have.

    Every queue with messages gets one at least. If there are more of these than ``most``, the
    queues take turns: the sum of all offsets says whose turn it is, so that a restart continues
    where the stream was, and no queue waits for ever.
    """
    found = ranges(begin, end)
    if sum(one.end - one.begin for one in found) <= most:
        return end
    if len(found) > most:
        found = [one._replace(end=one.begin + 1) for one in _next_in_turn(begin, end, most)]
    taken = shares([one.end - one.begin for one in found], most)
    result = {
        topic: {queue: begin.get(topic, {}).get(queue, 0) for queue in queues}
        for topic, queues in end.items()
    }
    for one, share in zip(found, taken, strict=True):
        result[one.topic][one.queue] = one.begin + share
    return result


def _next_in_turn(begin: Offsets, end: Offsets, most: int) -> list[QueueRange]:
    """Return ``most`` of the ranges: the next ones that have messages, of the circle of queues.

    A batch of one message for each of ``most`` queues raises the sum of the offsets by ``most``,
    so the next batch starts behind them.
    """
    places = sorted((topic, queue) for topic, queues in end.items() for queue in queues)
    offsets = {place: begin.get(place[0], {}).get(place[1], 0) for place in places}
    first = sum(offsets.values()) % len(places)
    circle = places[first:] + places[:first]
    found = (QueueRange(*place, offsets[place], end[place[0]][place[1]]) for place in circle)
    return [one for one in found if one.begin < one.end][:most]


def merged(start: Mapping[str, Mapping[str, int]], end: Offsets) -> Offsets:
    """Return ``end`` with the queues of ``start`` that it lacks, and none before its start."""
    result = {topic: dict(queues) for topic, queues in end.items()}
    for topic, queues in start.items():
        for queue, offset in queues.items():
            mine = result.setdefault(topic, {})
            mine[queue] = max(offset, mine.get(queue, offset))
    return result
