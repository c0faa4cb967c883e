"""The tokenizer: one token at a time; the text after an expression is never read.

Source: RocketMQ 5.3.3, SelectorParser.jj; 4.9.8 lacks CONTAINS, STARTSWITH and ENDSWITH.
"""

import re
from typing import Final, NamedTuple, final

from ._errors import SqlInvalid

KEYWORDS: Final = frozenset(
    # As a text they fit into a line.
    "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH".split()  # noqa: SIM905
)

# The longest match wins, as in the reference: `5.` is one token and `007` are three. A line
# comment needs its line end; without one, `--5` is five.
_SKIPPED: Final = re.compile(
    r"(?:[ \t\n\r\f]|--[^\n\r]*[\n\r]|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)*",
)
_TOKEN: Final = re.compile(
    r"""
      (?P<FLOAT> [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)?
               | [0-9]+[eE][+-]?[0-9]+ )
    | (?P<INTEGER> 0 | [1-9][0-9]*[lL]? )
    | (?P<TEXT> '(?:''|[^'])*' )
    | (?P<NAME> [a-zA-Z_$][a-zA-Z0-9_$]* )
    | (?P<SYMBOL> <> | >= | <= | [=<>(),+-] )
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """A token: ``kind`` is FLOAT, INTEGER, TEXT, NAME, END, or the keyword or symbol itself."""

    kind: str
    text: str
    position: int


@final
class Tokens:
    """The tokens of ``text``, read when they are asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._end = 0
        self._ahead: list[Token] = []

    def peek(self, distance: int = 0) -> Token:
        """Return the next token (or one further ahead). Raises ``SqlInvalid`` if it is invalid."""
        while len(self._ahead) <= distance:
            self._ahead.append(self._read())
        return self._ahead[distance]

    def take(self) -> Token:
        """Return the next token, which is read then."""
        token = self.peek()
        del self._ahead[0]
        return token

    def expect(self, kind: str) -> Token:
        """Return the next token, which must be ``kind``."""
        token = self.take()
        if token.kind != kind:
            raise self.unexpected(token, f"expected {kind}")
        return token

    def unexpected(self, token: Token, wish: str) -> SqlInvalid:
        """Return the error for a token that has no place here."""
        found = "the end" if token.kind == "END" else repr(token.text)
        return SqlInvalid(f"{wish}, found {found}", self.text, token.position)

    def _read(self) -> Token:
        text = self.text
        skipped = _SKIPPED.match(text, self._end)
        assert skipped is not None  # it matches nothing as well
        at = skipped.end()
        if at == len(text):
            self._end = at
            return Token("END", "", at)
        match = _TOKEN.match(text, at)
        if match is None:
            raise SqlInvalid(f"{text[at]!r} means nothing", text, at)
        self._end = match.end()
        kind, word = match.lastgroup, match.group()
        assert kind is not None
        if kind == "SYMBOL":
            kind = word
        elif kind == "NAME" and word.upper() in KEYWORDS:
            kind = word.upper()
        return Token(kind, word, at)
