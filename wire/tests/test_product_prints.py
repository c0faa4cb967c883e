"""The product prints and logs by the functions that escape foreign text, and by no others.

``lanemq bench`` prints what it measured itself, the demo what it has made.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PARTS: Final = ("wire", "storage", "proxy", "sdk", "spark", "compat_tests")
BANNED: Final = {
    "print": "print_line of lanemq.local",
    "click.echo": "print_line of lanemq.local",
    "click.secho": "print_line of lanemq.local",
    "sys.stdout.write": "print_line of lanemq.local",
    "sys.stderr.write": "print_line of lanemq.local",
    "sys.stdout.buffer.write": "print_line of lanemq.local",
    "logging.getLogger": "get_logger of lanemq.local",
    "click.ClickException": "CommandFailed of lanemq.local.cli",
    "console.print": "print_line of lanemq.local",
}
ALLOWED: Final = {
    "lanemq/local/_log.py": {"logging.getLogger"},
    "lanemq/local/cli.py": {"click.ClickException"},
    # The loggers of the application, and a filter of more before the one that escapes.
    "lanemq/sdk/observe/_log.py": {"logging.getLogger"},
    # The value of a key, for a file or a pipe; escaped on a terminal.
    "lanemq/sdk/kv/cli/_command.py": {"sys.stdout.buffer.write", "sys.stdout.write"},
    # Tables of rich, whose cells were escaped.
    "lanemq/spark/cli/_command.py": {"console.print"},
    "lanemq/compat/matrix/_show.py": {"console.print"},
    "lanemq/compat/cli.py": {"console.print"},
}


def findings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name | ast.Attribute):
            name = ast.unparse(node)
            is_name_of_print = isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load)
            if name in BANNED and is_name_of_print:
                yield name


@pytest.mark.parametrize("part", PARTS)
def test_what_is_shown_goes_through_the_functions_that_escape(part: str) -> None:
    found = []
    for path in sorted((ROOT / part / "lanemq").rglob("*.py")):
        name = path.relative_to(ROOT / part).as_posix()
        if name.startswith("lanemq/compat/demo/"):
            continue
        found += [
            f"{name}: {one}: use {BANNED[one]}"
            for one in set(findings(path)) - ALLOWED.get(name, set())
        ]
    assert found == []
