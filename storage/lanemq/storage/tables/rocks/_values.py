"""The JSON of the values in the configuration databases, byte for byte as 5.3.3 writes it.

Beside plain JSON: keys that are numbers stand in quotes, ``/`` has a backslash, what is not
ASCII is ``\\uXXXX`` in upper case, and a number that a browser could not hold is a text.
Source: RocketMQ 5.3.3, RocksDBTopicConfigManager and its kin; fastjson 1.2.83,
SerializerFeature.BrowserCompatible.
"""

import math
import re
from typing import Final

import msgspec

from lanemq.wire import LocalProtocolError, fastjson

BROWSER_MAX: Final = (1 << 53) - 1
"""The largest number that a browser's JSON holds exactly."""

_SPECIAL = re.compile(r'["/\\\x00-\x1f\x7f-\U0010ffff]')
_SHORT: Final = {
    '"': '\\"',
    "/": "\\/",
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def dump_value(value: object) -> bytes:
    """Write ``value`` (what ``fastjson.dumps`` takes, with texts and numbers as keys).

    Members that are ``None`` are left out; members come in the order of the dict. Raises
    ``LocalProtocolError`` for what has no such form.
    """
    return _written(value).encode("ascii")


def load_value(data: bytes) -> object:
    """Read a value, of this form or of any other that fastjson reads.

    Raises ``RemoteProtocolError``.
    """
    return fastjson.loads(data, max_depth=2 * fastjson.MAX_DEPTH, is_own=True)


def dump_plain(value: dict[str, object]) -> bytes:
    """Write the value of a version or of forbidden topics: compact JSON, members sorted."""
    return msgspec.json.encode(value, order="sorted")


def _written(value: object) -> str:
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        return str(value) if -BROWSER_MAX <= value <= BROWSER_MAX else f'"{value}"'
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "null"
    if isinstance(value, dict):
        members = (
            f"{_quoted(key) if isinstance(key, str) else _key(key)}:{_written(item)}"
            for key, item in value.items()
            if item is not None
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_written, value)) + "]"
    raise LocalProtocolError(f"no JSON form for {type(value).__name__}")


def _key(key: object) -> str:
    if isinstance(key, int) and not isinstance(key, bool):
        return f'"{key}"'
    raise LocalProtocolError(f"no JSON form for a key that is {type(key).__name__}")


def _quoted(text: str) -> str:
    return f'"{_SPECIAL.sub(_escaped, text)}"'


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{high:02X}{low:02X}" for high, low in zip(units[::2], units[1::2], strict=True)
    )
