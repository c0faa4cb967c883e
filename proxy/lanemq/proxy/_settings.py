"""Configuration classes that are read from Apache's properties files.

A class declares each of its fields once, with the Apache key beside it; reading, checking,
changing at run time and printing all follow from that. What is not declared is either a key
that Apache knows (accepted, and named in a warning) or a mistake (refused, with the nearest
key that exists).
"""

import dataclasses
import difflib
import enum
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar, get_type_hints

from lanemq.wire import RemoteProtocolError, decode_properties_text, encode_properties_text

LOGGER = logging.getLogger("lanemq.proxy.config")

_T = TypeVar("_T")

_KEY = "apache_key"
_RUN_TIME = "changeable"


class ConfigError(ValueError):
    """A configuration that cannot be used; the message says where and what to write instead."""


def setting(default: _T, *, key: str | None = None, changeable: bool = False) -> _T:
    """A field of a configuration class; its Apache key is its name in camel case, or ``key``.

    ``changeable`` ones may be changed while the server runs.
    """
    metadata = {_KEY: key, _RUN_TIME: changeable}
    return dataclasses.field(default=default, metadata=metadata)


def apache_key(field: "dataclasses.Field[Any]") -> str:
    """What Apache's files call a field."""
    first, *rest = field.name.split("_")
    return str(field.metadata.get(_KEY) or first + "".join(map(str.capitalize, rest)))


def read_file(path: Path) -> bytes:
    """The bytes of a configuration file. Raises ``ConfigError``."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def parse_properties(data: bytes | str, *, source: str) -> dict[str, str]:
    """Read a properties text; values lose trailing blanks. Raises ``ConfigError``.

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
        self.check()

    def check(self) -> None:
        """Raise ``ConfigError`` if values do not fit together. Subclasses extend it."""

    @classmethod
    def other_apache_keys(cls) -> frozenset[str]:
        """Keys that Apache's server of this kind knows and ours does not use."""
        return frozenset()

    @classmethod
    def load(cls, path: Path, overrides: Mapping[str, object] | None = None) -> Self:
        """Read a properties file; ``overrides`` (field names) win. Raises ``ConfigError``."""
        properties = parse_properties(read_file(path), source=str(path))
        return cls.from_properties(properties, overrides, source=str(path))

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
        try:
            return cls(**values)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None

    def update(self, properties: Mapping[str, str]) -> None:
        """Change some keys at run time, all or none of them.

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
        dataclasses.replace(self, **values)  # checks the new whole before any part of it counts
        for name, value in values.items():
            setattr(self, name, value)

    @classmethod
    def changeable_keys(cls) -> frozenset[str]:
        """The keys that ``update`` may change."""
        return frozenset(
            apache_key(field) for field in dataclasses.fields(cls) if field.metadata.get(_RUN_TIME)
        )

    def to_properties(self) -> dict[str, str]:
        """Every key with its present value, as Apache writes it."""
        return {
            apache_key(field): _text(value)
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) is not None
        }

    def to_text(self) -> bytes:
        """``to_properties`` as lines ``key=value``."""
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
    if of in (int, float):
        try:
            return of(text)
        except ValueError:
            raise ConfigError(f"{where}: must be a number, not {text!r}") from None
    if isinstance(of, type) and issubclass(of, enum.Enum):
        try:
            return of(text)
        except ValueError:
            names = " or ".join(str(member.value) for member in of)
            raise ConfigError(f"{where}: must be {names}, not {text!r}") from None
    return of(text)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return str(value.value)
    return str(value)
