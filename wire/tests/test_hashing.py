"""Java's string hash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import index_key_hash, java_hash, tags_code

LEAST = "key-of-this-4lu3enu"
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


UNIQUE_KEYS = st.text("0123456789ABCDEF", min_size=32, max_size=32).map(str.encode)


@given(
    UNIQUE_KEYS | st.text(st.characters(codec="ascii")).map(str.encode) | st.binary(),
    st.text(max_size=127),
)
def test_the_hash_of_an_index_key_is_that_of_topic_and_key(key: bytes, topic: str) -> None:
    text = f"{topic}#{key.decode('utf-8', 'replace')}"
    expected = abs(naive(text)) if naive(text) != -(1 << 31) else 0
    assert index_key_hash(topic, key) == index_key_hash(topic, key) == expected


def test_an_index_key_whose_hash_has_no_absolute_value_has_0() -> None:
    assert naive("T#" + LEAST) == -(1 << 31)
    assert index_key_hash("T", LEAST.encode()) == 0


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
