"""The results of a store, beside the values of ``lanemq.wire.kv``."""

from dataclasses import dataclass
from typing import final

from lanemq.wire.kv import OperationResult, StepResult


@final
@dataclass(frozen=True, slots=True)
class CasResult:
    """The result of a compare-and-set."""

    done: bool
    """True if the condition held, so that the value was set or deleted."""
    version: int
    """Done: the version set, or the one deleted. Not done: the version there is; 0 is none."""
    value: bytes | None = None
    """The present value of the key where nothing was done; None if the answer lacks it."""


@final
@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch."""

    done: bool
    """True if all conditions held, so that all steps were done."""
    results: tuple[StepResult, ...]
    """One for each step, in order."""


@final
@dataclass(frozen=True, slots=True)
class TxnResult:
    """The result of a transaction."""

    succeeded: bool
    """True if all comparisons held, so that ``then`` was done, and not ``otherwise``."""
    revision: int
    """The revision of the entries that it put, and of the store after it."""
    results: tuple[OperationResult, ...]
    """One for each operation that was done, in order."""
