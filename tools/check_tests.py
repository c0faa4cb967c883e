"""Finds tests of one part that import a private module of another.

``python tools/check_tests.py`` reads the tests of every part: import statements, and names of
modules in texts, as ``monkeypatch.setattr`` takes them. What tests need of another part's inside
is in the test kit, which may import private modules, and whose own are for all tests.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PARTS: Final = ("wire", "storage", "proxy", "sdk", "compat_tests", "bench", "spark")
TEST_KIT: Final = "testkit"


def modules_named(source: str) -> Iterator[tuple[int, str]]:
    """Iterate over the dotted names that begin with ``lanemq``: line, and name."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found = [f"{module}.{alias.name}" for alias in names]
            case ast.Constant(value=str(text)):
                found = [text]
            case _:
                continue
        for name in found:
            first, *rest = name.split(".")
            if first == "lanemq" and rest and all(part.isidentifier() for part in rest):
                yield node.lineno, name


def is_private(name: str) -> bool:
    """Return whether one of the names in ``name`` begins with an underscore."""
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def part_of(name: str, root: Path = ROOT) -> str | None:
    """Return the folder of the part that a module belongs to, as in ``compat_tests``."""
    inside = "/".join(name.split(".")[:2])
    for part in (*PARTS, TEST_KIT):
        path = root / part / inside
        if path.is_dir() or path.with_suffix(".py").is_file():
            return part
    return None


def foreign_privates(part: str, source: str) -> Iterator[tuple[int, str]]:
    """Iterate over such names in a test of ``part``: line, and name."""
    for number, name in modules_named(source):
        if is_private(name) and part_of(name) not in (part, TEST_KIT):
            yield number, name


def main() -> None:
    """Exit with 1 where there is one."""
    is_fine = True
    for part in PARTS:
        for path in sorted((ROOT / part / "tests").rglob("*.py")):
            for number, name in foreign_privates(part, path.read_text(encoding="utf-8")):
                is_fine = False
                print(
                    f"{path.relative_to(ROOT)}:{number}: {name} is private to another part: "
                    "import it from a public module, or let the test kit give it to tests"
                )
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    main()
