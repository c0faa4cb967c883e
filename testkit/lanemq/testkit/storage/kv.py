"""Key-value states whose work is held up or comes in small portions, for tests of brokers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch
from weakref import WeakSet

import pytest

from lanemq.storage.kv import (
    _copy,
    _expiry,
    _kv,
    _lease_reads,
    _leases,
    _past,
    _ranges,
    _reads,
    _redo,
    _turn,
    _txn,
    _values,
)
from lanemq.storage.kv._bases import Base, Bases, BaseWriter
from lanemq.storage.kv._kv import KvStates
from lanemq.storage.kv._past import Past
from lanemq.storage.kv.engines import _rocks
from lanemq.storage.kv.engines._engine import Table
from lanemq.storage.kv.engines._opening import EngineOpener
from lanemq.storage.log._commit_log import CommitLog
from lanemq.wire.kv import Step, decode_steps

__all__ = [
    "EngineOpener",
    "base_steps",
    "copy_in_pages",
    "count_decoded",
    "end_few",
    "few_leases",
    "hurry",
    "look_at_few_changes",
    "narrow_transactions",
    "pass_through",
    "reads_of_the_past",
    "sizes_read",
    "standing_turns",
]


def copy_in_pages(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Make a copy of a state take ``rows`` rows at a time."""
    monkeypatch.setattr(_copy, "PAGE_ROWS", rows)


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stop the clock of reads, and return the list of the operations that they decode."""
    decoded: list[str] = []

    def counted(op_type: str, body: bytes) -> list[Step]:
        decoded.append(op_type)
        return decode_steps(op_type, body)

    monkeypatch.setattr(_values, "decode_steps", counted)
    monkeypatch.setattr(_reads, "perf_counter", lambda: 0.0)
    return decoded


@contextmanager
def standing_turns() -> Iterator[None]:
    """Let turns of the loop take no time, however busy the machine is."""
    with ExitStack() as patches:
        for module in (_copy, _kv, _lease_reads, _past, _ranges, _reads, _redo, _turn):
            patches.enter_context(patch.object(module, "perf_counter", lambda: 0.0))
        yield


def hurry(monkeypatch: pytest.MonkeyPatch, *others: object) -> None:
    """Make every turn of the loop be over at its first look at the clock, in ``others``, which are
    modules, too."""
    seconds = count(1 << 40)
    for module in (_copy, _lease_reads, _past, _ranges, _reads, _turn, *others):
        monkeypatch.setattr(module, "perf_counter", lambda: float(next(seconds)))


def look_at_few_changes(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Make a read of changes look at ``number`` of them at a time."""
    monkeypatch.setattr(_reads, "LOOKED_AT_MAX", number)


def narrow_transactions(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    """Let a transaction read entries of ``size_bytes`` at most."""
    monkeypatch.setattr(_txn, "ROWS_BYTES_MAX", size_bytes)


def few_leases(monkeypatch: pytest.MonkeyPatch, leases: int) -> None:
    """Let a partition have ``leases`` leases at most."""
    monkeypatch.setattr(_leases, "LEASES_MAX", leases)


@contextmanager
def reads_of_the_past() -> Iterator[WeakSet[Past]]:
    """Note the reads at earlier revisions that are there."""
    reads, begin = WeakSet[Past](), Past.__init__

    def begun(self: Past, *args: Any, **named: Any) -> None:  # noqa: ANN401
        begin(self, *args, **named)
        reads.add(self)

    with patch.object(Past, "__init__", begun):
        yield reads


@contextmanager
def sizes_read() -> Iterator[list[int]]:
    """Note how many bytes each read of the log has."""
    sizes, read = list[int](), CommitLog.read

    def noted(log: CommitLog, position: int, size_bytes: int) -> bytes | None:
        sizes.append(size_bytes)
        return read(log, position, size_bytes)

    with patch.object(CommitLog, "read", noted):
        yield sizes


def end_few(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let a record end ``number`` entries and leases at most whose time has come."""
    monkeypatch.setattr(_expiry, "EXPIRED_MAX", number)


def pass_through(monkeypatch: pytest.MonkeyPatch, gate: Callable[[str], None]) -> None:
    """Call ``gate`` before a database is opened ("open") and before a table is made ("table")."""
    real = _rocks.RocksEngine
    make_table = real.table

    def opened(directory: Path) -> _rocks.RocksEngine:
        gate("open")
        return real(directory)

    def table(self: _rocks.RocksEngine, name: str) -> Table:
        gate("table")
        return make_table(self, name)

    monkeypatch.setattr(_rocks, "RocksEngine", opened)
    monkeypatch.setattr(real, "table", table)


@contextmanager
def base_steps(step: Callable[[str, Path], None]) -> Iterator[None]:
    """Call ``step``, with the directory of the store, at each step of taking a state over."""
    finish, keep, flush = BaseWriter.finish, Bases.keep, KvStates.flush

    async def finished(self: BaseWriter) -> Base:
        step("before finish", self.path.parents[2])
        return await finish(self)

    async def kept(self: Bases, writer: BaseWriter, base: Base) -> None:
        step("before keep", writer.path.parents[2])
        await keep(self, writer, base)
        step("kept", writer.path.parents[2])

    async def flushed(self: KvStates) -> None:
        step("before flush", self._config.root)
        await flush(self)
        step("flushed", self._config.root)

    with (
        patch.object(BaseWriter, "finish", finished),
        patch.object(Bases, "keep", kept),
        patch.object(KvStates, "flush", flushed),
    ):
        yield
