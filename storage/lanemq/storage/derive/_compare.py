"""The comparison of the units of two indexes, or of an index with the log.

Runs are compared as bytes, and only where they differ unit by unit.
"""

import enum
from collections.abc import Iterator

from .._layouts import BLANK_SIZE, EXT_ADDRESS_MAX, UNIT_BYTES, unpack_unit
from .._search import first_offset

Data = bytes | bytearray


class Verdict(enum.Enum):
    """The result for one unit, ``found`` where ``wanted`` should be."""

    SAME = enum.auto()
    """Leads to the same message, with the same tags code or an equivalent one."""
    ABSENT = enum.auto()
    """The run ends before it."""
    BLANK = enum.auto()
    """Stands for a message that is gone, or nothing was written there."""
    MOVED = enum.auto()
    """Leads to something else."""
    TAGS = enum.auto()
    """Leads to the same message, with another tags code."""


def same_units(one: Data, other: Data) -> int:
    """Count the units at the begin that are the same in both, byte by byte."""
    if one == other:
        return len(one) // UNIT_BYTES

    def differ(number: int) -> bool:
        end = (number + 1) * UNIT_BYTES
        return one[:end] != other[:end]

    return first_offset(0, min(len(one), len(other)) // UNIT_BYTES, differ)


def judge(
    found: tuple[int, int, int], wanted: tuple[int, int, int], *, is_schedule: bool = False
) -> Verdict:
    """Judge one unit; both as (log position, size, tags code).

    A tags code of a unit in the schedule topic (``is_schedule``) is a time of delivery, which the
    broker's delay levels decide; one that is an address of an extended unit is as good as the code
    that the extension has.
    """
    if found == wanted:
        return Verdict.SAME
    if found[:2] == wanted[:2]:
        is_as_good = is_schedule or min(found[2], wanted[2]) <= EXT_ADDRESS_MAX
        return Verdict.SAME if is_as_good else Verdict.TAGS
    if found[1] == BLANK_SIZE or not any(found):
        return Verdict.BLANK
    return Verdict.MOVED


def differences(
    found: Data, wanted: Data, *, is_schedule: bool = False
) -> Iterator[tuple[int, Verdict]]:
    """Iterate over the numbers of those units of ``wanted`` that ``found`` has not, and why."""
    total, there = len(wanted) // UNIT_BYTES, len(found) // UNIT_BYTES
    for number in range(same_units(found, wanted), total):
        if number >= there:
            yield number, Verdict.ABSENT
            continue
        at = number * UNIT_BYTES
        verdict = judge(unpack_unit(found, at), unpack_unit(wanted, at), is_schedule=is_schedule)
        if verdict is not Verdict.SAME:
            yield number, verdict


def as_good_units(found: Data, wanted: Data) -> int:
    """Count the units at the begin that are the same in both, or equivalent."""
    first = next(differences(found, wanted), None)
    return first[0] if first is not None else len(wanted) // UNIT_BYTES
