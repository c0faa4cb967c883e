"""The nodes of an expression. Each node evaluates itself.

Logic has three values: true, false, and None for unknown, which is what a property that is
missing gives. Any error in a part that is evaluated is an error of the whole.

Source: RocketMQ 4.9.8, LogicExpression, ComparisonExpression, UnaryExpression,
UnaryInExpression; 5.3.3, ComparisonExpression for CONTAINS, STARTSWITH and ENDSWITH.
"""

from collections.abc import Callable
from typing import TypeAlias, final

import msgspec

from ._values import Value, compare, compare_doubles, double

Lookup: TypeAlias = Callable[[str], str | None]
"""Gives the property of a name, or None if the message has none."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """A part of an expression.

    The garbage collector passes over nodes, which make no circles: consumers may have hundreds of
    thousands in waiting pulls, and a full collection looks at all objects in one turn.
    """

    def evaluate(self, lookup: Lookup) -> Value:
        """Return its value for one message. Raises ``EvaluationError``."""
        raise AssertionError("every kind of node has its own")


def truth(node: Node, lookup: Lookup) -> bool | None:
    """Return the value of a node that is boolean."""
    value = node.evaluate(lookup)
    assert value is None or isinstance(value, bool)
    return value


@final
class Constant(Node, frozen=True, gc=False):
    """A literal."""

    value: Value

    def evaluate(self, lookup: Lookup) -> Value:
        return self.value


@final
class Named(Node, frozen=True, gc=False):
    """The property of a name; case counts."""

    name: str

    def evaluate(self, lookup: Lookup) -> Value:
        return lookup(self.name)


@final
class Cast(Node, frozen=True, gc=False):
    """A property where a condition is due: false, since a text is not a boolean, or unknown."""

    operand: Node

    def evaluate(self, lookup: Lookup) -> Value:
        value = self.operand.evaluate(lookup)
        return None if value is None else value is True


@final
class Negative(Node, frozen=True, gc=False):
    """Minus a number; of anything else, unknown."""

    operand: Node

    def evaluate(self, lookup: Lookup) -> Value:
        value = self.operand.evaluate(lookup)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value
        return None


@final
class Not(Node, frozen=True, gc=False):
    operand: Node

    def evaluate(self, lookup: Lookup) -> Value:
        value = truth(self.operand, lookup)
        return None if value is None else not value


@final
class And(Node, frozen=True, gc=False):
    """False as soon as one operand is; the rest is not looked at then."""

    operands: tuple[Node, ...]

    def evaluate(self, lookup: Lookup) -> Value:
        result: bool | None = True
        for operand in self.operands:
            value = truth(operand, lookup)
            if value is False:
                return False
            if value is None:
                result = None
        return result


@final
class Or(Node, frozen=True, gc=False):
    """True as soon as one operand is; the rest is not looked at then."""

    operands: tuple[Node, ...]

    def evaluate(self, lookup: Lookup) -> Value:
        result: bool | None = False
        for operand in self.operands:
            value = truth(operand, lookup)
            if value is True:
                return True
            if value is None:
                result = None
        return result


@final
class Equal(Node, frozen=True, gc=False):
    """``=``. Unknown sides are treated unalike, as the reference does it.

    Unknown = x is unknown, x = unknown is false, and two unknowns are equal.
    """

    left: Node
    right: Node

    def evaluate(self, lookup: Lookup) -> Value:
        left, right = self.left.evaluate(lookup), self.right.evaluate(lookup)
        if right is None:
            return left is None
        if left is None:
            return None
        return compare(left, right) == 0


@final
class IsNull(Node, frozen=True, gc=False):
    """``IS NULL``: true where a value is unknown, else false; never unknown itself."""

    operand: Node

    def evaluate(self, lookup: Lookup) -> Value:
        return self.operand.evaluate(lookup) is None


@final
class Ordered(Node, frozen=True, gc=False):
    """``<``, ``<=``, ``>`` or ``>=``: whether ``test`` holds for the comparison's sign.

    Two texts are compared as numbers, and are an error if they are not numbers.
    """

    left: Node
    right: Node
    test: Callable[[int], bool]

    def evaluate(self, lookup: Lookup) -> Value:
        left = self.left.evaluate(lookup)
        if left is None:
            return None
        right = self.right.evaluate(lookup)
        if right is None:
            return None
        if isinstance(left, str) and isinstance(right, str):
            return self.test(compare_doubles(double(left), double(right)))
        return self.test(compare(left, right))


@final
class OneOf(Node, frozen=True, gc=False):
    """``IN`` and ``NOT IN`` (``wanted`` False)."""

    operand: Node
    texts: frozenset[str]
    wanted: bool

    def evaluate(self, lookup: Lookup) -> Value:
        value = self.operand.evaluate(lookup)
        return None if value is None else (value in self.texts) is self.wanted


@final
class Holds(Node, frozen=True, gc=False):
    """``CONTAINS``, ``STARTSWITH``, ``ENDSWITH`` and their ``NOT``: never unknown.

    Nothing contains the empty text, nor lacks it; a missing property neither.
    """

    operand: Node
    search: str
    test: Callable[[str, str], bool]
    wanted: bool

    def evaluate(self, lookup: Lookup) -> Value:
        if not self.search:  # before anything can go wrong
            return False
        value = self.operand.evaluate(lookup)
        if not isinstance(value, str):
            return False
        return self.test(value, self.search) is self.wanted


def is_boolean(node: Node) -> bool:
    """Return True for a node that can only be true, false or unknown."""
    if isinstance(node, Constant):
        return node.value is None or isinstance(node.value, bool)
    return not isinstance(node, Named | Negative)
