"""Checks of single numbers; each error names the value, and says what it has to be."""

import math

from ._errors import WrongValue


def check_seconds(
    name: str,
    value: object,
    *,
    zero: bool = False,
    most_s: float = math.inf,
    error: type[ValueError] = WrongValue,
) -> None:
    """Raise ``error`` unless ``value`` is above 0, or 0 where ``zero``, and at most ``most_s``."""
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
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
    if not isinstance(value, int) or isinstance(value, bool):
        raise error(f"{name} must be a whole number, not {value!r}")
    if value < least or (most is not None and value > most):
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name} must be {allowed}, not {value}")
