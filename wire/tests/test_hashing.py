"""Java's string hash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import java_hash, tags_code

ANY_TEXT = st.text(st.characters())  # surrogates too


def naive(text: str) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    total = 0
    for high, low in zip(data[::2], data[1::2], strict=True):
        total = (31 * total + (high << 8) + low) & 0xFFFFFFFF
    return total - (1 << 32) if total >> 31 else total


@given(ANY_TEXT)
def test_the_hash_is_the_one_of_the_plain_loop(text: str) -> None:
    assert java_hash(text) == naive(text)


@given(ANY_TEXT, st.integers(1, 60))
def test_long_texts_too(text: str, times: int) -> None:
    assert java_hash(text * times) == naive(text * times)


@given(st.text("0123456789ABCDEF", min_size=32, max_size=32), st.text(max_size=127))
def test_index_keys_too(unique_key: str, topic: str) -> None:
    key = f"{topic}#{unique_key}"
    assert java_hash(key) == java_hash(key) == naive(key)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("T", 84),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("polygenelubricants", -2147483648),
        ("\U0001f600", 1772899),
    ],
)
def test_known_hashes(text: str, code: int) -> None:
    assert java_hash(text) == code


@pytest.mark.parametrize(("tags", "code"), [(None, 0), ("", 0), ("T", 84), ("TagA", 2598919)])
def test_a_message_without_tags_has_code_0(tags: str | None, code: int) -> None:
    assert tags_code(tags) == code
