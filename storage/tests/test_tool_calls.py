"""Texts of the store name calls of the library; the command line writes their commands."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanemq.storage import bulk, tools
from lanemq.storage.cli import in_commands
from lanemq.storage.cli._calls import COMMANDS

ROOT = Path(__file__).parents[1] / "lanemq" / "storage"
ARGUMENTS = ("commit_log", "from_rocksdb", "settings")
OF_OTHERS = ("resetOffsetByTime",)
QUOTED = re.compile("`([^`]+)`")


def quoted() -> Iterator[tuple[str, str]]:
    """Yield each quotation in a message with its module: none of docstrings or the command line."""
    for path in ROOT.rglob("*.py"):
        if path.parent.name == "cli":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for text in QUOTED.findall(node.value) if id(node) not in bare else ():
                    yield text, path.name


@pytest.mark.parametrize(("text", "module"), sorted(set(quoted())))
def test_what_a_message_names_has_a_command(text: str, module: str) -> None:
    assert text.startswith("truncate ") or text in COMMANDS, module


@pytest.mark.parametrize("text", COMMANDS)
def test_what_has_a_command_is_a_call(text: str) -> None:
    name = text.partition("(")[0]
    assert name in (*tools.__all__, *bulk.__all__, *ARGUMENTS, *OF_OTHERS)


def test_calls_become_commands_and_nothing_else_changes() -> None:
    text = "`repair_store` makes it; {root} and `this` stay: `commit_log`"
    assert in_commands(text, Path("/a")) == (
        "`lanemq store repair /a` makes it; {root} and `this` stay: --commit-log"
    )
    assert in_commands("`verify_store`") == "`lanemq store verify DIR`"
