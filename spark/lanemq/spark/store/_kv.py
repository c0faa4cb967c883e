"""The table ``kv``: a row for each key of each namespace of a store's state."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lanemq.storage.tools import kv_entries, read_kv
from lanemq.wire.kv import parse_partition

from .._filters import filtered, values_of
from ..records import TIMESTAMP
from ._local import KV, commit_log, local_store
from ._table import Query

if TYPE_CHECKING:
    from lanemq.storage.kv import KvState

ENTRIES_AT_ONCE: Final = 4096
BYTES_AT_ONCE: Final = 16 << 20
KV_COLUMNS: Final = {
    "namespace": "string",
    "key": "binary",
    "value": "binary",
    "version": "bigint",
    "modified": "bigint",
    "createTimestamp": "timestamp",
    "updateTimestamp": "timestamp",
    "expireTimestamp": "timestamp",
}
KV_ON_DEMAND: Final = {"position": "bigint", "clock": "timestamp"}


@final
@dataclass(frozen=True)
class KvPart(InputPartition):
    """One namespace, or a partition of one."""

    root: str
    name: str


@final
class KvTable:
    """A row for each entry of the state at rest; those whose time has come are left out.

    ``position`` is the number of records of the namespace's log that are in the state, ``clock``
    the time of the latest of them.
    """

    columns = KV_COLUMNS
    on_demand = KV_ON_DEMAND

    def parts(self, query: Query) -> list[InputPartition]:
        wanted = values_of(query.filters, "namespace")
        parts: list[InputPartition] = []
        for root in query.roots:
            with (
                local_store(root, KV) as directory,
                read_kv(directory, commit_log=commit_log(query, root)) as states,
            ):
                parts += [
                    KvPart(root, name)
                    for name in sorted(states)
                    if wanted is None or parse_partition(name)[0] in wanted
                ]
        return parts

    def batches(self, query: Query, part: KvPart) -> Iterator[Any]:
        with (
            local_store(part.root, KV) as directory,
            read_kv(directory, commit_log=commit_log(query, part.root)) as states,
        ):
            state = states[part.name]
            namespace, _ = parse_partition(part.name)
            entries = kv_entries(state)
            while rows := list(_some(entries)):
                yield _batch(query, namespace, state, rows)


def _some(entries: Iterator[tuple[bytes, Any, bytes]]) -> Iterator[tuple[bytes, Any, bytes]]:
    size = 0
    for entry in islice(entries, ENTRIES_AT_ONCE):
        yield entry
        size += len(entry[2])
        if size >= BYTES_AT_ONCE:
            return


def _batch(query: Query, namespace: str, state: "KvState", rows: list[Any]) -> Any:  # noqa: ANN401 - pyarrow has no types
    keys, heads, values = zip(*rows, strict=True)
    count, meta = len(rows), state.meta
    arrays = {
        "namespace": pa.repeat(namespace, count),
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "version": pa.array([head.version for head in heads], pa.int64()),
        "modified": pa.array([head.modified for head in heads], pa.int64()),
        "createTimestamp": _times([head.create_time_ms for head in heads]),
        "updateTimestamp": _times([head.update_time_ms for head in heads]),
        "expireTimestamp": _times([head.expires_ms or None for head in heads]),
        "position": pa.repeat(pa.scalar(meta.next, pa.int64()), count),
        "clock": _times([meta.clock_ms] * count),
    }
    return filtered(query.filters, arrays, query.schema)


def _times(milliseconds: list[int | None]) -> Any:  # noqa: ANN401 - pyarrow has no types
    return pa.array([None if one is None else one * 1000 for one in milliseconds], TIMESTAMP)
