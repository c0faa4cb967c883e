"""Pauses of senders, and a check that all acknowledged messages are there. Pure.

Times are nanoseconds of the machine's monotonic clock, which its processes share.
"""

import statistics
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Times = Mapping[int, Sequence[int]]
"""Sender -> when each of its messages was acknowledged, one after the other."""
Window = tuple[int, int]
NS_PER_MS = 1e6


def decode_times(data: bytes) -> dict[int, Sequence[int]]:
    """Read the times that a client program left: for each sender its number, their count, and the
    times."""
    flat, at = array("q"), 0
    times: dict[int, Sequence[int]] = {}
    flat.frombytes(data)
    if sys.byteorder == "little":
        flat.byteswap()
    while at < len(flat):
        sender, count = flat[at], flat[at + 1]
        times[sender] = flat[at + 2 : at + 2 + count]
        at += 2 + count
    return times


def usual_gap_ns(times: Times, window: Window) -> float:
    """Return the median time from one acknowledgement of a sender to its next within a window."""
    return statistics.median(
        after - before for stored in times.values() for before, after in _gaps(stored, window)
    )


def longest_gap_ns(times: Times, window: Window) -> int:
    """Return any sender's longest wait for an acknowledgement during some of a window."""
    return max(
        (after - before for stored in times.values() for before, after in _gaps(stored, window)),
        default=0,
    )


def acknowledged_in(times: Times, window: Window) -> int:
    """Return the number of messages acknowledged in a window."""
    begin, end = window
    return sum(bisect_left(stored, end) - bisect_left(stored, begin) for stored in times.values())


def _gaps(stored: Sequence[int], window: Window) -> Iterable[tuple[int, int]]:
    """Neighbouring acknowledgements with some of the window between them."""
    begin, end = window
    first, behind = max(bisect_right(stored, begin) - 1, 0), bisect_left(stored, end) + 1
    part = stored[first:behind]
    return pairwise(part)


def pieces(window: Window, length_ns: float) -> list[Window]:
    """Cut a window into as many of a length as it has, at least one."""
    begin, end = window
    count = max(1, int((end - begin) / length_ns))
    step = min(length_ns, end - begin)
    return [(round(begin + n * step), round(begin + (n + 1) * step)) for n in range(count)]


@dataclass(frozen=True, slots=True)
class Account:
    """The fate of acknowledged messages: lost, repeated, out of order."""

    lost: int
    duplicated: int
    out_of_order: int
    """Number of messages that come, for the first time, after a later one of the same sender."""


def account(sent: Mapping[int, int], found: Iterable[tuple[int, int]]) -> Account:
    """Compare what is in the queue, as (sender, number) from its first offset on, with what
    was acknowledged: ``sent`` has how many of each sender, which numbers them from 0.
    """
    seen = {sender: bytearray(count) for sender, count in sent.items()}
    latest = dict.fromkeys(sent, -1)
    duplicated = out_of_order = 0
    for sender, number in found:
        marks = seen[sender]
        if number >= len(marks):  # stored, and not acknowledged before its sender stopped
            marks.extend(bytes(number - len(marks) + 1))
        if marks[number]:
            duplicated += 1
            continue
        marks[number] = 1
        if number < latest[sender]:
            out_of_order += 1
        latest[sender] = max(latest[sender], number)
    lost = sum(count - seen[sender][:count].count(1) for sender, count in sent.items())
    return Account(lost, duplicated, out_of_order)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that ``share`` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 100) * len(ordered) // 100) - 1)]
