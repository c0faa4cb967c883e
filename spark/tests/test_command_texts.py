"""Errors of jobs name arguments between backticks; the command line writes its options."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanemq.testkit.spark import require_packages

require_packages()

from lanemq.spark import jobs  # noqa: E402
from lanemq.spark.cli._command import OPTIONS, _as_given  # noqa: E402

ROOT = Path(__file__).parents[1] / "lanemq" / "spark"


def named() -> Iterator[str]:
    """Yield what messages have between backticks."""
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree) if path.parent.name != "cli" else ():
            if isinstance(node, ast.Constant) and id(node) not in bare:
                yield from re.findall("`([^`]+)`", str(node.value))


@pytest.mark.parametrize("name", sorted(set(named())))
def test_an_argument_that_a_message_names_has_an_option(name: str) -> None:
    assert name in OPTIONS


@pytest.mark.parametrize("name", OPTIONS)
def test_what_has_an_option_is_an_argument_of_a_job(name: str) -> None:
    taken = (getattr(jobs, job) for job in jobs.__all__)
    assert any(
        name in inspect.signature(job).parameters for job in taken if inspect.isfunction(job)
    )


def test_the_command_line_writes_options_and_commands() -> None:
    text = _as_given("name `topics` or `this`; `repair_store`")
    assert text == "name --topic or `this`; `lanemq store repair DIR`"
