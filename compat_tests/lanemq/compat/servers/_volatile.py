"""The values in printed tables that change from second to second, and are compared nowhere."""

import re
from itertools import pairwise
from typing import Final

VOLATILE: Final = ("#TPS",)
"""Titles of columns."""


def without_volatile(text: str) -> str:
    """Return a text as mqadmin prints it with ``~`` for each value in a volatile column.

    A table begins with a line of titles, each marked with ``#`` and above its column, and ends
    with an empty line.
    """
    lines: list[str] = []
    spans: list[tuple[int, int]] = []
    for line in text.splitlines():
        if line.startswith("#"):
            begins = [match.start() for match in re.finditer("#", line)]
            titles = pairwise([*begins, len(line)])
            spans = [(one, end) for one, end in titles if line[one:end].strip() in VOLATILE]
            lines.append(line)
            continue
        if not line.strip():
            spans = []
        masked = line
        for begin, end in spans:
            masked = masked[:begin] + "~".ljust(end - begin) + masked[end:]
        lines.append(masked)
    return "\n".join(lines)
