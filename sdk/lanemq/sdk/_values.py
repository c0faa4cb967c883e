"""Checks of single values; each error names the value, and says what it has to be."""

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from numbers import Integral, Real
from typing import Any, TypeGuard, get_args, get_origin

from ._errors import WrongValue


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


def check_fields(
    owner: Any,  # noqa: ANN401 - a dataclass of any kind
    *,
    positive: tuple[str, ...] = (),
    not_negative: tuple[str, ...] = (),
) -> None:
    """Raise ``WrongValue`` unless the fields of a dataclass hold what their types say.

    Looked at are numbers, members of enums, functions, and dataclasses.
    """
    for field in fields(owner):
        value = getattr(owner, field.name)
        kinds = get_args(field.type) if type(None) in get_args(field.type) else (field.type,)
        if value is None and len(kinds) > 1:
            continue
        wanted = _wanted(kinds[0], value)
        if wanted is None and field.name in positive and not value > 0:
            wanted = "positive"
        if wanted is None and field.name in not_negative and not value >= 0:
            wanted = "at least 0"
        if wanted is not None:
            name = f"{type(owner).__name__}.{field.name}"
            raise WrongValue(f"{name} must be {wanted}, not {value!r}")


def _wanted(kind: Any, value: object) -> str | None:  # noqa: ANN401 - types are of any type
    """Return in words what ``value`` should be but is not, or None."""
    if kind is int:
        return None if is_whole(value) else "a whole number"
    if kind is float:
        return None if is_number(value) else "a number"
    if get_origin(kind) is Callable:
        return None if callable(value) else "a function"
    if not isinstance(kind, type) or not (issubclass(kind, Enum) or is_dataclass(kind)):
        return None  # a protocol, perhaps, which nothing is an instance of
    if isinstance(value, kind):
        return None
    if issubclass(kind, Enum):
        return "one of " + ", ".join(f"{kind.__name__}.{one.name}" for one in kind)
    return f"{kind.__name__}(…)"
