"""A compiled expression, which selects messages by their properties."""

from collections.abc import Mapping
from typing import Final, final

from ..message._properties import decode_properties, get_property
from ._errors import EvaluationError, SqlInvalid
from ._nodes import Node, truth
from ._parser import Parser

SEARCHES_MAX: Final = 8
"""Properties that are searched for one by one. An expression of more has all of them read, so that
the time does not grow with both."""


@final
class Selector:
    """A filter; made by ``compile_sql``. It keeps no state, any number may use it at once."""

    __slots__ = ("_node", "text", "tokens")

    def __init__(self, text: str, node: Node, tokens: int) -> None:
        self.text = text
        """The expression as it was written."""
        self.tokens = tokens
        """The number of its tokens, which its compilation cost."""
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

        It reads the properties that the expression names and passes over the others, unless it
        names many.
        """

        known: dict[str, str | None] = {}
        rest: dict[str, str] | None = None

        def lookup(name: str) -> str | None:
            nonlocal rest
            if name not in known:
                if rest is None and len(known) >= SEARCHES_MAX:
                    rest = decode_properties(properties_data)
                if rest is not None:
                    return rest.get(name)
                value = get_property(properties_data, name.encode())
                known[name] = None if value is None else value.decode("utf-8", "replace")
            return known[name]

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
    parser = Parser(text)
    try:
        node = parser.selector(strict=strict)
    except SqlInvalid as error:
        error.tokens = parser.tokens
        raise
    return Selector(text, node, parser.tokens)
