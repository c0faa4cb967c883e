"""Finds silencers of linters and type checkers (``noqa``, ``type: ignore``) without a reason.

``python tools/check_silencers.py`` reads the product. A reason stands behind the silencer, or in a
comment on the line above it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PARTS: Final = ("wire", "storage", "proxy", "sdk", "compat_tests", "bench", "spark")
SILENCER: Final = re.compile(r"#\s*(?:noqa|type: ignore)(?P<what>[^#]*)(?P<rest>#.*)?")
CODES: Final = re.compile(r"\s*(?::\s*[A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*|\[[a-z, -]+\])?\s*")


def silencers_without_reason(source: str) -> Iterator[int]:
    """Iterate over the numbers of the lines with one."""
    before = ""
    for number, line in enumerate(source.splitlines(), 1):
        found = SILENCER.search(line)
        if found is not None and not before.lstrip().startswith("#"):
            reason = CODES.sub("", found["what"], count=1).strip(" -") or (found["rest"] or "")
            if not reason.strip("# -"):
                yield number
        before = line


def main() -> None:
    """Exit with 1 where one has no reason."""
    is_fine = True
    for part in PARTS:
        for path in sorted((ROOT / part / "lanemq").rglob("*.py")):
            for number in silencers_without_reason(path.read_text(encoding="utf-8")):
                is_fine = False
                print(f"{path.relative_to(ROOT)}:{number}: say why, behind it or in the line above")
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    main()
