"""Bounds on JSON that costs far more to read than its length says.

Most numbers take a tenth of a microsecond. One whose double is hard to find takes up to 40, in one
call of C that no other thread can interrupt: ``1e308``, ``1e-308``, the same without an exponent;
one half way between two doubles takes one. And ``{}`` takes 64 bytes of memory. A text of peers
has few of these: no body or header of RocketMQ has more than a handful of numbers with exponents,
and Java writes at most 17 digits.
"""

import re
from itertools import islice
from typing import Final, NamedTuple

from .._errors import RemoteProtocolError

HARD_NUMBERS_MAX: Final = 64
"""Most numbers with an exponent, or of 280 digits, in a text that is read."""

FRACTIONS_MAX: Final = 1 << 13
"""Most numbers of 17 characters or more with a fraction in a text that is read."""

REQUEST_NUMBERS_MAX: Final = 1 << 9
"""Most fractions, and spans of 20 digits, in the body of a request, which has integers alone."""

FREE_VALUES: Final = 1 << 15
"""Values that a text of any length may have, arrays and objects included."""
BYTES_OF_A_VALUE: Final = 4
"""Bytes of a longer text for each further value; ``0:0,`` has as many."""
BYTES_OF_A_CONTAINER: Final = 16
"""Bytes of a longer text for each further array or object; the densest body, of all offsets, has
one for a topic and a group, ``"t1@g":{0:123},``."""

_VALUE_BYTES: Final = 64
_CONTAINER_BYTES: Final = 200
_MEMORY_PER_BYTE: Final = 4

_HARD: Final = 280
_LONG: Final = 17
_DIGITS: Final = bytes.maketrans(b"123456789E", b"000000000e")
_EXPONENT: Final = b"0e"
_FRACTION: Final = b"0.0"
_SPAN: Final = b"0" * 20
_HARD_RUN: Final = b"0" * (_HARD // 2)  # one part of a number with a point in it is so long
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
    bare = _without_strings(raw)
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


def check_request_numbers(raw: bytes) -> None:
    """Raise ``RemoteProtocolError`` for the body of a request with more numbers that take longer
    than others than any has; as ``check_numbers``, which is for answers, too."""
    if _slow_parts(raw) > REQUEST_NUMBERS_MAX and (
        _slow_parts(_without_strings(raw)) > REQUEST_NUMBERS_MAX
    ):
        raise RemoteProtocolError(
            f"a request with more than {REQUEST_NUMBERS_MAX} fractions, or numbers of 20 digits"
        )


def _without_strings(raw: bytes) -> bytes:
    # A quarter of what an expression takes. Escapes outside of strings end each reader at once.
    if b"\\" in raw:
        raw = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    parts = raw.split(b'"')
    unfinished = b"" if len(parts) % 2 else parts[-1]
    return b"".join(parts[::2]) + unfinished


def _slow_parts(raw: bytes) -> int:
    digits = raw.translate(_DIGITS)
    return digits.count(_FRACTION) + digits.count(_SPAN)


class Shape(NamedTuple):
    """The number of bytes, values and containers of a text: what it takes to read and to keep."""

    size_bytes: int
    values: int
    """Values at most, arrays and objects included; commas within strings count, too."""
    containers: int
    """Arrays and objects at most."""

    def plus(self, raw: bytes) -> "Shape":
        """Return the shape of this and another piece of text."""
        containers = raw.count(b"{") + raw.count(b"[")
        return Shape(
            self.size_bytes + len(raw),
            self.values + raw.count(b",") + containers,
            self.containers + containers,
        )

    def check(self) -> None:
        """Raise ``RemoteProtocolError`` for more values, or containers, than any body has.

        One call reads a text as a whole, and keeps all threads waiting meanwhile.
        """
        values = FREE_VALUES + self.size_bytes // BYTES_OF_A_VALUE
        containers = FREE_VALUES + self.size_bytes // BYTES_OF_A_CONTAINER
        if self.values > values or self.containers > containers:
            raise RemoteProtocolError(
                f"JSON of {self.size_bytes} bytes with {self.values} values, {self.containers} of "
                f"them arrays and objects, at most {values} and {containers} are read"
            )

    @property
    def memory_bytes(self) -> int:
        """The memory in bytes that the values take, about, with what is made of them."""
        return (
            _MEMORY_PER_BYTE * self.size_bytes
            + _VALUE_BYTES * self.values
            + _CONTAINER_BYTES * self.containers
        )


def check_values(raw: bytes) -> None:
    """Raise ``RemoteProtocolError`` as ``Shape.check``; short texts are not even looked at."""
    if len(raw) > FREE_VALUES:
        Shape(0, 0, 0).plus(raw).check()
