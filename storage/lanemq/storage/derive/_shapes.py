"""Tags and keys from properties of which thousands are alike but for their values.

The names of a topic's properties, and their order, hardly ever change from message to message. So
one pattern with all the names, made of one message, finds the values in the next ones at once; it
fits nothing else, as a name that comes twice, and what it does not fit is looked through by name.
Often even the values are alike, but for the unique key at the beginning.
"""

import re
from collections.abc import Callable
from typing import Final, final

from lanemq.wire.message import Property, get_property

TAGS: Final = Property.TAGS.encode()
UNIQ_KEY: Final = Property.UNIQ_KEY.encode()
KEYS: Final = Property.KEYS.encode()
WANTED: Final = (TAGS, UNIQ_KEY, KEYS)
SHAPED_BYTES_MAX: Final = 4096
MISSES_MAX: Final = 64
SHAPES_MAX: Final = 16
UNIQUE_AT_FIRST: Final = UNIQ_KEY + b"\x01"
UNIQUE_BYTES: Final = len(UNIQUE_AT_FIRST)
NEVER: Final = b"((?!))?"
"""A group that matches nothing."""
Values = tuple[bytes | None, bytes | None, bytes | None]
_NEEDLES: Final = tuple((b"\x02%b\x01" % name, len(name) + 2) for name in WANTED)


def by_name(data: bytes) -> Values:
    """Return tags, unique key and keys, as ``get_property`` finds them."""
    found: list[bytes | None] = []
    for needle, size in _NEEDLES:
        begin = data.rfind(needle) + size
        if begin < size:
            if not data.startswith(needle[1:]):
                found.append(None)
                continue
            begin = size - 1
        stop = data.find(b"\x02", begin)
        value = data[begin:] if stop < 0 else data[begin:stop]
        found.append(value or get_property(data, needle[1:-1]))
    return found[0], found[1], found[2]


@final
class Shape:
    """The values of one topic's properties."""

    __slots__ = ("_match", "_misses", "_order", "_rest", "_rest_values", "_shapes")

    def __init__(self) -> None:
        self._match: Callable[[bytes], re.Match[bytes] | None] | None = None
        self._order = (1, 2, 3)
        self._misses = MISSES_MAX
        self._shapes = 0
        self._rest = b""
        self._rest_values: Values = None, None, None

    def values(self, data: bytes) -> Values:
        """Return tags, unique key and keys; None for those that are not there."""
        if data.startswith(UNIQUE_AT_FIRST):
            stop = data.find(b"\x02", UNIQUE_BYTES)
            rest = data[stop:]
            if stop > UNIQUE_BYTES and rest == self._rest:
                tags, _, keys = self._rest_values
                return tags, data[UNIQUE_BYTES:stop], keys
            values = self._of_all(data)
            # Another unique key behind the first one would count in its place.
            if (
                stop > UNIQUE_BYTES
                and len(rest) <= SHAPED_BYTES_MAX
                and UNIQUE_AT_FIRST not in rest
            ):
                self._rest, self._rest_values = rest, values
            return values
        return self._of_all(data)

    def _of_all(self, data: bytes) -> Values:
        if self._match is not None:
            found = self._match(data)
            if found is not None:
                return found.group(*self._order)  # type: ignore[return-value] # three groups
        self._misses += 1
        if self._misses > MISSES_MAX and self._shapes < SHAPES_MAX:
            self._learn(data)
        return by_name(data)

    def _learn(self, data: bytes) -> None:
        self._misses, self._shapes = 0, self._shapes + 1
        self._match = None
        segments = data.removesuffix(b"\x02").split(b"\x02")
        names = [segment.partition(b"\x01")[0] for segment in segments]
        if len(data) > SHAPED_BYTES_MAX or any(names.count(name) > 1 for name in WANTED):
            return
        if not all(
            name and b"\x01" in segment for name, segment in zip(names, segments, strict=True)
        ):
            return
        parts = [
            re.escape(name) + (b"\x01([^\x02]+)" if name in WANTED else b"\x01[^\x02]*")
            for name in names
        ]
        end = b"\x02" if data.endswith(b"\x02") else b""
        there = [name for name in names if name in WANTED]
        lacking = [name for name in WANTED if name not in there]
        there += lacking
        pattern = b"\x02".join(parts) + end + NEVER * len(lacking)
        self._match = re.compile(pattern).fullmatch
        tags, unique, keys = (there.index(name) + 1 for name in WANTED)
        self._order = tags, unique, keys
