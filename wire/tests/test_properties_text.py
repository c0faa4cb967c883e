"""Configuration as text."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import RemoteProtocolError, decode_properties_text, encode_properties_text

TEXT = st.text(
    st.one_of(st.sampled_from(" \t\f\r\n\\=:#!u"), st.characters(exclude_categories=["Cs"]))
)


@given(st.dictionaries(TEXT, TEXT))
def test_properties_come_back(properties: dict[str, str]) -> None:
    data = encode_properties_text(properties)
    assert list(decode_properties_text(data).items()) == list(properties.items())
    assert decode_properties_text(data.decode()) == properties


@given(st.binary(), TEXT)
def test_garbage_is_only_ever_a_remote_protocol_error(data: bytes, text: str) -> None:
    for one in (data, text):
        with suppress(RemoteProtocolError):
            decode_properties_text(one)


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("a=b\n", {"a": "b"}),
        ("a=b\r\nc=d", {"a": "b", "c": "d"}),
        ("  a = b c \n", {"a": "b c "}),
        ("a:b\nc d\ne", {"a": "b", "c": "d", "e": ""}),
        ("# no\n ! no\n\na=1", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("delay=1s 5s \\\n   10s\n", {"delay": "1s 5s 10s"}),
        ("a=b\\\n#c\n", {"a": "b#c"}),
        ("path=C:\\\\x\\ty", {"path": "C:\\x\ty"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\u00e9\\uD83D\\uDE00", {"a": "é😀"}),
        ("a==b", {"a": "=b"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_texts_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert decode_properties_text(text) == properties
    assert decode_properties_text(text.encode()) == properties


def test_ordinary_pairs_are_written_raw() -> None:
    text = encode_properties_text({"brokerName": "b", "delay": "1s 5s", "url": "a=b:c"})
    assert text == b"brokerName=b\ndelay=1s 5s\nurl=a=b:c\n"


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uxyzw", "a=\\u +12"])
def test_a_broken_escape_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_properties_text(text)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="UTF-8"):
        decode_properties_text(b"a=\xff")
