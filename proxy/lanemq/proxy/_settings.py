"""Configuration classes that are read from Apache's properties files.

A class declares each of its fields once, with the Apache key beside it; reading, checking,
changing at run time and printing all follow from that. What is not declared is either a key
that Apache knows (accepted, and named in a warning) or a mistake (refused, with the nearest
key that exists).
"""

import dataclasses
import difflib
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar, get_type_hints

from lanemq.local import get_logger
from lanemq.wire import (
    INT_MAX,
    RemoteProtocolError,
    ShownError,
    decode_properties_text,
    encode_properties_text,
    read_number,
)

LOGGER = get_logger("lanemq.proxy.config")

_T = TypeVar("_T")

_KEY = "apache_key"
_RUN_TIME = "changeable"
_ALLOWED = "allowed"
_SECRET = "secret"

_COUNTS = range(INT_MAX + 1)


class ConfigError(ShownError, ValueError):
    """An unusable configuration; the message says where it is and what to write instead."""


def setting(
    default: _T,
    *,
    key: str | None = None,
    changeable: bool = False,
    least: int = _COUNTS.start,
    most: int = INT_MAX,
    secret: bool = False,
) -> _T:
    """Declare a field of a configuration class; its Apache key is its name in camel case, or
    ``key``.

    ``changeable`` ones may be changed while the server runs. A number has to be ``least`` to
    ``most``: with any of these, however foolish, the server starts and runs. A ``secret`` one is
    never shown.
    """
    metadata = {
        _KEY: key,
        _RUN_TIME: changeable,
        _ALLOWED: range(least, most + 1),
        _SECRET: secret,
    }
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)


def apache_key(field: "dataclasses.Field[Any]") -> str:
    """Return the key of a field in Apache's files."""
    first, *rest = field.name.split("_")
    return str(field.metadata.get(_KEY) or first + "".join(map(str.capitalize, rest)))


def read_file(path: Path) -> bytes:
    """Read the bytes of a configuration file. Raises ``ConfigError``."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def parse_properties(data: bytes | str, *, source: str) -> dict[str, str]:
    """Parse a properties text; values lose trailing blanks. Raises ``ConfigError``.

    (Java keeps a value's trailing blanks, which nobody ever wants in a path or a number.)
    """
    try:
        properties = decode_properties_text(data)
    except RemoteProtocolError as error:
        raise ConfigError(f"{source}: {error}") from error
    return {key: value.rstrip() for key, value in properties.items()}


@dataclasses.dataclass(kw_only=True, slots=True)
class Settings:
    """Base of the configuration classes.

    They are not frozen: the admin tools change some settings of a running server, and its
    parts, which all hold the same object, must see that. ``update`` is the only way to do so.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_range(field, getattr(self, field.name))
        self.check()

    def check(self) -> None:
        """Raise ``ConfigError`` if values do not fit together. Subclasses extend it."""

    @classmethod
    def other_apache_keys(cls) -> frozenset[str]:
        """Return the keys that Apache's server of this kind knows and ours does not use."""
        return frozenset()

    @classmethod
    def completed(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the field values of a configuration with those of files that it names.

        Subclasses extend it; it raises ``ConfigError``.
        """
        return values

    @classmethod
    def load(cls, path: Path | None, overrides: Mapping[str, object] | None = None) -> Self:
        """Read a properties file, if there is one; ``overrides`` (field names) win.

        Raises ``ConfigError``.
        """
        if path is None:
            return cls.from_properties({}, overrides)
        properties = parse_properties(read_file(path), source=str(path))
        return cls.from_properties(properties, overrides, source=str(path))

    @classmethod
    def given_in(cls, path: Path) -> dict[str, str]:
        """Return the settings in a properties file, each key and value checked as at a start.

        Whether the values fit together, and what they lead to (other files, addresses), is left to
        the start. Raises ``ConfigError``.
        """
        source = str(path)
        properties = parse_properties(read_file(path), source=source)
        values = cls._values(properties, source=source)
        for field in dataclasses.fields(cls):
            if field.name in values:
                try:
                    _check_range(field, values[field.name])
                except ConfigError as error:
                    raise ConfigError(f"{source}: {error}") from None
        return properties

    @classmethod
    def from_properties(
        cls,
        properties: Mapping[str, str],
        overrides: Mapping[str, object] | None = None,
        *,
        source: str = "configuration",
    ) -> Self:
        """Build from Apache keys and their text values, and field values in ``overrides``.

        Raises ``ConfigError``.
        """
        values = cls._values(properties, source=source) | dict(overrides or {})
        values = cls.completed(values)
        try:
            return cls(**values)
        except ConfigError as error:
            raise type(error)(f"{source}: {error}") from None

    def update(self, properties: Mapping[str, str]) -> None:
        """Change some keys at run time, all or none of them; errors as ``changed``."""
        self.adopt(self.changed(properties))

    def changed(self, properties: Mapping[str, str]) -> Self:
        """Return a copy with some keys changed, checked as a whole as at a start.

        Raises ``ConfigError`` for unknown keys, bad values, and keys that need a restart
        (unless their value stays the same).
        """
        values = self._values(properties, source="update")
        fixed = {
            apache_key(field)
            for field in dataclasses.fields(self)
            if field.name in values
            and not field.metadata.get(_RUN_TIME)
            and values[field.name] != getattr(self, field.name)
        }
        if fixed:
            raise ConfigError(f"{', '.join(sorted(fixed))}: can only be changed with a restart")
        return dataclasses.replace(self, **values)

    def adopt(self, other: Self) -> None:
        """Take over the settings of ``other`` that may be changed at run time."""
        for field in dataclasses.fields(self):
            if field.metadata.get(_RUN_TIME):
                setattr(self, field.name, getattr(other, field.name))

    @classmethod
    def changeable_keys(cls) -> frozenset[str]:
        """Return the keys that ``update`` may change."""
        return frozenset(
            apache_key(field) for field in dataclasses.fields(cls) if field.metadata.get(_RUN_TIME)
        )

    def to_properties(self) -> dict[str, str]:
        """Return every key with its present value, as Apache writes it; without secrets."""
        return {
            apache_key(field): _text(value)
            for field in dataclasses.fields(self)
            if not field.metadata.get(_SECRET) and (value := getattr(self, field.name)) is not None
        }

    def to_text(self) -> bytes:
        """Return ``to_properties`` as lines ``key=value``."""
        return encode_properties_text(self.to_properties())

    @classmethod
    def _values(cls, properties: Mapping[str, str], *, source: str) -> dict[str, Any]:
        hints = get_type_hints(cls)
        fields = {apache_key(field): field.name for field in dataclasses.fields(cls)}
        others = cls.other_apache_keys()
        values: dict[str, Any] = {}
        unused: list[str] = []
        for key, text in properties.items():
            name = fields.get(key)
            if name is not None:
                values[name] = _value(hints[name], text, where=f"{source}: {key}")
            elif key in others:
                unused.append(key)
            else:
                raise ConfigError(f"{source}: unknown key {key!r}{_nearest(key, fields, others)}")
        if unused:
            LOGGER.warning("%s: lanemq does not use %s", source, ", ".join(sorted(unused)))
        return values


def _check_range(field: "dataclasses.Field[Any]", value: object) -> None:
    allowed = field.metadata.get(_ALLOWED, _COUNTS)
    if type(value) is int and value not in allowed:
        raise ConfigError(
            f"{apache_key(field)} is {value}: it must be {allowed[0]} to {allowed[-1]}"
        )


def _nearest(key: str, fields: Mapping[str, str], others: frozenset[str]) -> str:
    by_lower = {known.lower(): known for known in (*others, *fields)}
    close = difflib.get_close_matches(key.lower(), by_lower, 1, 0.7)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def _value(kind: object, text: str, *, where: str) -> object:
    of: Any = next(part for part in getattr(kind, "__args__", (kind,)) if part is not type(None))
    if of is bool:
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{where}: must be true or false, not {text!r}")
        return text.lower() == "true"
    if of is int:
        try:
            return read_number(text)
        except ValueError as error:
            raise ConfigError(f"{where}: must be a number, not {error}") from None
    if isinstance(of, type) and issubclass(of, enum.Enum):
        try:
            return of(text)
        except ValueError:
            names = " or ".join(str(member.value) for member in of)
            raise ConfigError(f"{where}: must be {names}, not {text!r}") from None
    if of is Path and not text:  # it would be the current directory
        if of is kind:
            raise ConfigError(f"{where}: is empty, and must be a path")
        return None
    return of(text)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return str(value.value)
    return str(value)
