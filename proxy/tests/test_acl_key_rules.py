"""The points of a span of keys: a sender that may touch each may touch every key of the span."""

from collections.abc import Iterable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lanemq.proxy.acl._key_rules import KeyRules, Point
from lanemq.wire.kv import KeyRule, KeySpan, after_key

keys = st.text(alphabet="ab\x00\xff", max_size=4).map(lambda text: text.encode("latin-1"))
rules = st.lists(st.builds(KeyRule, keys, st.booleans()), max_size=6)


def nearest(named: Iterable[KeyRule], key: bytes) -> KeyRule | None:
    """Return the rule about a key, found the long way."""
    about = [one for one in named if (key.startswith(one.key) if one.is_prefix else key == one.key)]
    return max(about, key=lambda one: (not one.is_prefix, len(one.key)), default=None)


def within(span: KeySpan) -> list[bytes]:
    """Return the keys of a span, of up to three bytes of those that the rules have, and more."""
    letters = [b"a", b"b", b"\x00", b"\xff", b"c"]
    found = [b""]
    for _ in range(4):
        found += [key + letter for key in found for letter in letters]
    return [key for key in set(found) if key >= span.begin and (not span.end or key < span.end)]


@given(named=rules, begin=keys, end=st.none() | keys)
@example(named=[KeyRule(b"ab", True)], begin=b"ab", end=b"ac")
@example(named=[KeyRule(b"a", True), KeyRule(b"b", True)], begin=b"aa", end=b"bb")
@example(named=[KeyRule(b"a\xff", True)], begin=b"a\xff", end=b"b")
@settings(max_examples=150, deadline=None)
def test_every_key_of_a_span_is_decided_as_one_of_its_points(
    named: list[KeyRule], begin: bytes, end: bytes | None
) -> None:
    span = KeySpan("n", begin, end if end != b"" else None)
    all_rules = KeyRules(named)
    decided = {next(all_rules.about(point), None) for point in all_rules.points(span)}
    for key in within(span):
        assert nearest(named, key) in decided


@given(named=rules, prefix=keys)
@settings(max_examples=150, deadline=None)
def test_a_prefix_needs_no_right_to_what_is_beside_it(named: list[KeyRule], prefix: bytes) -> None:
    span = KeySpan("n", prefix, after_key(prefix))
    points = list(KeyRules(named).points(span))
    assert all(point.key.startswith(prefix) for point in points)
    assert Point(prefix, is_prefix=True) in points


@given(named=rules, key=keys)
def test_one_key_is_one_point(named: list[KeyRule], key: bytes) -> None:
    all_rules = KeyRules(named)
    (point,) = all_rules.points(KeySpan("n", key, key + b"\0"))
    assert next(all_rules.about(point), None) == nearest(named, key)
