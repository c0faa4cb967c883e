"""Numbers as Java has them: their ranges, and the one form in which texts may have them.

Source: Java, Integer.parseInt and Long.parseLong.
"""

import re
from typing import Annotated, Final

import msgspec

INT32: Final = range(-(1 << 31), 1 << 31)
INT64: Final = range(-(1 << 63), 1 << 63)
INT_MAX: Final = INT32[-1]
LONG_MAX: Final = INT64[-1]

Int = Annotated[int, msgspec.Meta(ge=INT32.start, le=INT32.stop - 1)]
"""A Java int."""

Long = Annotated[int, msgspec.Meta(ge=INT64.start, le=INT64.stop - 1)]
"""A Java long."""

_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,40}")
_SHOWN_CHARACTERS: Final = 40


def read_number(text: str, allowed: range = INT64) -> int:
    """Return the whole number that ``text`` says in decimal digits, with or without a sign.

    Raises ``ValueError`` with what is wrong, to be put behind the name of what has the text: for
    any other form (``1e5``, ``1.0``, ``1_000``, blanks) and for a number that is not ``allowed``.
    """
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError(f"{text[:_SHOWN_CHARACTERS]!r}, no integer")
    number = int(text)
    if number not in allowed:
        raise ValueError(f"{number}: it must be {allowed.start} to {allowed.stop - 1}")
    return number
