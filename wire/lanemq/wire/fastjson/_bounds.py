"""Bounds on JSON that costs far more to read than its length says.

Most numbers take a tenth of a microsecond. One whose double is hard to find takes up to 40, in one
call of C that no other thread can interrupt: ``1e308``, ``1e-308``, the same without an exponent;
one half way between two doubles takes one. A text of peers has few of these: no body or header of
RocketMQ has more than a handful of numbers with exponents, and Java writes at most 17 digits.
"""

import re
from itertools import islice
from typing import Final

from .._errors import RemoteProtocolError

HARD_NUMBERS_MAX: Final = 64
"""Most numbers with an exponent, or of 280 digits, in a text that is read."""

FRACTIONS_MAX: Final = 1 << 13
"""Most numbers of 17 characters or more with a fraction in a text that is read."""

_HARD: Final = 280
_LONG: Final = 17
_DIGITS: Final = bytes.maketrans(b"123456789E", b"000000000e")
_EXPONENT: Final = b"0e"
_HARD_RUN: Final = b"0" * (_HARD // 2)  # one part of a number with a point in it is so long
_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_EXPONENTS: Final = re.compile(rb"[0-9][eE]")
_RUNS: Final = re.compile(rb"[0-9.]{%d,}" % _LONG)


def check_numbers(raw: bytes) -> None:
    """Raise ``RemoteProtocolError`` for a JSON text with too many numbers that take long to read.

    It costs some nanoseconds a byte. Only a text whose strings look like such numbers, as ids in
    hexadecimal and addresses do, is looked at once more, without its strings.
    """
    digits = raw.translate(_DIGITS)
    if (
        digits.count(_EXPONENT) + digits.count(_HARD_RUN) <= HARD_NUMBERS_MAX
        and digits.count(b".") <= FRACTIONS_MAX
    ):
        return
    bare = _STRINGS.sub(b"", raw)
    hard = sum(1 for _ in islice(_EXPONENTS.finditer(bare), HARD_NUMBERS_MAX + 1))
    fractions = 0
    for run in _RUNS.finditer(bare):
        hard += run.end() - run.start() >= _HARD
        fractions += b"." in run[0]
        if hard > HARD_NUMBERS_MAX or fractions > FRACTIONS_MAX:
            break
    if hard > HARD_NUMBERS_MAX:
        raise RemoteProtocolError(
            f"JSON with more than {HARD_NUMBERS_MAX} numbers that have exponents or {_HARD} digits"
        )
    if fractions > FRACTIONS_MAX:
        raise RemoteProtocolError(
            f"JSON with more than {FRACTIONS_MAX} fractions of {_LONG} characters and more"
        )
