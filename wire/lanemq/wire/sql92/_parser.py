"""The parser: tokens to nodes by recursive descent, one method for each rule of the grammar.

::

    selector   = or, and then whatever follows
    or         = and {OR and}
    and        = equality {AND equality}
    equality   = comparison {("=" | "<>") comparison | IS [NOT] NULL}
    comparison = unary {("<" | "<=" | ">" | ">=") unary | [NOT] BETWEEN unary AND unary
                       | [NOT] IN "(" text {"," text} ")"
                       | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) text}
    unary      = "+" unary | "-" unary | NOT unary | primary
    primary    = text | number | TRUE | FALSE | NULL | name | "(" or ")"

NOT binds more tightly than a comparison. Source: RocketMQ 5.3.3, SelectorParser.jj.
"""

from collections.abc import Callable
from math import inf
from typing import Final, final

from ._errors import EvaluationError, SqlInvalid
from ._nodes import (
    And,
    Cast,
    Constant,
    Equal,
    Holds,
    IsNull,
    Named,
    Negative,
    Node,
    Not,
    OneOf,
    Or,
    Ordered,
    is_boolean,
)
from ._tokens import Token, Tokens
from ._values import INT_MAX, LONG_MAX, Long, compare

TEXT_MAX: Final = 1 << 16
"""Characters of an expression. The reference knows no limit but its memory."""
NESTING_MAX: Final = 40
"""Parentheses and signs around one thing; the reference ends where its stack does."""
CHAIN_MAX: Final = 3
"""Comparisons in a row, each of the result of the one before: ``a = b = TRUE`` has two."""
CONTAINS_MAX: Final = 50
"""Searches by CONTAINS in an expression: each may look through all properties of a message."""

ORDERS: Final[dict[str, Callable[[int], bool]]] = {
    "<": (0).__gt__,
    "<=": (0).__ge__,
    ">": (0).__lt__,
    ">=": (0).__le__,
}
SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
NEGATABLE: Final = frozenset({"BETWEEN", "IN", *SEARCHES})
PREFIXES: Final = frozenset({"+", "-", "NOT", "("})
DIGITS_MAX: Final = len(str(LONG_MAX))


@final
class Parser:
    """Reads one expression. Every method may raise ``SqlInvalid``."""

    def __init__(self, text: str) -> None:
        if len(text) > TEXT_MAX:
            raise SqlInvalid(f"longer than {TEXT_MAX} characters", text[:40] + "...", TEXT_MAX)
        self._tokens = Tokens(text)
        self._nesting = 0
        self._searches = 0

    @property
    def tokens(self) -> int:
        """The number of tokens that were read."""
        return self._tokens.count

    def selector(self, *, strict: bool) -> Node:
        """Return the whole expression.

        The reference ignores what follows a complete one: ``a > 5 LIMIT 3`` is ``a > 5``, and
        ``a = 007`` is ``a = 0``. With ``strict`` that is an error.
        """
        node = self._boolean(self._or(), self._tokens.peek())
        if strict and (rest := self._tokens.peek()).kind != "END":
            comment = self._tokens.text[rest.position :]
            if not comment.startswith("--") or "\n" in comment or "\r" in comment:
                raise self._tokens.unexpected(rest, "expected AND, OR or the end")
        return node

    def _boolean(self, node: Node, token: Token) -> Node:
        if is_boolean(node):
            return node
        if isinstance(node, Named):
            return Cast(node)
        raise self._invalid("what comes before is not a condition", token)

    def _invalid(self, reason: str, token: Token) -> SqlInvalid:
        return SqlInvalid(reason, self._tokens.text, token.position)

    def _or(self) -> Node:
        return self._joined("OR", self._and, Or)

    def _and(self) -> Node:
        return self._joined("AND", self._equality, And)

    def _joined(
        self, word: str, part: Callable[[], Node], join: Callable[[tuple[Node, ...]], Node]
    ) -> Node:
        node = part()
        token = self._tokens.peek()
        if token.kind != word:
            return node
        nodes = [self._boolean(node, token)]
        while self._tokens.peek().kind == word:
            token = self._tokens.take()
            nodes.append(self._boolean(part(), token))
        return join(tuple(nodes))

    def _equality(self) -> Node:
        node = self._comparison()
        for _ in range(CHAIN_MAX + 1):
            token = self._tokens.peek()
            if token.kind in ("=", "<>"):
                self._tokens.take()
                equal = self._equal(node, self._comparison(), token)
                node = equal if token.kind == "=" else Not(equal)
            elif token.kind == "IS":
                self._tokens.take()
                negated = self._tokens.peek().kind == "NOT"
                if negated:
                    self._tokens.take()
                self._tokens.expect("NULL")
                node = Not(IsNull(node)) if negated else IsNull(node)
            else:
                return node
        raise self._invalid(f"more than {CHAIN_MAX} comparisons in a row", token)

    def _equal(self, left: Node, right: Node, token: Token) -> Node:
        for side in (left, right):
            if isinstance(side, Constant) and side.value is None:
                raise self._invalid("NULL equals nothing, use IS NULL,", token)
        if (
            isinstance(left, Constant)
            and isinstance(right, Constant)
            and is_boolean(left)
            and not is_boolean(right)
        ):
            raise self._invalid("a boolean cannot equal a number or a text", token)
        return Equal(left, right)

    def _comparison(self) -> Node:
        node = self._unary()
        for _ in range(CHAIN_MAX + 1):
            token = self._tokens.peek()
            if token.kind in ORDERS:
                self._tokens.take()
                node = self._ordered(node, self._unary(), token)
            elif token.kind in NEGATABLE or token.kind == "NOT":
                wanted = token.kind != "NOT"
                if not wanted:
                    self._tokens.take()
                    token = self._tokens.peek()
                    if token.kind not in NEGATABLE:
                        raise self._tokens.unexpected(
                            token, "expected BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH"
                        )
                self._tokens.take()
                node = self._tested(node, token, wanted)
            else:
                return node
        raise self._invalid(f"more than {CHAIN_MAX} comparisons in a row", token)

    def _ordered(self, left: Node, right: Node, token: Token, kind: str | None = None) -> Node:
        for side in (left, right):
            if is_boolean(side) or (isinstance(side, Constant) and isinstance(side.value, str)):
                raise self._invalid("only numbers and properties have an order,", token)
        return Ordered(left, right, ORDERS[kind or token.kind])

    def _tested(self, node: Node, token: Token, wanted: bool) -> Node:
        if token.kind == "BETWEEN":
            low = self._unary()
            self._tokens.expect("AND")
            return self._between(node, low, self._unary(), token, wanted)
        if token.kind == "IN":
            if not isinstance(node, Named):
                raise self._invalid("only a property can be IN a list,", token)
            self._tokens.expect("(")
            texts = [self._text()]
            while self._tokens.peek().kind == ",":
                self._tokens.take()
                texts.append(self._text())
            self._tokens.expect(")")
            return OneOf(node, frozenset(texts), wanted)
        if token.kind == "CONTAINS":
            self._searches += 1
            if self._searches > CONTAINS_MAX:
                raise self._invalid(f"more than {CONTAINS_MAX} searches by CONTAINS", token)
        return Holds(node, self._text(), SEARCHES[token.kind], wanted)

    def _between(self, node: Node, low: Node, high: Node, token: Token, wanted: bool) -> Node:
        if not wanted:
            return Or((self._ordered(node, low, token, "<"), self._ordered(node, high, token, ">")))
        if isinstance(low, Constant) and isinstance(high, Constant):
            if low.value is None or high.value is None:
                raise self._invalid("NULL is not a bound", token)
            try:
                empty = compare(high.value, low.value) < 0
            except EvaluationError as error:
                raise self._invalid(str(error), token) from error
            if empty:
                raise self._invalid("the lower bound is above the upper one", token)
        return And((self._ordered(node, low, token, ">="), self._ordered(node, high, token, "<=")))

    def _unary(self) -> Node:
        token = self._tokens.peek()
        if token.kind not in PREFIXES:
            return self._primary()
        self._tokens.take()
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise self._invalid(f"nested more than {NESTING_MAX} deep", token)
        if token.kind == "(":
            node = self._or()
            self._tokens.expect(")")
        else:
            node = self._unary()
        self._nesting -= 1
        if token.kind == "-":
            return Negative(node)
        return Not(self._boolean(node, token)) if token.kind == "NOT" else node

    def _primary(self) -> Node:
        token = self._tokens.take()
        match token.kind:  # what is most often there comes first
            case "NAME":
                return Named(token.text)
            case "TEXT":
                return Constant(_unquoted(token.text))
            case "INTEGER":
                return Constant(self._whole(token))
            case "FLOAT":
                return Constant(self._float(token))
            case "TRUE":
                return Constant(True)
            case "FALSE":
                return Constant(False)
            case "NULL":
                return Constant(None)
        raise self._tokens.unexpected(token, "expected a property, a value, NOT or (")

    def _text(self) -> str:
        return _unquoted(self._tokens.expect("TEXT").text)

    def _whole(self, token: Token) -> int:
        digits = token.text.rstrip("lL")
        if len(digits) > DIGITS_MAX or (number := int(digits)) > LONG_MAX:
            raise self._invalid("a whole number has 64 bits, this one more,", token)
        return number if number <= INT_MAX else Long(number)

    def _float(self, token: Token) -> float:
        number = float(token.text)
        if number == inf or number == 0:  # the reference takes no 0.0 either
            raise self._invalid("this number is too large or too small", token)
        return number


def _unquoted(image: str) -> str:
    return image[1:-1].replace("''", "'")
