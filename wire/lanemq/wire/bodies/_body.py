"""The base of all JSON bodies: members named after fields, read leniently, written sorted.

A body is a frozen dataclass. Its annotations are its declaration: each field is a JSON member of
the same name in camel case, and its type says how to read it. Reading follows fastjson: an absent
or null member takes the default, numbers and booleans may come as strings, unknown members are
passed over, or kept where the body has a field ``extra``.
"""

import functools
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Final, Self

from .. import fastjson
from .._errors import RemoteProtocolError
from .._numbers import INT32, INT64, Int

EXTRA = "extra"
KEPT_BYTES_MIN: Final = 4 << 10
KEPT_BYTES_MAX: Final = 512 << 10
"""The longest body that is kept after it was read; longer ones are read in threads, and once."""

Reader = Callable[[object], Any]


class Body:
    """Base of the bodies; holds no data of its own."""

    __slots__ = ()

    NAMES: ClassVar[Mapping[str, str]] = {}
    """Field -> member, where camel case does not give it."""

    OTHER_SPELLINGS: ClassVar[Mapping[str, str]] = {}
    """A second name of a member -> the first: either is read, both are written."""

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview | str) -> Self:
        """Read a body. Raises ``RemoteProtocolError`` naming the member that is wrong.

        The long body that was read last is kept: what checks the rights to a request and what
        handles it read the same one.
        """
        global _last
        if not isinstance(data, bytes) or len(data) < KEPT_BYTES_MIN:
            return cls.from_json(fastjson.loads(data))
        kind, kept, body = _last
        if kept is not data or kind is not cls:
            body = cls.from_json(fastjson.loads(data))
            if len(data) <= KEPT_BYTES_MAX:
                _last = (cls, data, body)
        return typing.cast(Self, body)

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Make the body of the value that ``fastjson.loads`` gave; otherwise like ``decode``."""
        if not isinstance(value, dict):
            raise RemoteProtocolError(f"{cls.__name__} is not a JSON object")
        schema = _schema(cls)
        arguments: dict[str, Any] = {}
        for member in schema.members:
            given = value.get(member.name)
            if given is None and member.other_name is not None:
                given = value.get(member.other_name)
            if given is not None:
                try:
                    arguments[member.field] = member.read(given)
                except RemoteProtocolError as error:
                    raise RemoteProtocolError(f"{cls.__name__}.{member.name}: {error}") from None
            elif member.required:
                raise RemoteProtocolError(f"{cls.__name__} lacks the member {member.name}")
        if schema.has_extra:
            arguments[EXTRA] = {
                name: given
                for name, given in value.items()
                if name not in schema.names and given is not None
            }
        return cls(**arguments)

    def to_json(self) -> dict[str, object]:
        """Return the members for ``fastjson.dumps``, sorted by name; ``None`` among them is left
        out."""
        schema = _schema(type(self))
        members: dict[str, object] = {}
        for member in schema.members:
            value = getattr(self, member.field)
            members[member.name] = sorted(value) if isinstance(value, frozenset) else value
        if schema.has_spellings:
            for other, name in self.OTHER_SPELLINGS.items():
                members[other] = members[name]
        if schema.has_extra:
            members = getattr(self, EXTRA) | members
        if schema.has_spellings or schema.has_extra:
            members = dict(sorted(members.items()))
        return members

    def encode(self, *, standard: bool = False, pretty: bool = False) -> bytes:
        """Write the body as the reference does; the switches are those of ``fastjson.dumps``."""
        return fastjson.dumps(self.to_json(), standard=standard, pretty=pretty)


_last: tuple[type[Body], bytes, Body] = (Body, b"", Body())
"""Class, bytes and value of the long body that was read last."""


@dataclass(frozen=True, slots=True)
class Member:
    field: str
    name: str
    other_name: str | None
    read: Reader
    required: bool


@dataclass(frozen=True, slots=True)
class Schema:
    members: tuple[Member, ...]
    names: frozenset[str]
    has_extra: bool
    has_spellings: bool


_SCHEMAS: dict[type, Schema] = {}


def _schema(cls: type[Body]) -> Schema:
    schema = _SCHEMAS.get(cls)
    if schema is None:
        schema = _SCHEMAS[cls] = _declared(cls)
    return schema


def _declared(cls: type[Body]) -> Schema:
    hints = typing.get_type_hints(cls, include_extras=True)
    other_names = {name: other for other, name in cls.OTHER_SPELLINGS.items()}
    members = []
    for field in fields(cls):  # type: ignore[arg-type]  # every body is a dataclass
        if field.name != EXTRA:
            name = cls.NAMES.get(field.name) or _camel(field.name)
            required = field.default is MISSING and field.default_factory is MISSING
            reader = _reader(hints[field.name])
            members.append(Member(field.name, name, other_names.get(name), reader, required))
    members.sort(key=lambda member: member.name)
    return Schema(
        members=tuple(members),
        names=frozenset(member.name for member in members) | frozenset(cls.OTHER_SPELLINGS),
        has_extra=EXTRA in hints,
        has_spellings=bool(cls.OTHER_SPELLINGS),
    )


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _reader(hint: object) -> Reader:
    scalar = _SCALARS.get(hint)
    if scalar is not None:
        return scalar
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):  # X | None; null never gets to a reader
        (inner,) = (argument for argument in arguments if argument is not types.NoneType)
        return _reader(inner)
    if origin is tuple:
        return functools.partial(_read_array, tuple, _reader(arguments[0]))
    if origin is frozenset:
        return functools.partial(_read_array, frozenset, _reader(arguments[0]))
    if origin is Mapping:
        key_hint, value_hint = arguments
        key = _object_key_reader(key_hint) if _is_body(key_hint) else _reader(key_hint)
        return functools.partial(_read_mapping, key, _reader(value_hint))
    read = getattr(hint, "from_json", None)  # a body, or what else can be read from JSON
    if isinstance(read, types.MethodType):
        return read
    raise TypeError(f"no way to read {hint} from JSON")


def _is_body(hint: object) -> typing.TypeGuard[type[Body]]:
    return isinstance(hint, type) and issubclass(hint, Body)


def _wrong(expected: str, value: object) -> RemoteProtocolError:
    shown = repr(value[:80]) if isinstance(value, str) else type(value).__name__
    return RemoteProtocolError(f"expected {expected}, not {shown}")


def read_int(value: object) -> int:
    """Return a Java long, from any of the forms that fastjson takes for one."""
    if isinstance(value, str):
        # The length is checked first: int() takes quadratic time, and refuses at 4300 digits.
        digits = value[1:] if value.startswith("-") else value
        if digits.isascii() and digits.isdigit() and len(digits) < 20:
            value = int(value)
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value in INT64:
        return value
    raise _wrong("a number of 64 bits", value)


def _read_int32(value: object) -> int:
    number = read_int(value)
    if number not in INT32:
        raise _wrong("a number of 32 bits", value)
    return number


def _read_float(value: object) -> float:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise _wrong("a number", value) from None
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    raise _wrong("a number", value)


def _read_bool(value: object) -> bool:
    if value is True or value is False:
        return value
    if value in (0, "false"):
        return False
    if value in (1, "true"):
        return True
    raise _wrong("true or false", value)


def _read_str(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise _wrong("a text", value)


def _read_anything(value: object) -> object:
    return value


_SCALARS: dict[object, Reader] = {
    int: read_int,
    Int: _read_int32,
    float: _read_float,
    bool: _read_bool,
    str: _read_str,
    object: _read_anything,
}


def _read_array(kind: Callable[[list[Any]], object], read: Reader, value: object) -> object:
    if not isinstance(value, list):
        raise _wrong("an array", value)
    return kind([read(item) for item in value])


def _read_mapping(read_key: Reader, read: Reader, value: object) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise _wrong("an object", value)
    return {read_key(key): read(item) for key, item in value.items() if item is not None}


def _object_key_reader(cls: type[Body]) -> Reader:
    """Return a reader of a key that is an object in the dialect; here it is that object's text."""

    def read(key: object) -> Body:
        return cls.from_json(fastjson.loads(typing.cast(str, key)))

    return read
