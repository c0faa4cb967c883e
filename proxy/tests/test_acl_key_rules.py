"""Decisions about spans of keys: a sender may touch a span that may touch each key of it."""

from collections.abc import Iterable, Mapping

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lanemq.proxy.acl._key_rules import Decision, KeyDecisions, KeyPermissions
from lanemq.wire.kv import KeyRule, KeySpan, after_key, any_key, one_key

keys = st.text(alphabet="ab\x00\xff", max_size=4).map(lambda text: text.encode("latin-1"))
rules = st.dictionaries(st.builds(KeyRule, keys, st.booleans()), st.booleans(), max_size=6)
decisions = st.sampled_from([True, False, None])
Rules = Mapping[KeyRule, bool]


def nearest(named: Iterable[KeyRule], key: bytes) -> KeyRule | None:
    """Return the rule about a key, found the long way."""
    about = [one for one in named if (key.startswith(one.key) if one.is_prefix else key == one.key)]
    return max(about, key=lambda one: (not one.is_prefix, len(one.key)), default=None)


def decided(layers: Iterable[tuple[Rules, Decision]], key: bytes) -> Decision:
    """Return the decision about a key, found the long way."""
    for named, otherwise in layers:
        rule = nearest(named, key)
        said = otherwise if rule is None else named[rule]
        if said is not None:
            return said
    return None


def places(named: Iterable[KeyRule]) -> list[bytes]:
    """Return the keys at which the decision may change, and such as lie between."""
    ends = (after_key(one.key) if one.is_prefix else one.key + b"\x00" for one in named)
    return sorted({b"", *(one.key for one in named), *(end for end in ends if end is not None)})


def within(span: KeySpan, named: Iterable[KeyRule]) -> list[bytes]:
    """Return the keys of a span, of up to four bytes of those that the rules have, and more."""
    found = [b""]
    for _ in range(4):
        found += [key + letter for key in found for letter in (b"a", b"b", b"\x00", b"\xff", b"c")]
    found += [span.begin, *places(named)]
    return sorted(k for k in set(found) if k >= span.begin and (not span.end or k < span.end))


A, B, AB, A_LAST = (KeyRule(key, is_prefix=True) for key in (b"a", b"b", b"ab", b"a\xff"))


@given(layers=st.lists(st.tuples(rules, decisions), max_size=2), begin=keys, end=keys)
@example(layers=[({AB: True}, None), ({}, False)], begin=b"ab", end=b"ac")
@example(layers=[({A: True, B: True}, None)], begin=b"aa", end=b"bb")
@example(layers=[({A_LAST: True}, False)], begin=b"a\xff", end=b"b")
@settings(max_examples=150, deadline=None)
def test_a_span_is_allowed_where_each_key_of_it_is(
    layers: list[tuple[Rules, Decision]], begin: bytes, end: bytes
) -> None:
    span, named = KeySpan("n", begin, end or None), [one for held, _ in layers for one in held]
    said = [decided(layers, key) for key in within(span, named)]
    of_all = KeyDecisions(layers)
    if said:
        assert of_all.about(span) is next((one for one in said if not one), True)
    every = {decided(layers, key) for key in within(KeySpan("n", b"", None), named)}
    some = True if True in every else False if False in every else None
    assert of_all.about(any_key("n")) is some


@given(named=rules, otherwise=decisions, prefix=keys)
@settings(max_examples=150, deadline=None)
def test_a_prefix_needs_no_right_to_what_is_beside_it(
    named: Rules, otherwise: Decision, prefix: bytes
) -> None:
    span = KeySpan("n", prefix, after_key(prefix))
    beside = {rule: held for rule, held in named.items() if rule.key.startswith(prefix)}
    around = nearest(set(named) - set(beside) - {KeyRule(prefix, is_prefix=True)}, prefix)
    said = otherwise if around is None else named[around]
    assert KeyDecisions([(named, otherwise)]).about(span) is KeyDecisions([(beside, said)]).about(
        span
    )


@given(named=rules, otherwise=decisions, key=keys)
def test_one_key_is_decided_by_the_nearest_rule(
    named: Rules, otherwise: Decision, key: bytes
) -> None:
    layers = [(named, otherwise)]
    assert KeyDecisions(layers).about(one_key("n", key)) is decided(layers, key)


class Counted(dict[KeyRule, int]):
    """Rules that count how often they are looked through."""

    looks = 0

    def items(self):  # type: ignore[no-untyped-def]  # noqa: ANN201
        Counted.looks += 1
        return super().items()


def test_rules_are_looked_through_once_for_each_permission_and_not_for_each_span() -> None:
    """A request may touch a thousand spans, each with a thousand rules in it."""
    permissions = KeyPermissions(
        Counted({KeyRule(f"k{n:03}".encode(), is_prefix=True): 1 + n % 2 * 2 for n in range(990)}),
        otherwise=3,
    )
    Counted.looks = 0
    for number in range(1000):
        last = f"k989{number:03}".encode()
        assert permissions.allow(KeySpan("n", b"k", last), 1)
        assert not permissions.allow(KeySpan("n", b"k", last), 2)
    assert Counted.looks == 2
