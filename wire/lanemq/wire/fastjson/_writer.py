"""Write JSON as fastjson does, which old clients and the store's files expect.

Source: fastjson 1.2.x as used by RocketMQ 4.9.8 (RemotingSerializable, ConfigManager).
"""

from collections.abc import Iterable
from typing import Final, Protocol, TypeGuard, final

import msgspec

from .._errors import LocalProtocolError


class ToJson(Protocol):
    """A value that knows its JSON form; as a key of a dict it becomes an object key.

    One that has a method ``compact_json`` writes itself where the layout is not ``pretty``: the
    bytes are what is written of its ``to_json``.
    """

    def to_json(self) -> dict[str, object]: ...


_SCALARS: Final = (str, int, float)  # a tuple: a union would be made again for each value
_ARRAYS: Final = (list, tuple)


def _has_json(value: object) -> TypeGuard[ToJson]:
    """Do the check of ``isinstance`` with a checkable protocol, in a tenth of its time."""
    return hasattr(value, "to_json")


class Written(bytes):
    """A value that is encoded already, to be inserted into a larger one."""


def dump_member(value: object, *, levels: int) -> Written:
    """Write ``value`` as ``dumps`` with ``pretty`` does inside of ``levels`` objects.

    Its keeper need not write the value again with everything around it. Raises as ``dumps``.
    """
    out: list[bytes] = []
    try:
        _Writer(out, standard=False, pretty=True).write(value, b"\n" + b"\t" * levels)
    except (RecursionError, UnicodeEncodeError) as error:
        raise LocalProtocolError(f"no JSON form: {error}") from error
    return Written(b"".join(out))


def dump_named(name: str, value: object, *, levels: int) -> bytes:
    """Write one member of the innermost of ``levels`` objects, for ``WrittenObject``."""
    written = dump_member(value, levels=levels)
    return b"".join((b",\n", b"\t" * levels, _ENCODER.encode(name), b":", written))


@final
class WrittenObject:
    """An object whose members are written already, in parts that are not joined yet."""

    __slots__ = ("parts",)

    def __init__(self, members: Iterable[bytes], *, levels: int) -> None:
        """Take members that ``dump_named`` gave for the same levels."""
        self.parts = list(members)
        if self.parts:
            self.parts[0] = b"{" + self.parts[0][1:]  # no comma before the first
            self.parts.append(b"\n" + b"\t" * (levels - 1) + b"}")
        else:
            self.parts.append(b"{}")


@final
class WrittenParts:
    """An object or an array that is written already, in parts that are not joined yet."""

    __slots__ = ("parts",)

    def __init__(self, begin: bytes, members: Iterable[bytes], end: bytes) -> None:
        """Take the brackets, and what is between them; empty ones of these are left out."""
        self.parts = [begin]
        for member in members:
            if member:
                self.parts += (member, b",")
        if len(self.parts) > 1:
            self.parts.pop()
        self.parts.append(end)


def dumps(value: object, *, standard: bool = False, pretty: bool = False) -> bytes:
    """Write ``value`` (dict, list, tuple, str, int, float, bool, None, or with ``to_json``).

    What ``dump_member`` gave is put in as it is, and so are ``WrittenObject`` and ``WrittenParts``.

    Members that are ``None`` are left out. A key that is an ``int`` stands bare, and one with
    ``to_json`` as an object: old clients need exactly that. ``standard`` puts both in quotes,
    for readers of strict JSON. ``pretty`` is the layout of the configuration files: one member
    a line, indented by tabs, but arrays and members with bare keys on one line. A ``$ref`` is never
    written. Raises ``LocalProtocolError`` for a value that has no JSON form.
    """
    return b"".join(dump_parts(value, standard=standard, pretty=pretty))


def dump_parts(value: object, *, standard: bool = False, pretty: bool = False) -> list[bytes]:
    """Write ``value`` as ``dumps`` does, but do not join the parts. Raises as ``dumps``."""
    out: list[bytes] = []
    try:
        _Writer(out, standard=standard, pretty=pretty).write(value, b"\n")
    except (RecursionError, UnicodeEncodeError) as error:
        raise LocalProtocolError(f"no JSON form: {error}") from error
    return out


_IN_PARTS: Final = (WrittenObject, WrittenParts)


class _Writer:
    def __init__(self, out: list[bytes], *, standard: bool, pretty: bool) -> None:
        self._put = out.append
        self._put_all = out.extend
        self._standard = standard
        self._pretty = pretty

    def write(self, value: object, line: bytes) -> None:
        """Write ``value``; ``line`` is the line break with the indent of where it stands."""
        if value is None or isinstance(value, _SCALARS):
            self._put(_scalar(value))
        elif isinstance(value, dict):
            self._object(value, line)
        elif isinstance(value, _ARRAYS):
            self._array(value, line)
        elif isinstance(value, Written):
            self._put(value)
        elif isinstance(value, _IN_PARTS):
            self._put_all(value.parts)
        elif _has_json(value):
            compact = None if self._pretty else getattr(value, "compact_json", None)
            if compact is None:
                self._object(value.to_json(), line)
            else:
                self._put(compact())
        else:
            raise LocalProtocolError(f"no JSON form for {type(value).__name__}")

    def _object(self, members: dict[object, object] | dict[str, object], line: bytes) -> None:
        put, pretty = self._put, self._pretty
        inner = line + b"\t" if pretty else line
        put(b"{")
        first = True
        for key, value in members.items():
            if value is None:
                continue
            if not first:
                put(b",")
            first = False
            if isinstance(key, str):
                if pretty:
                    put(inner)
                put(_ENCODER.encode(key))
            else:
                put(self._other_key(key))
            put(b":")
            if type(value) is Written:  # most of what a large file has
                put(value)
            else:
                self.write(value, inner)
        if pretty and not first:
            put(line)
        put(b"}")

    def _other_key(self, key: object) -> bytes:
        if isinstance(key, int) and not isinstance(key, bool):
            text = b"%d" % key
        elif _has_json(key):
            text = dumps(key.to_json(), standard=self._standard)
        else:
            raise LocalProtocolError(f"no JSON key for {type(key).__name__}")
        return _ENCODER.encode(text.decode()) if self._standard else text

    def _array(self, values: list[object] | tuple[object, ...], line: bytes) -> None:
        put = self._put
        put(b"[")
        for index, value in enumerate(values):
            if index:
                put(b",")
            self.write(value, line)
        put(b"]")


def _scalar(value: str | int | float | None) -> bytes:
    if isinstance(value, int) and not isinstance(value, bool):
        return b"%d" % value  # an IntEnum is its number
    return _ENCODER.encode(value)


_ENCODER = msgspec.json.Encoder()
