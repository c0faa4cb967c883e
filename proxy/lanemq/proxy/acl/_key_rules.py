"""The rules about keys: what they decide about one key, or about all keys from one to another.

Of the rules that are about a key the nearest decides: the one that names it, else the longest
beginning of it. So the decision changes only where the keys of a rule begin or end, and is the
same for all keys of the stretch between two such places. A span of keys is looked up among these,
however many there are: a request may have thousands.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cache
from typing import final

from lanemq.wire.kv import KeyRule, KeySpan, after_key, parse_rule, rule_name

Decision = bool | None
"""Allowed or denied; None where nothing decides."""


def checked_resource(name: str) -> str:
    """Return the name of a topic or group, or the one name of keys of a namespace.

    Raises ``ValueError`` for keys that cannot be read.
    """
    named = parse_rule(name)
    return name if named is None else rule_name(*named)


@final
class KeyDecisions:
    """The decisions about the keys of a namespace, by layers of rules: the first layer decides
    that has a decision. Each has the one about keys that none of its rules is about, too."""

    def __init__(self, layers: Iterable[tuple[Mapping[KeyRule, bool], Decision]]) -> None:
        changes = [_changes(rules, otherwise) for rules, otherwise in layers]
        self._begins = sorted({b"", *(begin for one in changes for begin in one)})
        said: list[Decision] = [None] * len(changes)
        self._decisions: list[Decision] = []
        for begin in self._begins:
            said = [one.get(begin, last) for one, last in zip(changes, said, strict=True)]
            self._decisions.append(next((one for one in said if one is not None), None))
        refused = len(self._begins)
        self._refused = [refused] * refused
        """For each stretch the first one, from it on, that is not allowed."""
        for index in reversed(range(len(self._begins))):
            refused = refused if self._decisions[index] else index
            self._refused[index] = refused

    def about(self, span: KeySpan) -> Decision:
        """Return whether all keys of a span are allowed, or with ``is_any`` some key; where they
        are not, the decision about the first that is not."""
        if span.is_any:
            found = set(self._decisions)
            return True if True in found else False if False in found else None
        first = bisect_right(self._begins, span.begin) - 1
        refused = self._refused[first]
        if refused == len(self._begins):
            return True
        if refused > first and span.end is not None and self._begins[refused] >= span.end:
            return True
        return self._decisions[refused]


@final
class KeyPermissions:
    """The permissions of an account for the keys of one namespace, as a whole or in part left
    away."""

    def __init__(self, rules: Mapping[KeyRule, int], otherwise: int) -> None:
        self._rules = rules
        self._otherwise = otherwise
        self._decisions = cache(self._decided)

    def allow(self, span: KeySpan, needed: int) -> bool:
        """Return whether a span may be used, for which one of the permissions is needed."""
        return bool(self._decisions(needed).about(span))

    def _decided(self, needed: int) -> KeyDecisions:
        rules = {rule: bool(held & needed) for rule, held in self._rules.items()}
        return KeyDecisions([(rules, bool(self._otherwise & needed))])


def _changes(rules: Mapping[KeyRule, bool], otherwise: Decision) -> dict[bytes, Decision]:
    """Return the keys from which on rules decide otherwise than before, with the decision."""
    changes: dict[bytes, Decision] = {b"": otherwise}
    around: list[tuple[bytes | None, bool]] = []
    """The rules about the keys at hand, the nearest last: where each ends, and its decision."""

    def close(key: bytes | None) -> None:
        while around and (end := around[-1][0]) is not None and (key is None or end <= key):
            around.pop()
            changes[end] = around[-1][1] if around else otherwise

    # A beginning stands before what is within it, so before a rule that names it as a key.
    for rule in sorted(rules, key=lambda one: (one.key, not one.is_prefix)):
        close(rule.key)
        around.append((after_key(rule.key) if rule.is_prefix else rule.key + b"\0", rules[rule]))
        changes[rule.key] = rules[rule]
    close(None)
    return changes
