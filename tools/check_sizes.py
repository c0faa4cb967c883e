"""Finds modules and functions of the product that are too long; see ``allowed_sizes.txt``.

``python tools/check_sizes.py`` names those that are not listed there, or have grown since, and
entries that are not needed any more, so that the list only ever gets shorter.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
ALLOWED: Final = Path(__file__).with_name("allowed_sizes.txt")
PARTS: Final = ("wire", "storage", "proxy", "sdk", "spark", "compat_tests", "bench")
MODULE_LINES: Final = 310
FUNCTION_LINES: Final = 65
ANY: Final = sys.maxsize
"""The limits, some 300 and some 60; nobody is to count lines to please a tool."""


class Allowed(NamedTuple):
    """An entry of the list."""

    lines: int
    """The most lines that it may have; ``ANY`` for a table, a line for each fact."""
    reason: str


def sizes_of(path: str, source: str) -> Iterator[tuple[str, int]]:
    """Iterate over the names of a module and its functions that are too long, with their lines."""
    lines = len(source.splitlines())
    if lines > MODULE_LINES:
        yield path, lines
    yield from _functions(path + ":", ast.parse(source))


def _functions(prefix: str, node: ast.AST) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (child.end_lineno or child.lineno) - child.lineno + 1
            if lines > FUNCTION_LINES:
                yield prefix + child.name, lines
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _functions(f"{prefix}{child.name}.", child)
        else:
            yield from _functions(prefix, child)


def product_sizes(root: Path = ROOT) -> dict[str, int]:
    """Return the product's modules and functions that are too long, with their lines."""
    found: dict[str, int] = {}
    for part in PARTS:
        for path in sorted((root / part / "lanemq").rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            found.update(sizes_of(path.relative_to(root).as_posix(), source))
    return found


def parse_allowed(text: str) -> dict[str, Allowed]:
    """Entries ``NAME LINES REASON``, one to a line; ``#`` begins a comment, ``*`` is any number."""
    allowed: dict[str, Allowed] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, lines, reason = line.split(maxsplit=2)
            allowed[name] = Allowed(ANY if lines == "*" else int(lines), reason)
    return allowed


def problems(found: Mapping[str, int], allowed: Mapping[str, Allowed]) -> Iterable[str]:
    """Iterate over what is wrong, one sentence each, with the way on."""
    for name, lines in found.items():
        entry = allowed.get(name)
        if entry is None:
            yield (
                f"{name} has {lines} lines: split it by its ideas, or put it into "
                f"{ALLOWED.name} with the reason why it is one"
            )
        elif lines > entry.lines:
            yield f"{name} has grown to {lines} lines, {entry.lines} are allowed: split it"
    for name in allowed.keys() - found.keys():
        yield f"{name} is short enough now, or gone: take it out of {ALLOWED.name}"


def main() -> None:
    """Exit with 1 where there is a problem."""
    found = list(problems(product_sizes(), parse_allowed(ALLOWED.read_text(encoding="utf-8"))))
    for problem in found:
        print(problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
