"""Foreign text is shown in one line, commands no terminal, and has a bound."""

import json
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from lanemq.wire import Refused, RemoteProtocolError, show_bytes, show_json, show_text

ANY_TEXT = st.text(st.characters(exclude_categories=()))
"""Lone surrogates as well."""


def is_safe(character: str) -> bool:
    return unicodedata.category(character)[0] not in "C" and character not in "\u2028\u2029"


@given(ANY_TEXT)
@example("a\nb\r\x1b[2J\x9b31m\u202e\u2066\u2028\x85\ud800\U000e0041\x00\x7f")
def test_any_text_becomes_one_safe_line(text: str) -> None:
    shown = show_text(text)
    assert all(map(is_safe, shown))
    assert shown.splitlines() in ([], [shown])
    shown.encode()


@given(ANY_TEXT.filter(lambda text: all(map(is_safe, text))))
@example("Zürich, 東京　大阪, C:\\temp, {'a': \"b\"}")
def test_what_can_be_read_stays(text: str) -> None:
    assert show_text(text) == text


@given(ANY_TEXT, st.integers(1, 50))
def test_a_long_text_is_cut_and_says_so(text: str, limit: int) -> None:
    shown = show_text(text, limit)
    assert len(shown) <= limit * 10 + 40
    if len(text) > limit:
        assert f"… ({len(text) - limit} more characters) …" in shown


def test_half_a_megabyte_is_bounded() -> None:
    assert len(show_text("\n" * 500_000)) < 2_100
    assert len(show_bytes(b"\xff" * 500_000)) < 4_100


@given(st.binary(max_size=200))
def test_bytes_are_shown_as_text_where_they_are_text(data: bytes) -> None:
    shown = show_bytes(data)
    assert all(map(is_safe, shown))


def test_bytes_that_are_no_text_are_named() -> None:
    assert show_bytes("é\n".encode() + b"\xff\x00") == "é\\n\\xff\\x00"


@given(st.recursive(ANY_TEXT, lambda inner: st.dictionaries(ANY_TEXT, inner, max_size=3)))
def test_json_keeps_its_value_exactly(value: object) -> None:
    written = json.dumps(value, ensure_ascii=False, indent=2)
    shown = show_json(written)
    assert json.loads(shown) == json.loads(written)
    assert all(is_safe(one) or one == "\n" for one in shown)


def test_the_texts_of_errors_are_shown_and_their_attributes_are_exact() -> None:
    error = Refused(1, "no\n2026-11-27 INFO forged\x1b[2J")
    assert str(error) == "response code 1: no\\n2026-11-27 INFO forged\\x1b[2J"
    assert error.remark == "no\n2026-11-27 INFO forged\x1b[2J"
    assert len(str(RemoteProtocolError("x" * 500_000))) < 5_000
