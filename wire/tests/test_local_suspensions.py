"""The time for which the machine was suspended."""

from collections.abc import Callable

import pytest

from lanemq.local import STEP_S, Suspensions, suspended_s
from lanemq.testkit.suspensions import suspending


@pytest.fixture
def suspend(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    return suspending(monkeypatch)


def test_a_suspension_is_a_step_between_the_clocks(suspend: Callable[[float], None]) -> None:
    suspensions = Suspensions()
    before_s = suspensions.total_s()
    for _ in range(3):
        suspend(0.3 * STEP_S)  # as two looks differ by the time between them
        assert suspensions.total_s() == before_s
    suspend(-0.5 * STEP_S)
    assert suspensions.total_s() == before_s
    suspend(60)
    assert suspensions.total_s() == pytest.approx(before_s + 60, abs=STEP_S)


def test_a_machine_that_runs_is_not_suspended() -> None:
    before_s = suspended_s()
    assert all(suspended_s() == before_s for _ in range(1000))
