"""Every command that a text of the product advises exists, with the options that the text gives."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lanemq.proxy.cli._group import lanemq

ROOT = Path(__file__).parents[2]
PRODUCT = ("wire", "storage", "sdk", "proxy", "spark")
ADVISED = re.compile(r"`(lanemq [^`]+)`")


def advised() -> Iterator[str]:
    for part in PRODUCT:
        for path in (ROOT / part / "lanemq").rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                yield from ADVISED.findall(text_of(node))


def text_of(node: ast.AST) -> str:
    """The text of a string or an f-string, with an x in the place of what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.FormattedValue):
        return "x"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@pytest.mark.parametrize("text", sorted(set(advised())))
def test_a_command_that_a_text_advises_exists_with_its_options(text: str) -> None:
    command: click.Command = lanemq
    words = text.split()[1:]
    while words and isinstance(command, click.Group):
        if words[0].startswith("-"):
            break
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None, text
        command = found
    known = {"--help"}.union(*(param.opts for param in command.params))
    assert known.issuperset(word for word in words if word.startswith("-")), text
