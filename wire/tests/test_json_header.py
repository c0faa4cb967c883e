"""JSON headers: what is written always, what is accepted from others."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import LocalProtocolError, RemoteProtocolError
from lanemq.wire.frame import Frame, decode_frame, encode_frame, request

INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(codec="utf-8"))
FRAMES = st.builds(
    Frame,
    code=INT32,
    opaque=INT32,
    flag=INT32,
    fields=st.dictionaries(TEXT, TEXT),
    body=st.binary(),
    remark=st.none() | TEXT,
    language=st.text(st.characters(codec="utf-8"), max_size=32),
    version=INT32,
)


def frame_of(header: bytes, body: bytes = b"") -> Frame:
    return decode_frame(len(header).to_bytes(4) + header + body)


@given(FRAMES)
def test_what_is_written_is_read_back(frame: Frame) -> None:
    assert decode_frame(encode_frame(frame)[4:]) == frame


@given(FRAMES)
def test_ext_field_values_leave_as_json_strings(frame: Frame) -> None:
    data = encode_frame(frame)
    header = json.loads(data[8 : 8 + int.from_bytes(data[5:8])])
    assert all(isinstance(value, str) for value in header["extFields"].values())


def test_a_value_that_is_not_text_does_not_leave() -> None:
    frame = request(34, {"queueId": 3})  # type: ignore[dict-item]
    with pytest.raises(LocalProtocolError, match="code 34"):
        encode_frame(frame)


def test_a_lone_surrogate_does_not_leave() -> None:
    with pytest.raises(LocalProtocolError):
        encode_frame(request(34, {"topic": "\ud800"}))


def test_an_answer_has_ext_fields_even_when_they_are_empty() -> None:
    assert b'"extFields":{}' in encode_frame(request(34).reply())


def test_numbers_and_truth_values_of_ali_ons_become_text() -> None:
    frame = frame_of(b'{"code":10,"extFields":{"queueId":3,"unitMode":false,"big":1e21,"no":null}}')
    assert frame.fields == {"queueId": "3", "unitMode": "false", "big": "1e21"}


@given(st.dictionaries(TEXT, st.integers() | st.booleans() | st.floats(allow_nan=False) | TEXT))
def test_a_value_of_any_type_keeps_the_digits_it_was_written_with(
    fields: dict[str, object],
) -> None:
    written = json.dumps({"code": 10, "extFields": fields}, allow_nan=True).encode()
    if b"Infinity" in written:
        return
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in fields.items()
    }
    assert frame_of(written).fields == texts


@pytest.mark.parametrize("member", [b"", b',"extFields":null', b',"extFields":{}'])
def test_missing_and_null_ext_fields_are_none_at_all(member: bytes) -> None:
    frame = frame_of(b'{"code":34,"language":"JAVA","version":78,"opaque":1,"flag":0%s}' % member)
    assert frame.fields == {}


def test_only_the_code_must_be_there() -> None:
    frame = frame_of(b'{"code":34}', b"body")
    assert frame == Frame(34, language="OTHER", version=0, body=b"body")


@pytest.mark.parametrize("others", [b"", b',"unknown":1'])
def test_a_language_with_a_longer_name_than_any_is_another_one(others: bytes) -> None:
    for length, name in ((32, "J" * 32), (33, "OTHER"), (100_000, "OTHER")):
        header = b'{"code":34,"language":"%s","version":1,"opaque":2,"flag":0%s}'
        assert frame_of(header % (b"J" * length, others)).language == name


@pytest.mark.parametrize("language", ["GO", "RUST", "NODE_JS", "KLINGON"])
def test_any_language_is_accepted(language: str) -> None:
    assert frame_of(b'{"code":34,"language":"%s"}' % language.encode()).language == language


def test_unknown_members_are_ignored_and_survive() -> None:
    header = {
        "code": 34,
        "serializeTypeCurrentRPC": "JSON",
        "trace": {"id": [1, 2]},
        "language": "JAVA",
        "version": 1,
        "opaque": 2,
        "flag": 0,
        "extFields": {},
    }
    frame = frame_of(json.dumps(header).encode())
    assert frame.extra == {"serializeTypeCurrentRPC": "JSON", "trace": {"id": [1, 2]}}
    assert json.loads(encode_frame(frame)[8:]) == header


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"", "JSON header"),
        (b"\x00", "JSON header"),
        (b"[]", "JSON header"),
        (b"{", "JSON header"),
        (b'{"code":34', "JSON header"),
        (b'{"code":34}x', "JSON header"),
        (b"{code:34}", "JSON header"),
        (b'{"code":34,"remark":"\xff"}', "not UTF-8"),
        (b"{}", "no member 'code'"),
        (b'{"code":"send"}', "code is 'send', no integer"),
        (b'{"code":1.5}', "code is '1.5', no integer"),
        (b'{"code":34,"opaque":2147483648}', "opaque is 2147483648, beyond 32 bits"),
        (b'{"code":34,"flag":-2147483649}', "flag is -2147483649, beyond 32 bits"),
        (b'{"code":34,"version":{}}', "version is '{}', no integer"),
        (b'{"code":34,"extFields":[]}', "JSON header"),
        (b'{"code":34,"extFields":' + b"[" * 100_000, "JSON header"),
        (b'{"code":34,"extFields":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", "JSON header"),
        (b'{"code":' + b"9" * 10_000 + b"}", "JSON header: code"),
    ],
)
def test_what_is_no_header_is_refused_by_name(header: bytes, message: str) -> None:
    with pytest.raises(RemoteProtocolError, match=r"^JSON header") as caught:
        frame_of(header)
    assert message in str(caught.value)
