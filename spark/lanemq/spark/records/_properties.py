"""The properties of many records: found as segments of one buffer, in place of dictionaries.

A property is ``name 0x01 value 0x02``; the last 0x02 may be missing. What has no name or no
value is passed over, and the last of several with one name counts, as ``decode_properties`` has
it.
"""

from typing import Final, final

import numpy as np
import pyarrow as pa

from ._gather import ArrowArray, Ints, gather, raw_bytes, strings, with_nulls

NAME_END: Final = 1
VALUE_END: Final = 2
MASK_NAMES_MAX: Final = 62
"""Distinct names that fit a mask of 64 bits."""


@final
class PropertyColumns:
    """The properties of ``count`` records, as columns."""

    def __init__(self, data: bytes | memoryview, starts: Ints, ends: Ints) -> None:
        self._count = len(starts)
        offsets, self._bytes = raw_bytes(gather(data, starts, ends))
        begins, stops = _segments(self._bytes, offsets)
        ones = np.flatnonzero(self._bytes == NAME_END)
        numbers = np.searchsorted(ones, begins)
        known = np.append(ones, len(self._bytes))[numbers]
        sound = np.flatnonzero((known > begins) & (known + 1 < stops))
        self._name_at = begins[sound]
        self._name_end = known[sound]
        self._value_end = stops[sound]
        self._row = np.searchsorted(offsets[1:], self._name_at, side="right")

    def get(self, name: str) -> ArrowArray:
        """Return the values of one property as strings, null where a record has none."""
        data = name.encode()
        found = np.flatnonzero(self._name_end - self._name_at == len(data))
        for number, byte in enumerate(data):
            found = found[self._bytes[self._name_at[found] + number] == byte]
        last = np.full(self._count, -1, np.int64)
        last[self._row[found]] = found  # of several in one record, the last stays
        is_there = last >= 0
        wanted = last[is_there]
        values = gather(self._bytes, self._name_end[wanted] + 1, self._value_end[wanted])
        return with_nulls(strings(values), is_there)

    def maps(self, kind: ArrowArray) -> ArrowArray:
        """Return all properties as maps of type ``kind``, in their order."""
        names = strings(gather(self._bytes, self._name_at, self._name_end))
        values = strings(gather(self._bytes, self._name_end + 1, self._value_end))
        rows = self._row
        kept = self._without_repeats(names)
        if kept is not None:
            names, values, rows = (
                names.take(pa.array(kept)),
                values.take(pa.array(kept)),
                rows[kept],
            )
        offsets = np.zeros(self._count + 1, np.int32)
        np.cumsum(np.bincount(rows, minlength=self._count), out=offsets[1:])
        return pa.MapArray.from_arrays(pa.array(offsets), names, values).cast(kind)

    def _without_repeats(self, names: ArrowArray) -> Ints | None:
        """Return the segments to keep where a record repeats a name; None where none does.

        A name keeps its first place and its last value, as in a dictionary.
        """
        encoded = names.dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.int64)
        distinct = len(encoded.dictionary)
        if distinct <= MASK_NAMES_MAX and len(codes):
            bits = np.left_shift(np.int64(1), codes)
            begins = np.flatnonzero(np.diff(self._row, prepend=-1))
            sums = np.add.reduceat(bits, begins)
            if (sums == np.bitwise_or.reduceat(bits, begins)).all():
                return None
        keys = self._row * max(distinct, 1) + codes
        unique, first = np.unique(keys, return_index=True)
        if len(unique) == len(keys):
            return None
        _, back = np.unique(keys[::-1], return_index=True)
        last = len(keys) - 1 - back
        return np.asarray(last[np.argsort(first)], np.int64)


def _segments(data: "np.typing.NDArray[np.uint8]", offsets: Ints) -> tuple[Ints, Ints]:
    """Return beginnings and ends of what 0x02 separates, within each record."""
    marks = np.flatnonzero(data == VALUE_END)
    ends = offsets[1:][offsets[1:] > offsets[:-1]]
    open_ends = ends[data[ends - 1] != VALUE_END]
    if not len(open_ends):
        return np.concatenate([np.zeros(1, np.int64), marks + 1])[: len(marks)], marks
    stops = np.concatenate([open_ends, marks])
    order = np.argsort(stops, kind="stable")  # an open end stands before a mark at its place
    stops = stops[order]
    steps = (order >= len(open_ends)).astype(np.int64)
    begins = np.concatenate([np.zeros(1, np.int64), (stops + steps)[:-1]])
    return begins, stops
