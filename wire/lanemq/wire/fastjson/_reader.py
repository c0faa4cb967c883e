"""Read JSON the way fastjson reads it: bodies and configuration files of RocketMQ.

Strict JSON goes through msgspec. Text that it refuses gets a second look by a parser that also
takes what fastjson writes: keys that are bare integers (``{0:"a"}``) or names, keys that are
objects (``{{"queueId":0}:5}``), and ``{"$ref":"$.a[0]"}`` in place of a value written before.
Source: fastjson 1.2.x as used by RocketMQ 3.2.6 to 5.3.3 (RemotingSerializable).
"""

import re
from typing import Final

import msgspec

from .._errors import RemoteProtocolError
from ._bounds import check_numbers, check_values
from ._references import RefKey, resolve

MAX_DEPTH: Final = 100
"""The depth to which arrays and objects may nest; the deepest body of RocketMQ has seven levels."""

MAX_BYTES: Final = 16 << 20
"""The longest text that is read: no frame can carry a longer one."""

_EXPANSION_SHARE: Final = 64
_CHARACTERS_PER_BYTE: Final = 5  # of the estimate: ``1,`` counts for eight, and ``[]`` too

_NO_BRACKETS: Final = bytes(sorted({*range(256)} - {*b'[]{}"'}))

_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:(\.[0-9]+)?([eE][-+]?[0-9]+)?)")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_BARE_KEY = re.compile(r"-?[0-9]+|[A-Za-z_$][A-Za-z0-9_$]*")
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None}
_WORD = re.compile("true|false|null")


def loads(
    data: bytes | bytearray | memoryview | str,
    *,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
    is_own: bool = False,
) -> object:
    """Read one JSON value; keys of objects are always ``str``.

    A bare key is its text (``"0"``); an object used as a key is the compact JSON text of that
    object; a string key is itself. References are resolved to the one object they name; none
    makes a value that contains itself. Raises ``RemoteProtocolError``, naming the place, for
    anything that is not JSON in this wide sense, for text that is longer than ``max_bytes`` or
    nests deeper than ``max_depth`` levels, for more numbers with exponents, or long ones, than
    ``check_numbers`` lets pass, more values than ``check_values``, and for references that stand
    for more than the text's own length and a 64th of ``max_bytes``. Numbers and values of a file
    of the server's ``is_own`` are not counted: all of it has to be read.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    if len(data) > max_bytes:
        raise RemoteProtocolError(f"JSON of {len(data)} bytes, at most {max_bytes} are read")
    raw = bytes(data)
    if not is_own:
        check_values(raw)
        check_numbers(raw)
    has_refs = b"$ref" in raw
    if not has_refs:
        try:
            value = _STRICT.decode(raw)
        except (ValueError, RecursionError):
            pass  # not strict JSON; the parser below says what is wrong if it is not JSON at all
        else:
            if raw.count(b"{") + raw.count(b"[") > max_depth and not _is_flat(raw, max_depth):
                _check_depth(value, max_depth)
            return value
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"JSON is not UTF-8 at byte {error.start}") from error
    value = _Parser(text, max_depth).read()
    if not has_refs:
        return value
    most = _CHARACTERS_PER_BYTE * len(raw) + max_bytes // _EXPANSION_SHARE
    return resolve(value, max_depth=max_depth, max_characters=most)


def most_values(data: bytes | bytearray | memoryview) -> int:
    """Return how many values the text can have at most, arrays and objects included.

    Each but the first follows a comma, or the opening of what it is in. It costs a hundredth of
    what ``loads`` does: what a text costs to read, to keep and to write depends on it.
    """
    raw = bytes(data)
    return 1 + raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def is_quick(data: bytes | bytearray | memoryview) -> bool:
    """Return True if ``loads`` reads ``data`` in one go, as strict JSON.

    The rest costs it about a microsecond a byte, whether it is JSON in the wide sense or none.
    Raises ``RemoteProtocolError`` for numbers as ``check_numbers``.
    """
    raw = bytes(data)
    check_numbers(raw)
    if b"$ref" in raw:
        return False
    try:
        _STRICT.decode(raw)
    except (ValueError, RecursionError):
        return False
    return True


class _Parser:
    """A recursive descent over ``text``; positions in messages count characters."""

    def __init__(self, text: str, max_depth: int = MAX_DEPTH) -> None:
        self._text = text
        self._max_depth = max_depth
        self._at = 0
        self._in_key = False

    def read(self) -> object:
        self._skip_blanks()
        value = self._value(0)
        self._skip_blanks()
        if self._at != len(self._text):
            raise self._error("the end of the text")
        return value

    def _value(self, depth: int) -> object:
        character = self._peek()
        if character == '"':
            return self._string()
        if character == "{" or character == "[":
            if depth == self._max_depth:
                raise RemoteProtocolError(
                    f"JSON nests deeper than {self._max_depth} levels at character {self._at}"
                )
            return self._object(depth + 1) if character == "{" else self._array(depth + 1)
        if match := _WORD.match(self._text, self._at):
            self._at = match.end()
            return _WORDS[match[0]]
        if match := _NUMBER.match(self._text, self._at):
            return self._number(match)
        raise self._error("a value")

    def _number(self, match: re.Match[str]) -> object:
        # Through msgspec, so that a number means the same here as in strict JSON.
        try:
            value: object = _STRICT.decode(match[0].encode())
        except ValueError as error:
            raise self._error("a number in range") from error
        self._at = match.end()
        return value

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self._error("a string with an end")
        try:
            value = _STRING_DECODER.decode(match[0].encode())
        except ValueError as error:
            raise self._error("a string with valid escapes") from error
        self._at = match.end()
        return value

    def _array(self, depth: int) -> list[object]:
        values: list[object] = []
        self._at += 1
        self._skip_blanks()
        if self._peek() == "]":
            self._at += 1
            return values
        while True:
            values.append(self._value(depth))
            if not self._comma_or("]"):
                return values

    def _object(self, depth: int) -> dict[object, object]:
        members: dict[object, object] = {}
        self._at += 1
        self._skip_blanks()
        if self._peek() == "}":
            self._at += 1
            return members
        while True:
            key = self._key(depth)
            self._skip_blanks()
            if self._peek() != ":":
                raise self._error("':'")
            self._at += 1
            self._skip_blanks()
            members[key] = self._value(depth)
            if not self._comma_or("}"):
                return members

    def _key(self, depth: int) -> object:
        character = self._peek()
        if character == '"':
            return self._string()
        if character == "{":
            # Each level within another would double the backslashes.
            if self._in_key:
                raise self._error("a key without objects as keys")
            self._in_key = True
            value = self._value(depth)
            self._in_key = False
            assert isinstance(value, dict)
            return RefKey(value) if "$ref" in value else msgspec.json.encode(value).decode()
        if match := _BARE_KEY.match(self._text, self._at):
            self._at = match.end()
            return match[0]
        raise self._error("a key")

    def _comma_or(self, closing: str) -> bool:
        """Pass a comma (then there is more) or ``closing`` (then there is not)."""
        self._skip_blanks()
        character = self._peek()
        if character == closing:
            self._at += 1
            return False
        if character != ",":
            raise self._error(f"',' or '{closing}'")
        self._at += 1
        self._skip_blanks()
        return True

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_blanks(self) -> None:
        match = _BLANK.match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _error(self, expected: str) -> RemoteProtocolError:
        found = self._text[self._at : self._at + 20]
        what = repr(found) if found else "the end"
        return RemoteProtocolError(
            f"JSON: expected {expected} at character {self._at}, found {what}"
        )


def _is_flat(raw: bytes, max_depth: int) -> bool:
    """Return True if JSON certainly nests no deeper; it takes a tenth of a walk over its values.

    What is not told is JSON with backslashes, or with brackets within its strings.
    """
    if b"\\" in raw:
        return False
    nested = raw.translate(None, _NO_BRACKETS).replace(b'""', b"")
    for _ in range(max_depth):
        if not nested:
            return True
        inner, nested = nested, nested.replace(b"{}", b"").replace(b"[]", b"")
        if len(nested) == len(inner):  # a string with brackets
            return False
    return not nested


def _check_depth(value: object, max_depth: int) -> None:
    level = [value]
    for _ in range(max_depth):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below += [child for child in item.values() if isinstance(child, dict | list)]
            elif isinstance(item, list):
                below += [child for child in item if isinstance(child, dict | list)]
        if not below:
            return
        level = below
    raise RemoteProtocolError(f"JSON nests deeper than {max_depth} levels")


_STRICT: msgspec.json.Decoder[object] = msgspec.json.Decoder()
_STRING_DECODER = msgspec.json.Decoder(str)
