"""Checks of single values; each error names the value, and says what it has to be."""

import math
import ssl
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final, TypeGuard, get_args, get_origin

from ._errors import WrongValue

INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
SHOWN: Final = 80
TEXT_BYTES_MAX: Final = 16384
"""Bytes of a text among options: more than any name or credential has."""


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether ``value`` is a whole number, also one of numpy's."""
    return type(value) is not bool and isinstance(value, Integral)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether ``value`` is a number, also one of numpy's."""
    return type(value) is not bool and isinstance(value, Real) and value == value


def check_seconds(
    name: str,
    value: object,
    *,
    zero: bool = False,
    most_s: float = math.inf,
    error: type[ValueError] = WrongValue,
) -> None:
    """Raise ``error`` unless ``value`` is above 0, or 0 where ``zero``, and at most ``most_s``."""
    if not is_number(value):
        raise error(f"{name} must be a number of seconds, not {value!r}")
    if not (0 <= value <= most_s if zero else 0 < value <= most_s):
        least = "at least 0" if zero else "above 0"
        most = "" if most_s == math.inf else f" and at most {most_s:.0f}"
        raise error(f"{name} must be {least}{most}, not {value!r}")


def check_whole(
    name: str,
    value: object,
    *,
    least: int,
    most: int | None = None,
    error: type[ValueError] = WrongValue,
) -> None:
    """Raise ``error`` unless ``value`` is a whole number from ``least`` to ``most``."""
    if not is_whole(value):
        raise error(f"{name} must be a whole number, not {value!r}")
    if value < least or (most is not None and value > most):
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name} must be {allowed}, not {value}")


def check_text(
    name: str,
    value: object,
    *,
    most_bytes: int | None = None,
    error: type[ValueError] = WrongValue,
) -> None:
    """Raise ``error`` unless ``value`` is a text that UTF-8 can encode, in ``most_bytes`` bytes."""
    if not isinstance(value, str):
        raise error(f"{name} must be a text, not {value!r}")
    size_bytes = utf8_bytes(value)
    if size_bytes is None:
        raise error(
            f"{name} has half of a surrogate pair, which UTF-8 cannot encode: {shown(value)};"
            " texts of the system's, such as file names, need os.fsencode and a decoding of"
            " their own"
        )
    if most_bytes is not None and size_bytes > most_bytes:
        raise error(f"{name} has {size_bytes} bytes, at most {most_bytes} are allowed")


def utf8_bytes(text: str) -> int | None:
    """Return the length of a text in UTF-8; None for one that cannot be encoded."""
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return None


def shown(text: str) -> str:
    """Return a text as errors show it: quoted, escaped and shortened."""
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "…")


def check_fields(
    owner: Any,  # noqa: ANN401 - a dataclass of any kind
    *,
    positive: tuple[str, ...] = (),
    not_negative: tuple[str, ...] = (),
) -> None:
    """Raise ``WrongValue`` unless the fields of a dataclass hold what their types say.

    Looked at are texts, switches, numbers, members of enums, functions, and dataclasses.
    """
    for field in fields(owner):
        value = getattr(owner, field.name)
        kinds = get_args(field.type) if type(None) in get_args(field.type) else (field.type,)
        if value is None and len(kinds) > 1:
            continue
        wanted = _wanted(kinds[0], value)
        if kinds[0] is int and wanted is None:
            most = INT64_MAX if field.name.endswith("_ms") else INT32_MAX
            wanted = None if -most <= value <= most else f"at most {most}"
        if kinds[0] is str:
            check_text(f"{type(owner).__name__}.{field.name}", value, most_bytes=TEXT_BYTES_MAX)
        if wanted is None and field.name in positive and not value > 0:
            wanted = "positive"
        if wanted is None and field.name in not_negative and not value >= 0:
            wanted = "at least 0"
        if wanted is not None:
            name = f"{type(owner).__name__}.{field.name}"
            raise WrongValue(f"{name} must be {wanted}, not {value!r}")


def _wanted(kind: Any, value: object) -> str | None:  # noqa: ANN401 - types are of any type
    """Return in words what ``value`` should be but is not, or None."""
    if kind is bool:
        return None if isinstance(value, bool) else "True or False"
    if kind is int:
        return None if is_whole(value) else "a whole number"
    if kind is float:
        return None if is_number(value) else "a number"
    if get_origin(kind) is Callable:
        return None if callable(value) else "a function"
    if kind is ssl.SSLContext:
        made = "an ssl.SSLContext, as of ssl.create_default_context()"
        return None if isinstance(value, kind) else made
    if kind is Path:
        return None if isinstance(value, Path) and "\0" not in str(value) else "a pathlib.Path"
    if not isinstance(kind, type) or not (issubclass(kind, Enum) or is_dataclass(kind)):
        return None  # a protocol, perhaps, which nothing is an instance of
    if isinstance(value, kind):
        return None
    if issubclass(kind, Enum):
        return "one of " + ", ".join(f"{kind.__name__}.{one.name}" for one in kind)
    return f"{kind.__name__}(…)"
