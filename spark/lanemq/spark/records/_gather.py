"""Ranges of a buffer, gathered into one Arrow array by Arrow's own copy loop."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Buffer = bytes | memoryview | npt.NDArray[np.uint8]
ArrowArray = Any
"""A ``pyarrow.Array``: pyarrow publishes no types."""


def gather(data: Buffer, starts: Ints, ends: Ints) -> ArrowArray:
    """Return the bytes from each start to each end as a binary array.

    Ranges must be in order, and must not overlap.
    """
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    # Ranges and the gaps between them are one array over the buffer; every second is wanted.
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    both = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    return both.take(pa.array(np.arange(0, 2 * count, 2)))


def strings(values: ArrowArray) -> ArrowArray:
    """Return a binary array as strings; bytes that are not UTF-8 become replacement characters."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [
            None if one is None else one.decode("utf-8", "replace") for one in values.to_pylist()
        ]
        return pa.array(decoded, pa.string())


def raw_bytes(values: ArrowArray) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """Return offsets and bytes of a binary array that ``gather`` made."""
    if not len(values):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    found = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return ends.astype(np.int64), found


def with_nulls(values: ArrowArray, is_there: npt.NDArray[np.bool_]) -> ArrowArray:
    """Spread values, one for each true, over all places; the others become null."""
    if len(values) == len(is_there):
        return values
    numbers = np.cumsum(is_there) - 1
    return values.take(pa.array(numbers, pa.int64(), mask=~is_there))
