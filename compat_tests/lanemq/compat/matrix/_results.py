"""Outcomes of cells, and the report for machines."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
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
    """The JSON report of one run."""

    begun: datetime
    """The time when the run began, in UTC."""
    lanemq: str
    """The version of lanemq."""
    cells: list[CellResult]


def encode_report(report: Report) -> bytes:
    """Return the report as JSON: ``{"begun", "lanemq", "cells": [...]}``, a line for each cell."""
    head = msgspec.json.encode(msgspec.structs.replace(report, cells=[]))
    cells = b",\n".join(map(msgspec.json.encode, report.cells))
    return head.removesuffix(b"]}") + b"\n" + cells + b"\n]}\n"


def decode_report(data: bytes) -> Report:
    """Read a report back. Raises ``msgspec.MsgspecError``."""
    return msgspec.json.decode(data, type=Report)


def count_outcomes(cells: Iterable[CellResult]) -> dict[Outcome, int]:
    """Count the cells by outcome; every outcome has an entry."""
    counted = Counter(cell.outcome for cell in cells)
    outcomes: tuple[Outcome, ...] = ("passed", "failed", "not applicable")
    return {outcome: counted[outcome] for outcome in outcomes}
