"""Finds docstrings whose first line is a question instead of a statement.

``python tools/check_docstrings.py`` reads the parts and their tests, the tools and the examples:
modules, classes, functions, and the strings below attributes.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PARTS: Final = ("wire", "storage", "proxy", "sdk", "compat_tests", "bench", "spark", "testkit")
FOLDERS: Final = (
    *(f"{part}/{folder}" for part in PARTS for folder in ("lanemq", "tests", "tools")),
    "tools",
    "examples",
)
QUESTIONS: Final = ("How", "What", "When", "Where", "Whether", "Which", "Who", "Why")


def questions(source: str) -> Iterator[tuple[int, str]]:
    """Iterate over such docstrings: line, and first line of the text."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                first = text.strip().split("\n")[0]
                if first.split(" ")[0] in QUESTIONS:
                    yield node.lineno, first


def main() -> None:
    """Exit with 1 where there is one."""
    is_fine = True
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for number, first in questions(path.read_text(encoding="utf-8")):
                is_fine = False
                print(f"{path.relative_to(ROOT)}:{number}: say what it is or does: {first}")
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    main()
