"""Configuration as text: one ``key=value`` a line (requests 25, 26, 318, 319, broker.conf).

Reading follows java.util.Properties, which both sides of the protocol use: ``=``, ``:`` or a
blank after the key, comments behind ``#`` and ``!``, a backslash joins lines and escapes.
The text is UTF-8. Source: RocketMQ 4.9.8, MixAll.properties2String, string2Properties.
"""

import re
from collections.abc import Iterator, Mapping

from ._errors import RemoteProtocolError

LINE_END = re.compile(r"\r\n|\r|\n")
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
# A key ends at the first separator that no backslash precedes.
KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*")
GAP = re.compile(r"[ \t\f]*(?:[=:][ \t\f]*)?")
BLANKS = " \t\f"
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def encode_properties_text(properties: Mapping[str, str]) -> bytes:
    """Write one line for each pair, in order.

    The reference writes values raw, so ordinary ones are written just so. What would be read
    back as something else (a backslash, a line end, a leading blank) is escaped.
    """
    lines = [
        f"{_escape(key, ends_at=BLANKS + '=:')}={_escape(value)}\n"
        for key, value in properties.items()
    ]
    return "".join(lines).encode("utf-8", "replace")


def decode_properties_text(data: bytes | bytearray | memoryview | str) -> dict[str, str]:
    """Read a configuration text; of equal keys the last one wins.

    Raises ``RemoteProtocolError`` for bytes that are not UTF-8 and for a broken ``\\u`` escape.
    """
    if not isinstance(data, str):
        try:
            data = bytes(data).decode()
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"configuration text is not UTF-8: {error}") from None
    properties: dict[str, str] = {}
    for line in _logical_lines(data):
        key = KEY.match(line)
        assert key is not None  # the pattern also matches nothing
        gap = GAP.match(line, key.end())
        assert gap is not None
        properties[_unescape(key.group())] = _unescape(line[gap.end() :])
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    joined = ""
    continued = False
    for natural_line in LINE_END.split(text):
        line = natural_line.lstrip(BLANKS)
        if not continued and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continued = backslashes % 2 == 1
        joined += line[:-1] if continued else line
        if not continued:
            yield joined
            joined = ""
    if joined:
        yield joined


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    text = ESCAPE.sub(_unescape_one, text)
    # Two escapes may make one character beyond 16 bits.
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")


def _unescape_one(match: re.Match[str]) -> str:
    code = match.group(1)
    if len(code) == 5:
        return chr(int(code[1:], 16))
    if code == "u":
        raise RemoteProtocolError("a configuration text has \\u without four hex digits")
    return CONTROLS.get(code, code)


def _escape(text: str, *, ends_at: str = "") -> str:
    for letter, control in (("\\", "\\"), ("n", "\n"), ("r", "\r"), ("f", "\f")):
        text = text.replace(control, "\\" + letter)
    for separator in ends_at:
        text = text.replace(separator, "\\" + separator)
    if text.startswith(tuple(BLANKS)) or (ends_at and text.startswith(("#", "!"))):
        text = "\\" + text
    return text
