"""docs/admin.md tells the truth: its commands exist, with these options, and none is left out."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import lanemq.sdk.admin
from lanemq.sdk.admin.cli import admin

DOCS = (Path(__file__).parents[2] / "docs" / "admin.md").read_text()


def blocks(language: str) -> Iterator[str]:
    yield from re.findall(rf"```{language}\n(.*?)```", DOCS, re.S)


def documented() -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    return [line[2:] for line in words if line[:2] == ["lanemq", "admin"]]


def test_every_command_is_documented() -> None:
    assert {args[0] for args in documented()} == set(admin.commands)


@pytest.mark.parametrize("args", documented(), ids=" ".join)
def test_a_documented_call_has_all_its_command_needs(args: list[str]) -> None:
    command = admin.commands[args[0]]
    with command.make_context(args[0], args[1:]) as context:
        assert isinstance(context, click.Context)


@pytest.mark.parametrize("option", sorted(set(re.findall(r"--[a-z][a-zA-Z-]*", DOCS))))
def test_every_long_option_that_is_named_exists(option: str) -> None:
    assert any(
        option in parameter.opts
        for command in admin.commands.values()
        for parameter in command.params
    )


def test_the_python_example_uses_what_there_is() -> None:
    [example] = blocks("python")
    tree = ast.parse(example)
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "admin"
    }
    assert used
    for name in used:
        assert hasattr(lanemq.sdk.admin.AdminClient, name)
