"""The product writes files by ``lanemq.local`` only: private, and never through links.

The modules in ``IN_OWN_FOLDER`` write into folders that the harness or a bench has just made for
itself, by ``TemporaryDirectory`` or in the checkout's cache of peers.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PARTS: Final = ("wire", "storage", "proxy", "sdk", "spark", "compat_tests", "bench")
IN_OWN_FOLDER: Final = (
    "wire/lanemq/local/",
    "bench/lanemq/bench/",
    "compat_tests/lanemq/compat/logical/",
    "compat_tests/lanemq/compat/peers/",
    "compat_tests/lanemq/compat/servers/",
    "compat_tests/lanemq/compat/stores/",
    "compat_tests/lanemq/compat/python_driver/",
    "spark/lanemq/spark/store/_local.py",
)
WRITES: Final = {"write_text", "write_bytes", "copyfile", "copy", "copy2"}
MADE: Final = {"touch", "mkdir"}
"""Calls that take a mode."""
SHARED: Final = ("/tmp", "/var/tmp")


def modules() -> Iterator[Path]:
    for part in PARTS:
        yield from sorted((ROOT / part / "lanemq").rglob("*.py"))


def findings(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.startswith(SHARED)
        ):
            yield f"{path}:{node.lineno}: a path in a shared place: {node.value}"
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        texts = [one.value for one in node.args if isinstance(one, ast.Constant)]
        modes = [text for text in texts if isinstance(text, str) and set(text) <= set("rwaxbt+")]
        if (last in WRITES and name.startswith(("shutil.", "path.", "Path("))) or (
            last in ("write_text", "write_bytes") and not name.startswith("trio.") and "." in name
        ):
            yield f"{path}:{node.lineno}: {name}"
        elif last == "open" and name != "os.open" and any(set(mode) & set("wax") for mode in modes):
            if not isinstance(node.args[0], ast.Call):  # open(os.open(...), "wb")
                yield f"{path}:{node.lineno}: {name}({modes})"
        elif last in MADE and not (node.args or any(one.arg == "mode" for one in node.keywords)):
            yield f"{path}:{node.lineno}: {name} without a mode"
        elif name == "os.open" and "O_CREAT" in ast.unparse(node):
            yield f"{path}:{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("part", PARTS)
def test_files_are_written_by_the_functions_that_follow_no_links(part: str) -> None:
    found = [
        finding
        for path in modules()
        if path.is_relative_to(ROOT / part)
        if not path.relative_to(ROOT).as_posix().startswith(IN_OWN_FOLDER)
        for finding in findings(path)
    ]
    assert found == []
