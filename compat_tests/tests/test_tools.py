"""Outputs of tools are masked and compared, and each difference has a reason that is needed."""

import re

import pytest

from lanemq.compat.peers._drivers import MQADMIN_VERSIONS
from lanemq.compat.tools._differences import DIFFERENCES, difference
from lanemq.compat.tools._masks import masked
from lanemq.compat.tools._outputs import expected, recorded
from lanemq.compat.tools._steps import Step, steps


def test_what_differs_from_run_to_run_is_masked() -> None:
    known = {"127.0.0.1:10911": "BROKER", "7F000001": "UNIQUE_ID"}
    text = "at 127.0.0.1:10911, not 127.0.0.1:4, after 3ms and 4 ms: 7F000001 1700000000000 2.5\n"
    assert masked(Step("any"), text, "", known) == [
        "at BROKER, not ADDRESS, after N ms and N ms: UNIQUE_ID MILLIS NUMBER"
    ]
    errors = "Caused by: An.Exception: text\n\tat some.Class(Class.java:7)\n\t... 3 more\n"
    assert masked(Step("any"), "", errors, {}) == ["! Caused by: An.Exception: text"]


def test_a_step_says_what_of_it_is_compared() -> None:
    text = "b = 2\na = 1\n"
    assert masked(Step("any"), text, "", {}) == ["b = 2", "a = 1"]
    assert masked(Step("any", in_order=False), text, "", {}) == ["a = 1", "b = 2"]
    assert masked(Step("any", keys_only=True), text, "", {}) == ["a", "b"]
    assert masked(Step("any", numbers=True), text, "", {}) == ["b = N", "a = N"]


def test_where_a_command_was_interrupted_is_not_compared() -> None:
    failed = "a.SubCommandException: Some command failed\nCaused by: "
    asleep = failed + "java.lang.InterruptedException: sleep interrupted\n"
    assert masked(Step("any", seconds=2), "a\na\n", asleep, {}) == ["a"]
    assert len(masked(Step("any"), "a\n", asleep, {})) == 3
    other = failed + "An.Exception: text\n"
    assert masked(Step("any", seconds=2), "", other, {}) == masked(Step("any"), "", other, {})


@pytest.mark.parametrize("version", MQADMIN_VERSIONS)
def test_every_step_has_a_recorded_output(version: str) -> None:
    lines = [step.line for step in steps(version)]
    for maker in ("apache", "lanemq"):
        assert [output.line for output in expected(version, maker)] == lines


@pytest.mark.parametrize("version", MQADMIN_VERSIONS)
def test_every_difference_has_a_reason_and_every_reason_a_difference(version: str) -> None:
    differing = [re.sub(r" #\d+$", "", output.line) for output in recorded(version, "lanemq")]
    assert all(difference(version, line) for line in differing)
    for beginning in DIFFERENCES[version]:
        assert any(f"{line} ".startswith(f"{beginning} ") for line in differing), beginning


def test_the_longest_beginning_decides() -> None:
    reasons = DIFFERENCES["5.3.3"]
    assert difference("5.3.3", "topicRoute -t Static") == reasons["topicRoute -t Static"]
    assert difference("5.3.3", "topicRoute -t Shared") is None
