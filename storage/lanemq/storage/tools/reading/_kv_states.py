"""The key-value states of a store that no broker has open."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...disk._real_files import RealFiles
from ...kv._state import State
from ...kv.engines._memory import FILE_NAME, MemoryEngine
from ...kv.engines._opening import DIRECTORY, ROCKS_DIRECTORY
from ...kv.engines._rows import ENTRY, HEAD, META, NO_QUEUE, Stored, after_prefix, stored
from ._directory import read_store
from ._kv_rows import why_damaged

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from ...kv.engines._engine import Engine, Table


@contextmanager
def open_states(root: Path, unreadable: dict[str, str] | None = None) -> Iterator[dict[str, State]]:
    """Open the states below a store's directory, by partition; the caller keeps brokers away.

    Where ``unreadable`` is given, all rows are read first; partitions that cannot be read go
    there, each with the reason. Raises ``StoreCorrupted`` and ``OSError``.
    """
    directory = root / DIRECTORY
    engine: Engine
    if (directory / ROCKS_DIRECTORY).is_dir():
        from ...kv.engines._rocks import RocksEngine

        engine = RocksEngine(directory / ROCKS_DIRECTORY, read_only=True)
    elif (directory / FILE_NAME).exists():
        engine = MemoryEngine(RealFiles(), directory)
    else:
        yield {}
        return
    try:
        tables: Mapping[str, Table] = engine.tables()
        if unreadable is not None:
            damaged = {name: why_damaged(table) for name, table in tables.items()}
            unreadable.update({name: why for name, why in damaged.items() if why})
            tables = {name: one for name, one in tables.items() if name not in unreadable}
        yield {name: State(one) for name, one in tables.items() if one.get(META) is not None}
    finally:
        engine.close()


@contextmanager
def read_kv(root: Path, *, commit_log: Path | None = None) -> Iterator[dict[str, State]]:
    """Open the key-value states of a store, by the names of their partitions, for reading.

    Partitions that another broker has are left out. Raises ``NotAStore``, ``StoreLocked``,
    ``StoreCorrupted`` and ``OSError``.
    """
    with read_store(root, commit_log=commit_log), open_states(root) as states:
        yield {name: one for name, one in states.items() if one.meta.queue_id != NO_QUEUE}


def kv_entries(state: State) -> Iterator[tuple[bytes, Stored, bytes]]:
    """Iterate over the key, head and value of the entries of a state, in the order of keys.

    Entries whose time has come are left out, and those under a lease: they are there as long as
    their holder lives, and a copy has none. Raises ``OSError``.
    """
    now_ms = state.meta.clock_ms
    for key, row in state.table.items(ENTRY, after_prefix(ENTRY)):
        head = stored(row)
        if not head.lease and not 0 < head.expires_ms <= now_ms:
            yield key[len(ENTRY) :], head, row[HEAD.size :]
