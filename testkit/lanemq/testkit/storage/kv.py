"""Key-value states whose work is held up or comes in small portions, for tests of brokers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lanemq.storage.kv import _copy, _reads
from lanemq.storage.kv.engines import _rocks
from lanemq.storage.kv.engines._engine import Table
from lanemq.storage.kv.engines._opening import EngineOpener

__all__ = ["EngineOpener", "copy_in_pages", "look_at_few_changes", "pass_through"]


def copy_in_pages(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Make a copy of a state take ``rows`` rows at a time."""
    monkeypatch.setattr(_copy, "PAGE_ROWS", rows)


def look_at_few_changes(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Make a read of changes look at ``number`` of them at a time."""
    monkeypatch.setattr(_reads, "LOOKED_AT_MAX", number)


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
