"""Sorted tables that RocksDB ingests as they are, without a detour through its memory."""

from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Any, Final, cast, final

from rocksdict import SstFileWriter

from ...queues.rocks._row_format import UNIT_VALUE_BYTES, QueueKeys
from ...rocks._opening import rocks_error
from ...rocks._options import unit_options
from ._heads import LOW_COUNT, LOW_DATA, RUN_UNITS_MAX

LOW_BYTES: Final = 2
_SLICER: Final = Struct(f"{UNIT_VALUE_BYTES}s" * RUN_UNITS_MAX)


def queue_keys(topic: str, queue_id: int) -> QueueKeys:
    """Return the keys of a queue's rows."""
    return QueueKeys(topic.encode(), queue_id)


def slices(values: bytes) -> tuple[bytes, ...]:
    """Iterate over the values one by one."""
    count = len(values) // UNIT_VALUE_BYTES
    slicer = _SLICER if count == RUN_UNITS_MAX else Struct(f"{UNIT_VALUE_BYTES}s" * count)
    return cast("tuple[bytes, ...]", slicer.unpack(values))


def _put_rows(
    writer: SstFileWriter, same: bytes, ends: tuple[bytes, ...], values: tuple[bytes, ...]
) -> None:
    # A loop of the interpreter: calls by ``map`` take a tuple of both arguments each.
    for end, value in zip(ends, values, strict=True):
        writer[same + end] = value


@final
class SortedTable:
    """A sorted table; keys must come in order. Raises ``OSError``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._writer = SstFileWriter(unit_options())
        self._call(self._writer.open, str(path))

    def put(self, keys: QueueKeys, first_offset: int, values: bytes) -> None:
        """Add rows whose offsets follow each other and agree in all but the last two bytes."""
        count = len(values) // UNIT_VALUE_BYTES
        low = first_offset % LOW_COUNT
        assert low + count <= LOW_COUNT
        same = keys.unit(first_offset)[:-LOW_BYTES]
        self._call(_put_rows, self._writer, same, LOW_DATA[low : low + count], slices(values))
        self.rows += count

    def put_run(self, keys: QueueKeys, first_offset: int, values: bytes) -> None:
        """Add any number of rows whose offsets follow each other."""
        begin, count = 0, len(values) // UNIT_VALUE_BYTES
        while begin < count:
            low = (first_offset + begin) % LOW_COUNT
            size = min(count - begin, RUN_UNITS_MAX, LOW_COUNT - low)
            part = values[begin * UNIT_VALUE_BYTES : (begin + size) * UNIT_VALUE_BYTES]
            self.put(keys, first_offset + begin, part)
            begin += size

    def finish(self) -> None:
        """Write the rest."""
        self._call(self._writer.finish)

    def _call(self, call: Callable[..., object], *values: Any) -> None:  # noqa: ANN401 - the call's
        try:
            call(*values)
        except Exception as error:
            raise rocks_error(error, self.path) from error
