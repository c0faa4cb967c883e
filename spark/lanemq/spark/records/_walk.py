"""The first bytes of a window's records, by many walks beside each other, joined to one.

A record says how long it is, so that a walk needs each to find the next. Walks that begin at
places that look like records do their steps together, as arrays. A walk counts only where the one
before it ends at its first place, and what no walk covers is walked alone: the places found are
those of one walk from the first byte on.
"""

import re
from struct import Struct
from typing import Final

import numpy as np

from lanemq.wire.message import MAGIC_V1, MAGIC_V2

from ._gather import Ints

SIZE: Final = Struct(">i")
SIZE_TYPE: Final = np.dtype(">u4")
"""A size below 0 is one that no window holds."""
MAGIC_TYPE: Final = np.dtype(">i4")
MAGIC_AT: Final = SIZE.size
MAGIC: Final = re.compile(
    b"(?:%b|%b)" % tuple(re.escape(SIZE.pack(one)) for one in (MAGIC_V1, MAGIC_V2))
)
STRIDE_BYTES: Final = 64 << 10
"""Distance of two walks in a window, long enough for some dozens of usual records."""
WALKS_MIN: Final = 8
"""Least number of walks that are done beside each other; fewer are faster one by one."""
Window = bytes | memoryview


def walk_sizes(data: Window, at: int, stop: int, *, least: int) -> tuple[Ints, int]:
    """Walk from record to record by their sizes alone; no record begins at or behind ``stop``.

    ``least``: the bytes of the smallest record. Returns the places of those that lie in ``data``
    whole, and where the walk ended.
    """
    behind = min(len(data) - least + 1, stop)
    firsts = _likely(data, at, behind)
    if len(firsts) < WALKS_MIN:
        starts, end = _alone(data, at, behind, least)
    else:
        starts, end = _together(data, firsts, at, behind, least)
    return _whole(data, starts, end, least)


def _likely(data: Window, at: int, behind: int) -> list[int]:
    """Return the first place in each stride that looks like a record."""
    found = []
    for begin in range(at, behind, STRIDE_BYTES):
        end = min(begin + STRIDE_BYTES, behind)
        if match := MAGIC.search(data, begin + MAGIC_AT, end + MAGIC_AT):
            found.append(match.start() - MAGIC_AT)
    return found


def _alone(data: Window, at: int, behind: int, least: int) -> tuple[Ints, int]:
    """Walk to the first place at or behind ``behind``, or to an impossible size."""
    unpack, found = SIZE.unpack_from, list[int]()
    add = found.append
    while at < behind:
        (size,) = unpack(data, at)
        if size < least:
            break
        add(at)
        at += size
    return np.array(found, np.int64), at


def _together(
    data: Window, firsts: list[int], at: int, behind: int, least: int
) -> tuple[Ints, int]:
    begins = np.array(firsts, np.int64)
    limits = np.append(begins[1:], behind)
    steps, ends = _steps(data, begins, limits, least)
    counts = np.count_nonzero(steps < limits, axis=0)
    parts = []
    for number, first in enumerate(firsts):
        if at < first:
            part, at = _alone(data, at, first, least)
            parts.append(part)
            if at < first:  # an impossible size
                return np.concatenate(parts), at
        if at == first:
            parts.append(steps[: counts[number], number])
            at = int(ends[number])
    part, at = _alone(data, at, behind, least)
    return np.concatenate([*parts, part]), at


def _steps(data: Window, at: Ints, limits: Ints, least: int) -> tuple[Ints, Ints]:
    """Walk from every place of ``at`` until it is at its limit, or few walks go on.

    Returns the places of each step, and where each walk is; one that is at its limit stays.
    """
    last = len(data) - SIZE_TYPE.itemsize
    sizes = np.ndarray((last + 1,), f"V{SIZE_TYPE.itemsize}", data, strides=(1,))
    steps = []
    goes_on = at < limits
    while np.count_nonzero(goes_on) >= WALKS_MIN:
        steps.append(at)
        size = sizes[np.minimum(at, last)].view(SIZE_TYPE)
        at = np.where(goes_on, at + np.maximum(size, least), at)
        goes_on = at < limits
    return np.stack(steps), at


def _whole(data: Window, starts: Ints, end: int, least: int) -> tuple[Ints, int]:
    """Return the places up to the first that is not a record, or does not lie in ``data`` whole."""
    if not len(starts):
        return starts, end
    kind = f"V{MAGIC_AT + MAGIC_TYPE.itemsize}"
    heads = np.ndarray((len(data) - 7,), kind, data, strides=(1,))[starts]
    words = heads.view(MAGIC_TYPE)
    sizes, magic = words[0::2], words[1::2]
    sound = (magic == MAGIC_V1) | (magic == MAGIC_V2)
    sound &= (sizes >= least) & (starts + sizes <= len(data))
    if sound.all():
        return starts, end
    count = int(np.argmin(sound))
    return starts[:count], int(starts[count])
