"""The rules about keys: which of them decides about a key, and which keys of a span to ask about.

Of the rules that are about a key the nearest decides: the one that names it, else the longest
beginning of it. So the decisions about the keys of a span change only at rules: it is enough to
ask at each of those within it, and about the keys that none of these is about.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple, final

from lanemq.wire.kv import KeyRule, KeySpan, parse_rule, rule_name


def checked_resource(name: str) -> str:
    """Return the name of a topic or group, or the one name of keys of a namespace.

    Raises ``ValueError`` for keys that cannot be read.
    """
    named = parse_rule(name)
    return name if named is None else rule_name(*named)


@final
class Point(NamedTuple):
    """A key; or with ``is_prefix`` the keys that begin so and that no nearer rule is about."""

    key: bytes
    is_prefix: bool


@final
class KeyRules:
    """The rules about the keys of one namespace, as a whole or in part left away."""

    def __init__(self, rules: Iterable[KeyRule]) -> None:
        self._rules = sorted(set(rules))
        self._named = frozenset(self._rules)
        lengths = {len(rule.key) for rule in self._rules if rule.is_prefix}
        self._lengths = sorted(lengths, reverse=True)

    def about(self, point: Point) -> Iterator[KeyRule]:
        """Iterate over the rules that are about a point, the nearest first."""
        key, named = point.key, self._named
        exact = KeyRule(key, is_prefix=False)
        if not point.is_prefix and exact in named:
            yield exact
        for length in self._lengths:
            if length <= len(key) and (rule := KeyRule(key[:length], is_prefix=True)) in named:
                yield rule

    def points(self, span: KeySpan) -> Iterator[Point]:
        """Iterate over the points of a span: its sender may touch all of it if it may touch
        each."""
        begin, end = span.begin, span.end
        if end is not None and end <= begin + b"\0":  # one key; or none, which is not refused more
            yield Point(begin, is_prefix=False)
            return
        base = _common(begin, end)
        yield Point(base, is_prefix=True)
        # One that contains the whole span is no longer than its base; others begin within it, or
        # before, with the begin in it.
        for length in range(len(base) + 1, len(begin) + 1):
            if KeyRule(begin[:length], is_prefix=True) in self._named:
                yield Point(begin[:length], is_prefix=True)
        for rule in self._rules[bisect_left(self._rules, (begin, False)) :]:
            if end is not None and rule.key >= end:
                break
            yield Point(rule.key, rule.is_prefix)


def _common(begin: bytes, end: bytes | None) -> bytes:
    """Return the longest beginning of ``begin`` that all keys up to ``end`` have."""
    if end is None:
        return begin if not begin.strip(b"\xff") else b""
    size = next((n for n, (a, b) in enumerate(zip(begin, end, strict=False)) if a != b), None)
    if size is None:  # one begins with the other
        return begin
    if end != begin[:size] + bytes((begin[size] + 1,)):
        return begin[:size]
    rest = begin[size + 1 :]
    return begin[: len(begin) - len(rest.lstrip(b"\xff"))]
