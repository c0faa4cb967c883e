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
from ..rocks._rows import UNIT_VALUE_BYTES
from ._heads import LOW_COUNT, LOW_DATA, RUN_UNITS_MAX

LOW_BYTES: Final = 2
_SLICER: Final = Struct(f"{UNIT_VALUE_BYTES}s" * RUN_UNITS_MAX)


def slices(values: bytes) -> tuple[bytes, ...]:
    """The values one by one."""
    count = len(values) // UNIT_VALUE_BYTES
    slicer = _SLICER if count == RUN_UNITS_MAX else Struct(f"{UNIT_VALUE_BYTES}s" * count)
    return cast("tuple[bytes, ...]", slicer.unpack(values))


@final
class SortedTable:
    """One table; keys must come in order. Raises ``OSError``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._writer = SstFileWriter(unit_options())
        self._call(self._writer.open, str(path))

    def put(self, keys: QueueKeys, first_offset: int, values: bytes) -> None:
        """Add rows whose offsets follow each other; they agree in all but the last two bytes."""
        count = len(values) // UNIT_VALUE_BYTES
        low = first_offset % LOW_COUNT
        assert low + count <= LOW_COUNT
        same = keys.unit(first_offset)[:-LOW_BYTES]
        row_keys = map(same.__add__, LOW_DATA[low : low + count])
        rows = map(self._writer.__setitem__, row_keys, slices(values))
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
