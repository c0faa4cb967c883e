"""The key-value states of a store that no broker has open."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...disk._real_files import RealFiles
from ...kv._state import State
from ...kv.engines._memory import FILE_NAME, MemoryEngine
from ...kv.engines._opening import DIRECTORY, ROCKS_DIRECTORY
from ...kv.engines._rows import ENTRY, HEAD, NO_QUEUE, Stored, after_prefix, stored
from ._directory import read_store

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from ...kv.engines._engine import Engine


@contextmanager
def open_states(root: Path) -> Iterator[dict[str, State]]:
    """Open the states below a store's directory, by partition; the caller keeps brokers away.

    Raises ``StoreCorrupted`` and ``OSError``.
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
        yield {name: State(engine.table(name)) for name in engine.names()}
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

    Entries whose time has come are left out. Raises ``OSError``.
    """
    now_ms = state.meta.clock_ms
    for key, row in state.table.items(ENTRY, after_prefix(ENTRY)):
        head = stored(row)
        if not 0 < head.expires_ms <= now_ms:
            yield key[len(ENTRY) :], head, row[HEAD.size :]
