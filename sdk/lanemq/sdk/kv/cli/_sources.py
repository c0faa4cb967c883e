"""The files that ``lanemq kv import`` reads: snapshots of lanemq's, and keys of etcd."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from lanemq.wire.kv import LoadedEntry, SnapshotReader

from ._command import Failed
from ._etcd import read_etcd

ETCD: Final = "etcd"


@final
@dataclass(frozen=True, slots=True)
class Source:
    """The entries of a file that was read to its end, and is sound."""

    count: int
    blocks: Callable[[], Iterator[list[LoadedEntry]]]
    """Returns an iterator over the entries, many at a time."""
    facts: dict[str, object]
    """Name -> what the command prints of it besides."""
    remarks: tuple[str, ...] = ()


@contextmanager
def open_source(file: Path, *, of: str | None, leased: str | None) -> Iterator[Source]:
    """Read a file, a snapshot or what ``of`` says. Raises ``Failed``, ``RemoteProtocolError``."""
    if of == ETCD:
        found = read_etcd(file, leased=leased, now_ms=time.time_ns() // 1_000_000)
        left_out: dict[str, object] = {"left_out": found.left_out} if leased else {}
        empty = "no key has a value, as if etcdctl had been given --keys-only"
        yield Source(
            len(found.entries),
            lambda: iter([found.entries]),
            left_out,
            (empty,) if found.are_empty else (),
        )
        return
    if leased is not None:
        raise Failed("--leased is about keys of etcd: it needs --from etcd")
    with file.open("rb") as opened:
        reader = SnapshotReader(opened.read)
        count = sum(map(len, reader.blocks()))

        def again() -> Iterator[list[LoadedEntry]]:
            opened.seek(0)
            return SnapshotReader(opened.read).blocks()

        yield Source(count, again, {"checksum": reader.checksum})
