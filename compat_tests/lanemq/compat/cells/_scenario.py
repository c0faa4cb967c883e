"""Scenarios: written once, run by every client on every server."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._errors import ScenarioFailed

if TYPE_CHECKING:
    from ._cell import Cell

Run = Callable[["Cell"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named course of events with its expectations."""

    name: str
    title: str
    run: Run
    long: bool
    """Waits for a client's slow timers; started first, so that others run beside it."""


SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str, *, long: bool = False) -> Callable[[Run], Run]:
    """Register a scenario under a name; its docstring's first line is its title."""

    def register(run: Run) -> Run:
        assert name not in SCENARIOS
        assert run.__doc__
        SCENARIOS[name] = Scenario(name, run.__doc__.splitlines()[0], run, long)
        return run

    return register


def expect(holds: bool, what: str) -> None:
    """Fail the scenario unless ``what`` holds."""
    if not holds:
        raise ScenarioFailed(f"expected: {what}")


def expect_equal(what: str, actual: object, expected: object) -> None:
    """Fail the scenario unless both are equal."""
    if actual != expected:
        raise ScenarioFailed(f"{what}: expected {_short(expected)}, got {_short(actual)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]}... ({len(text)} characters)"
