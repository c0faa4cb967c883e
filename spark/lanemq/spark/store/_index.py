"""The table ``index``: a row for each entry of the key index."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lanemq.storage.tools import look_into

from .._errors import SourceError
from .._filters import filtered
from .._uris import shown
from ..records import TIMESTAMP
from ._files import StoreFiles
from ._local import commit_log, local_store
from ._table import Query

INDEX: Final = "index"
HEADER_BYTES: Final = 40
SLOT_BYTES: Final = 4
ENTRY: Final = np.dtype(
    [("hash", ">i4"), ("position", ">i8"), ("seconds", ">i4"), ("previous", ">i4")]
)
ENTRIES_AT_ONCE: Final = 1 << 18
INDEX_COLUMNS: Final = {
    "file": "string",
    "entry": "int",
    "keyHash": "int",
    "logPosition": "bigint",
    "storeTimestamp": "timestamp",
    "previousEntry": "int",
}


@final
@dataclass(frozen=True)
class IndexPart(InputPartition):
    """One file of the index."""

    root: str
    name: str


@final
class IndexTable:
    """A row for each entry: the hash of ``topic#key``, and where the message is.

    ``storeTimestamp`` is exact to the second.
    """

    columns = INDEX_COLUMNS
    on_demand: Final[dict[str, str]] = {}

    def parts(self, query: Query) -> list[InputPartition]:
        return [
            IndexPart(root, entry.name)
            for root in query.roots
            for entry in StoreFiles(root).entries(INDEX)
            if not entry.is_directory and entry.name.isdigit()
        ]

    def batches(self, query: Query, part: IndexPart) -> Iterator[Any]:
        files = StoreFiles(part.root)
        file = files.open(f"{INDEX}/{part.name}")
        header = np.frombuffer(file.read(0, HEADER_BYTES), ">i8", 4)
        next_entry = int(np.frombuffer(file.read(36, 4), ">i4")[0])
        if next_entry <= 1:
            return
        base = HEADER_BYTES + SLOT_BYTES * self._slots(query, part)
        for begin in range(1, next_entry, ENTRIES_AT_ONCE):
            count = min(ENTRIES_AT_ONCE, next_entry - begin)
            data = file.read(base + begin * ENTRY.itemsize, count * ENTRY.itemsize)
            entries = np.frombuffer(data, ENTRY, len(data) // ENTRY.itemsize)
            yield _batch(query, part.name, begin, entries, int(header[0]))
        file.close()

    def _slots(self, query: Query, part: IndexPart) -> int:
        with local_store(part.root, INDEX) as directory:
            sizes = look_into(
                directory, commit_log=commit_log(query, part.root), needs_log=False
            ).index_sizes
        if sizes is None:
            raise SourceError(
                f"{shown(part.root)}: its index files do not show how many slots they have"
            )
        return sizes.slots


def _batch(query: Query, name: str, first: int, entries: Any, begin_ms: int) -> Any:  # noqa: ANN401 - pyarrow has no types
    count = len(entries)
    milliseconds = begin_ms + entries["seconds"].astype(np.int64) * 1000
    arrays = {
        "file": pa.repeat(name, count),
        "entry": pa.array(np.arange(first, first + count, dtype=np.int32)),
        "keyHash": pa.array(entries["hash"].astype(np.int32)),
        "logPosition": pa.array(entries["position"].astype(np.int64)),
        "storeTimestamp": pa.array(milliseconds * 1000, pa.int64()).view(TIMESTAMP),
        "previousEntry": pa.array(entries["previous"].astype(np.int32)),
    }
    return filtered(query.filters, arrays, query.schema)
