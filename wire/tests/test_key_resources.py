"""Names of keys as resources: what is written is read again, and nothing else is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire.kv import KeyRule, KeySpan, parse_rule, parse_span, rule_name, span_text

WORDS = re.compile(r"\\\\|\\x[0-9a-fA-F]{2}|[^\\]")
keys = st.binary(max_size=6) | st.text("\\x4a* \n", max_size=8).map(str.encode)


def read(text: str) -> bytes | None:
    """Return the key that a text is, word by word; None for one that is none."""
    found, place = b"", 0
    while place < len(text):
        word = WORDS.match(text, place)
        if word is None:
            return None
        one, place = word[0], word.end()
        escaped = b"\\" if one == "\\\\" else bytes((int(one[2:], 16),)) if one[1:] else b""
        found += escaped or one.encode()
    return found


@given(key=keys, is_prefix=st.booleans())
def test_a_rule_is_read_as_it_is_written(key: bytes, is_prefix: bool) -> None:
    rule = KeyRule(key or b"k", is_prefix)
    assert parse_rule(rule_name("n", rule)) == ("n", rule)


@given(begin=keys, end=st.none() | keys, is_any=st.booleans())
def test_a_span_is_read_as_it_is_written(begin: bytes, end: bytes | None, is_any: bool) -> None:
    span = KeySpan("n", b"", None, is_any=True) if is_any else KeySpan("n", begin, end or None)
    assert parse_span(span_text(span)) == span


@given(st.text("\\x4aAé/\n", max_size=8))
def test_a_backslash_means_itself_or_a_byte_and_nothing_else(text: str) -> None:
    span, key = parse_span(f"%KV%n/{text}"), read(text)
    assert span == (None if key is None else KeySpan("n", key, key + b"\0"))
    if key is None:
        with pytest.raises(ValueError, match="backslash"):
            parse_rule(f"%KV%n/{text}")
