"""A compiled expression, which selects messages by their properties."""

from collections.abc import Mapping
from typing import final

from ..message._properties import get_property
from ._errors import EvaluationError
from ._nodes import Node, truth
from ._parser import Parser


@final
class Selector:
    """A filter; made by ``compile_sql``. It keeps no state, any number may use it at once."""

    __slots__ = ("_node", "text")

    def __init__(self, text: str, node: Node) -> None:
        self.text = text
        """The expression as it was written."""
        self._node = node

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """Return True, False, or None for unknown. Raises ``EvaluationError``."""
        return truth(self._node, properties.get)

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Return True if a message with ``properties`` is wanted; unknown and errors mean no."""
        try:
            return truth(self._node, properties.get) is True
        except EvaluationError:
            return False

    def matches_data(self, properties_data: bytes) -> bool:
        """Return what ``matches`` does, given a property string as messages carry it.

        It reads the properties that the expression names and passes over the others.
        """

        def lookup(name: str) -> str | None:
            value = get_property(properties_data, name.encode())
            return None if value is None else value.decode("utf-8", "replace")

        try:
            return truth(self._node, lookup) is True
        except EvaluationError:
            return False

    def __repr__(self) -> str:
        return f"<Selector {self.text!r}>"


def compile_sql(text: str, *, strict: bool = False) -> Selector:
    """Return the filter that ``text`` describes. Raises ``SqlInvalid``.

    The reference ignores what follows a complete expression, and so must a broker that is to
    filter as it does. With ``strict`` anything that follows is an error: that is for authors
    of expressions.
    """
    return Selector(text, Parser(text).selector(strict=strict))
