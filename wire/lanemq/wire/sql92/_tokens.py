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

TOKENS_MAX: Final = 4096
"""Tokens of an expression, by which it is measured: each takes some microseconds to read. The
reference has no limit."""

# The longest match wins, as in the reference: `5.` is one token and `007` are three. A line
# comment needs its line end; without one, `--5` is five.
_BLOCK_COMMENT: Final = r"/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/"
_SKIPPED: Final = re.compile(rf"(?:[ \t\n\r\f]|--[^\n\r]*[\n\r]|{_BLOCK_COMMENT})*")
# Behind the last line end nothing looks for another one at each `--`, which would take quadratic
# time.
_SKIPPED_IN_LAST_LINE: Final = re.compile(rf"(?:[ \t\n\r\f]|{_BLOCK_COMMENT})*")
_TOKEN_TEXT: Final = r"""
    [ \t\n\r\f]*+
    (?:
      (?P<NAME> [a-zA-Z_$][a-zA-Z0-9_$]* )
    | (?P<FLOAT> [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)?
               | [0-9]+[eE][+-]?[0-9]+ )
    | (?P<INTEGER> 0 | [1-9][0-9]*[lL]? )
    | (?P<TEXT> '(?:''|[^'])*' )
    | (?P<SYMBOL> <> | >= | <= | [=<>(),+]
    """
_TOKEN: Final = re.compile(_TOKEN_TEXT + r"| -(?!-) ) )", re.VERBOSE)
_TOKEN_IN_LAST_LINE: Final = re.compile(_TOKEN_TEXT + "| - ) )", re.VERBOSE)
_MINUS: Final = re.compile("(?P<SYMBOL>-)")  # in front of another one that begins no comment


class Token(NamedTuple):
    """A token: ``kind`` is FLOAT, INTEGER, TEXT, NAME, END, or the keyword or symbol itself."""

    kind: str
    text: str
    position: int


_NEW: Final = tuple.__new__  # in a third of the time that the class takes


@final
class Tokens:
    """The tokens of ``text``, read when they are asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._end = 0
        self._next: Token | None = None
        self._read_tokens = 0
        self._last_line_end = max(text.rfind("\n"), text.rfind("\r"))

    @property
    def count(self) -> int:
        """The number of tokens that were read."""
        return self._read_tokens

    def peek(self) -> Token:
        """Return the next token. Raises ``SqlInvalid`` if it is invalid, or one too many."""
        token = self._next
        if token is None:
            token = self._next = self._read()
        return token

    def take(self) -> Token:
        """Return the next token, which is read then."""
        token = self._next or self._read()
        self._next = None
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
        self._read_tokens += 1
        if self._read_tokens > TOKENS_MAX:
            raise SqlInvalid(f"more than {TOKENS_MAX} tokens", self.text, self._end)
        token = _TOKEN if self._end <= self._last_line_end else _TOKEN_IN_LAST_LINE
        match = token.match(self.text, self._end) or self._behind_comments()
        if match is None:
            return Token("END", "", self._end)
        self._end = end = match.end()
        kind = match.lastgroup
        assert kind is not None
        word = match[kind]
        at = end - len(word)
        if kind == "SYMBOL":
            kind = word
        elif kind == "NAME" and (upper := word.upper()) in KEYWORDS:
            kind = upper
        return _NEW(Token, (kind, word, at))

    def _behind_comments(self) -> re.Match[str] | None:
        """Pass over comments; return the token behind them, or None at the end of the text."""
        text = self.text
        skipped = _SKIPPED if self._end <= self._last_line_end else _SKIPPED_IN_LAST_LINE
        blanks = skipped.match(text, self._end)
        assert blanks is not None  # it matches nothing as well
        at = self._end = blanks.end()
        if at == len(text):
            return None
        match = _TOKEN.match(text, at) or _MINUS.match(text, at)
        if match is None:
            raise SqlInvalid(f"{text[at]!r} means nothing", text, at)
        return match
