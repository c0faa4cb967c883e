"""Sorted tables that RocksDB takes in as they are, without its memory in between."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Any, Final, cast, final

from rocksdict import SstFileWriter

from ..rocks import QueueKeys
from ..rocks._database import rocks_error
from ..rocks._options import unit_options
from ..rocks._rows import OFFSET_BYTES, UNIT_VALUE_BYTES
from ._heads import offsets_data

CHUNK_ROWS: Final = 8192
_SLICERS: Final[dict[tuple[int, int], Struct]] = {}


def slices(data: bytes, size_bytes: int) -> tuple[bytes, ...]:
    """The pieces of ``data`` that are so long each."""
    count = len(data) // size_bytes
    slicer = _SLICERS.get((size_bytes, count))
    if slicer is None:
        slicer = Struct(f"{size_bytes}s" * count)
        if count == CHUNK_ROWS:
            _SLICERS[size_bytes, count] = slicer
    return cast("tuple[bytes, ...]", slicer.unpack(data))


@final
class SortedTable:
    """One table; keys must come in order. Raises ``OSError``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._writer = SstFileWriter(unit_options())
        self._call(self._writer.open, str(path))

    def put(self, keys: QueueKeys, first_offset: int, values: bytes) -> None:
        """Add rows whose offsets follow each other."""
        count = len(values) // UNIT_VALUE_BYTES
        row_keys = map(
            keys.unit_prefix.__add__, slices(offsets_data(first_offset, count), OFFSET_BYTES)
        )
        rows = map(self._writer.__setitem__, row_keys, slices(values, UNIT_VALUE_BYTES))
        self._call(deque, rows, 0)
        self.rows += count

    def finish(self) -> None:
        """Write the rest."""
        self._call(self._writer.finish)

    def _call(self, call: Callable[..., object], *values: Any) -> None:  # noqa: ANN401
        try:
            call(*values)
        except Exception as error:
            raise rocks_error(error, self.path) from error
