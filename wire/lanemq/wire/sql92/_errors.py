"""Errors of expressions, before they run and while they run."""

from typing import final

from .._errors import ShownError


@final
class SqlInvalid(ShownError, ValueError):  # noqa: N818 - named for what is wrong
    """An expression is invalid. ``position`` counts characters of ``text`` from 0.

    ``tokens`` is the number of those that were read until then.
    """

    def __init__(self, reason: str, text: str, position: int, tokens: int = 0) -> None:
        super().__init__(f"{reason} at character {position + 1} of {text!r}")
        self.reason = reason
        self.text = text
        self.position = position
        self.tokens = tokens


@final
class EvaluationError(ShownError):
    """Values that cannot be compared, such as ``a > 5`` where a is not a number.

    A filter treats it as "not matched", as does ``Selector.matches``.
    """
