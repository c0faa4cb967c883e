"""Outcomes of cells, and the report for machines."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

Outcome = Literal["passed", "failed", "not applicable"]


class CellResult(msgspec.Struct, frozen=True):
    """The outcome of one scenario with one client on one server."""

    client: str
    server: str
    scenario: str
    outcome: Outcome
    reason: str
    """Empty when passed; else what failed, or what shows that the cell makes no sense."""
    seconds: float


class Report(msgspec.Struct, frozen=True):
    """The JSON report."""

    cells: list[CellResult]


def encode_report(cells: Iterable[CellResult]) -> bytes:
    """Return the report as JSON: ``{"cells": [...]}``."""
    return msgspec.json.format(msgspec.json.encode(Report(list(cells))), indent=1) + b"\n"


def decode_report(data: bytes) -> list[CellResult]:
    """Read a report back."""
    return msgspec.json.decode(data, type=Report).cells


def count_outcomes(cells: Iterable[CellResult]) -> dict[Outcome, int]:
    """Count the cells by outcome; every outcome has an entry."""
    counted = Counter(cell.outcome for cell in cells)
    outcomes: tuple[Outcome, ...] = ("passed", "failed", "not applicable")
    return {outcome: counted[outcome] for outcome in outcomes}
