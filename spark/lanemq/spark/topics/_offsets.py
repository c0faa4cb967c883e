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


def ranges(begin: Offsets, end: Offsets) -> list[QueueRange]:
    """Return the ranges between; a queue that ``begin`` lacks is read from its first message."""
    return [
        QueueRange(topic, queue, begin.get(topic, {}).get(queue, 0), stop)
        for topic, queues in end.items()
        for queue, stop in queues.items()
        if begin.get(topic, {}).get(queue, 0) < stop
    ]


def split(found: list[QueueRange], least: int) -> list[QueueRange]:
    """Divide the longest ranges until there are ``least``, or none can be divided."""
    total = sum(one.end - one.begin for one in found)
    if not total or len(found) >= least:
        return found
    parts: list[QueueRange] = []
    for one in found:
        count = max(1, min(one.end - one.begin, round((one.end - one.begin) / total * least)))
        size = one.end - one.begin
        cuts = [one.begin + size * number // count for number in range(count + 1)]
        parts += [one._replace(begin=low, end=high) for low, high in pairwise(cuts) if low < high]
    return parts


def limited(begin: Offsets, end: Offsets, most: int) -> Offsets:
    """Return an end with about ``most`` messages behind ``begin``, in proportion to what queues
    have; at least one where there is any."""
    found = ranges(begin, end)
    total = sum(one.end - one.begin for one in found)
    if total <= most:
        return end
    result = {topic: dict(queues) for topic, queues in end.items()}
    left = max(1, most)
    longest_last = sorted(found, key=lambda one: one.end - one.begin)
    for one in longest_last:
        size = one.end - one.begin
        # The last one takes what rounding has left of the others' shares.
        share = left if one is longest_last[-1] else max(1, size * most // total)
        share = min(left, size, share)
        result[one.topic][one.queue] = one.begin + share
        left -= share
    return result


def merged(start: Mapping[str, Mapping[str, int]], end: Offsets) -> Offsets:
    """Return ``end`` with the queues of ``start`` that it lacks, and none before its start."""
    result = {topic: dict(queues) for topic, queues in end.items()}
    for topic, queues in start.items():
        for queue, offset in queues.items():
            mine = result.setdefault(topic, {})
            mine[queue] = max(offset, mine.get(queue, offset))
    return result
