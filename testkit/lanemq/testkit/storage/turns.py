"""Shared work that takes place in one process, for tests of what it is divided into."""

from collections.abc import Callable, Sequence
from typing import TypeVar, final

import pytest

from lanemq.storage.bulk.rows import _shared_units, _to_rocksdb

Part = TypeVar("Part")
Result = TypeVar("Result")


@final
class Turns:
    """Replaces ``Workers``: the parts are done as if here and in another process, in turn."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def share(
        self,
        parts: Sequence[Part],
        *,
        here: Callable[[Part], Result],
        there: Callable[[Part], Result],
    ) -> list[Result]:
        return [(there if number % 2 else here)(part) for number, part in enumerate(parts)]

    def close(self) -> None:
        """Do nothing: there are no processes."""


def share_always(monkeypatch: pytest.MonkeyPatch, *, parts: int = 5) -> None:
    """Make conversions with ``jobs`` share the work on small stores, too."""
    monkeypatch.setattr(_shared_units, "SHARED_FROM_UNITS", 1)
    monkeypatch.setattr(_shared_units, "QUEUE_UNITS_MIN", 1)
    monkeypatch.setattr(_shared_units, "PART_UNITS_MIN", 1)
    monkeypatch.setattr(_shared_units, "PARTS_MAX", parts)


def take_turns(monkeypatch: pytest.MonkeyPatch, *, parts: int = 5) -> None:
    """Make conversions with ``jobs`` divide small stores, and do all parts in this process."""
    share_always(monkeypatch, parts=parts)
    monkeypatch.setattr(_to_rocksdb, "Workers", Turns)
