"""Values and their comparison, by the rules of the reference, whose types are Java's.

A property is always text; a number comes from the expression only. Text is converted to the
type of what it is compared with, and what cannot be converted is an error: so ``a > 5`` fails
for a = "5.5", which is not an int, and for a = "3000000000", which does not fit one.

Source: RocketMQ 4.9.8, ComparisonExpression.__compare; Java's Integer, Long and Double.
"""

import re
from functools import lru_cache
from math import copysign, inf, isnan
from typing import Final, TypeAlias, final

from ._errors import EvaluationError

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


@final
class Long(int):
    """A whole number of 64 bits. A plain ``int`` here is one of 32."""

    def __neg__(self) -> "Long":
        return Long(-int(self))


Value: TypeAlias = str | int | float | bool | None
"""A value of an expression; None is SQL's NULL: unknown."""

_SHOWN_CHARACTERS: Final = 128
_KEPT_NUMBERS: Final = 16
"""Texts whose numbers are remembered: each term of an expression may look at the same long text."""

NUMBER_CHARACTERS_MAX: Final = 4096
"""Characters of a text that may be a number, without the blanks around it; a longer text is none.
The reference has no limit."""

# Digits are never given back, so a text takes linear time, whatever follows them.
_WHOLE: Final = re.compile(r"[+-]?\d++")
_DECIMAL: Final = re.compile(
    r"([+-]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+)[fFdD]?"
    r"|([+-]?(?:NaN|Infinity))"
)
_HEXADECIMAL: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?"
)
# What Java's String.trim takes away.
_BLANKS: Final = "".join(map(chr, range(0x21)))


@lru_cache(_KEPT_NUMBERS)
def whole(text: str, low: int, high: int) -> int:
    """Return the number that ``text`` is, as Integer.valueOf and Long.valueOf read it."""
    if (
        len(text) <= NUMBER_CHARACTERS_MAX  # all of which Python reads
        and _WHOLE.fullmatch(text)
        and (text.isascii() or max(text) < "\U00010000")
    ):
        number = int(text)
        if low <= number <= high:
            return number
    raise EvaluationError(f"{_shown(text)} is not a whole number from {low} to {high}")


@lru_cache(_KEPT_NUMBERS)
def double(text: str) -> float:
    """Return the number that ``text`` is, as Double.valueOf reads it."""
    trimmed = text.strip(_BLANKS)
    if len(trimmed) > NUMBER_CHARACTERS_MAX:
        raise EvaluationError(f"{_shown(text)} is not a number")
    if match := _DECIMAL.fullmatch(trimmed):
        return float(match[1] or match[2])
    if match := _HEXADECIMAL.fullmatch(trimmed):
        try:
            return float.fromhex(match[1])
        except OverflowError:
            return -inf if trimmed[0] == "-" else inf
    raise EvaluationError(f"{_shown(text)} is not a number")


def _shown(text: str) -> str:
    """Return what an error says of a text: its beginning, which is all of most."""
    more = "..." if len(text) > _SHOWN_CHARACTERS else ""
    return f"{text[:_SHOWN_CHARACTERS]!r}{more}"


def compare_doubles(left: float, right: float) -> int:
    """Compare in Java's total order: -0.0 comes before 0.0, and NaN last and equal to itself."""
    if left < right:
        return -1
    if left > right:
        return 1
    a, b = ((isnan(x), not isnan(x) and copysign(1.0, x)) for x in (left, right))
    if left == right and left != 0:
        return 0
    return (a > b) - (a < b)


def _convert(text: str, model: Value) -> Value:
    """Convert ``text`` to the type of ``model``, which is a number or a boolean."""
    if type(model) is bool:
        return len(text) == len("true") and text.lower() == "true"
    if type(model) is float:
        return double(text)
    if type(model) is Long:
        return whole(text, LONG_MIN, LONG_MAX)
    return whole(text, INT_MIN, INT_MAX)


def compare(left: Value, right: Value) -> int:
    """Return a number below, at or above 0 as ``left`` is to ``right``; neither is None.

    A number and a boolean are not equal and that is all there is to say of them: -1. Raises
    ``EvaluationError``.
    """
    assert left is not None
    assert right is not None
    if type(left) is not type(right):
        if type(left) is bool:
            if isinstance(right, str):
                raise EvaluationError("a boolean is compared with a text to the right of it")
            return -1
        if isinstance(left, str):
            left = _convert(left, right)
        elif isinstance(right, str):
            right = _convert(right, left)
        elif type(right) is bool:
            return -1
    if type(left) is float or type(right) is float:
        return compare_doubles(float(left), float(right))  # type: ignore[arg-type] # no text left
    return (left > right) - (left < right)  # type: ignore[operator] # of one type by now
