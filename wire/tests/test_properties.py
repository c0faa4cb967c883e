"""The property string."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lanemq.wire import LocalProtocolError
from lanemq.wire.message import (
    decode_properties,
    encode_properties,
    get_property,
    remove_property,
    set_property,
)

PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1)
PROPERTIES = st.dictionaries(PLAIN, PLAIN)
# Strings such as a peer may send: mostly separators.
RAW = st.lists(st.sampled_from([b"\x01", b"\x02", b"a", b"ab", b"TAGS", b"\xff"])).map(b"".join)


@given(PROPERTIES)
def test_properties_come_back_in_order(properties: dict[str, str]) -> None:
    data = encode_properties(properties)
    assert list(decode_properties(data).items()) == list(properties.items())
    assert decode_properties(data.decode()) == properties
    assert decode_properties(data.removesuffix(b"\x02")) == properties
    assert data == b"" or data.endswith(b"\x02")


@given(RAW)
@example(b"a\x01b\x02a\x01\x02")
@example(b"aa\x01b")
@example(b"ab\x01x\x02b\x01y")
def test_the_scan_finds_what_the_table_holds(data: bytes) -> None:
    properties = decode_properties(data)
    for name in (b"a", b"ab", b"TAGS", b"b", b"aa"):
        value = get_property(data, name)
        shown = None if value is None else value.decode("utf-8", "replace")
        assert shown == properties.get(name.decode())


@given(st.binary())
def test_garbage_is_skipped(data: bytes) -> None:
    decode_properties(data)
    get_property(data, b"TAGS")


@given(st.dictionaries(st.text(st.characters()), st.text(st.characters())))
def test_what_cannot_be_said_is_refused(properties: dict[str, str]) -> None:
    with suppress(LocalProtocolError):
        data = encode_properties(properties)
        assert decode_properties(data) == {k: v for k, v in properties.items() if v}


@pytest.mark.parametrize(
    "properties",
    [
        {"a\x01": "b"},
        {"a": "b\x02"},
        {"a": "\x01"},
        {"": "b"},
        {"a": "b", "": "c"},
        {"0": "", "\x020": "\x01"},  # a pair is left out, and separators make up for its own
        {"a": "\ud800"},
    ],
)
def test_separators_and_empty_names_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_properties(properties)


def test_an_empty_value_is_left_out() -> None:
    assert encode_properties({"a": "", "b": "1"}) == b"b\x011\x02"


def test_the_last_of_equal_names_wins() -> None:
    assert decode_properties("a\x011\x02a\x012\x02") == {"a": "2"}
    assert get_property(b"a\x011\x02a\x012\x02", b"a") == b"2"


@given(PROPERTIES, PLAIN, PLAIN)
def test_setting_and_removing_touch_one_name_only(
    properties: dict[str, str], name: str, value: str
) -> None:
    data = encode_properties(properties)
    changed = set_property(data, name.encode(), value.encode())
    assert decode_properties(changed) == properties | {name: value}
    expected = {key: kept for key, kept in properties.items() if key != name}
    assert decode_properties(remove_property(changed, name.encode())) == expected


def test_setting_mends_a_missing_end() -> None:
    assert set_property(b"a\x011", b"b", b"2") == b"a\x011\x02b\x012\x02"
