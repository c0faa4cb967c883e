"""Binary headers: the declaration and the fast path are one."""

from typing import Any

import construct as cs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import (
    LanguageCode,
    LocalProtocolError,
    RemoteProtocolError,
    language_code,
    language_name,
)
from lanemq.wire.frame import (
    BINARY_HEADER,
    FRAME,
    Frame,
    SerializeType,
    decode_frame,
    encode_frame,
)

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(codec="utf-8"))
FRAMES = st.builds(
    Frame,
    code=INT16,
    opaque=INT32,
    flag=INT32,
    fields=st.dictionaries(TEXT, TEXT),
    body=st.binary(),
    remark=st.none() | st.text(st.characters(codec="utf-8"), min_size=1),
    language=st.integers(0, 255).map(language_name),
    version=INT16,
    serialize=st.just(SerializeType.ROCKETMQ),
)


def declared(frame: Frame) -> dict[str, Any]:
    return {
        "code": frame.code,
        "language": language_code(frame.language),
        "version": frame.version,
        "opaque": frame.opaque,
        "flag": frame.flag,
        "remark": frame.remark or "",
        "fields": [{"key": key, "value": value} for key, value in frame.fields.items()],
    }


def frame_of(header: bytes) -> Frame:
    return decode_frame((1 << 24 | len(header)).to_bytes(4) + header)


def in_parts(*parts: tuple[str, bytes]) -> bytes:
    """Bytes with the name of each field beside them."""
    return b"".join(data for _, data in parts)


@given(FRAMES)
def test_the_declaration_and_the_fast_path_write_the_same_bytes(frame: Frame) -> None:
    header = BINARY_HEADER.build(declared(frame))
    parts = {"serialize": 1, "header": header, "body": frame.body}
    assert FRAME.build(parts) == encode_frame(frame)


@given(FRAMES)
def test_the_declaration_and_the_fast_path_read_the_same_frame(frame: Frame) -> None:
    data = encode_frame(frame)
    assert decode_frame(data[4:]) == frame
    parts = FRAME.parse(data)
    header = BINARY_HEADER.parse(parts.header)
    assert parts.body == frame.body
    assert {field.key: field.value for field in header.fields} == frame.fields
    assert (header.remark or None) == frame.remark


@given(st.binary(max_size=80) | FRAMES.map(lambda frame: encode_frame(frame)[8:]), st.data())
def test_both_refuse_the_same_headers(header: bytes, data: st.DataObject) -> None:
    if header and data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(header) - 1))
        changed = data.draw(st.integers(0, 255))
        header = header[:place] + bytes([changed]) + header[place + 1 :]
    header = header[: data.draw(st.integers(0, len(header)))]
    try:
        parsed = (BINARY_HEADER + cs.Struct(cs.Terminated)).parse(header)
    except cs.ConstructError:
        with pytest.raises(RemoteProtocolError, match=r"^binary header"):
            frame_of(header)
    else:
        assert frame_of(header).opaque == parsed.opaque


def test_the_bytes_of_a_header_written_by_hand() -> None:
    header = in_parts(
        ("code: PULL_MESSAGE", b"\x00\x0b"),
        ("language: GO", b"\x09"),
        ("version: V4_9_7", b"\x01\x97"),
        ("opaque", b"\xff\xff\xff\xfe"),
        ("flag: one-way", b"\x00\x00\x00\x02"),
        ("remark", b"\x00\x00\x00\x02no"),
        ("size of the fields", b"\x00\x00\x00\x0b"),
        ("key", b"\x00\x01b"),
        ("value", b"\x00\x00\x00\x04\xf0\x9f\x90\x8d"),
    )
    assert frame_of(header) == Frame(
        code=11,
        language="GO",
        version=407,
        opaque=-2,
        flag=2,
        remark="no",
        fields={"b": "🐍"},
        serialize=SerializeType.ROCKETMQ,
    )


@pytest.mark.parametrize("code", [200050, 32768, -32769])
def test_a_code_beyond_16_bits_is_not_written(code: int) -> None:
    # 5.3.3 cuts the pop code 200050 down to 3442, and its broker answers "not supported".
    frame = Frame(code, serialize=SerializeType.ROCKETMQ)
    with pytest.raises(LocalProtocolError, match=f"code {code} does not fit the 16 bits"):
        encode_frame(frame)


@pytest.mark.parametrize(
    "frame",
    [
        Frame(1, version=32768),
        Frame(1, language="KLINGON"),
        Frame(1, fields={"k" * 32768: ""}),
        Frame(1, fields={"k": "\ud800"}),
        Frame(1, fields={"k": 3}),  # type: ignore[dict-item]
        Frame(1, opaque=2**31),
    ],
)
def test_what_does_not_fit_is_not_written(frame: Frame) -> None:
    with pytest.raises(LocalProtocolError):
        encode_frame(
            Frame(
                frame.code,
                frame.opaque,
                fields=frame.fields,
                language=frame.language,
                version=frame.version,
                serialize=SerializeType.ROCKETMQ,
            )
        )


def test_every_language_byte_survives_and_the_unknown_ones_are_told_apart() -> None:
    assert [language_code(language_name(code)) for code in range(256)] == list(range(256))
    assert language_name(LanguageCode.RUST) == "RUST"
    assert language_name(99) == "UNKNOWN_99"


FIXED = bytes(13)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"", "0 bytes, the fixed part alone has 21"),
        (FIXED + b"\x00\x00\x00\x00" + b"\x00\x00\x00", "20 bytes"),
        (FIXED + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00", "remark at byte 13 claims -1 bytes"),
        (FIXED + b"\x00\x00\x00\x05" + b"\x00\x00\x00\x00", "remark at byte 13 claims 5 bytes"),
        (FIXED + b"\x00\x00\x00\x02" + b"\x00\x00\x00\x00", "the length of fields at byte 19"),
        (FIXED + b"\x00\x00\x00\x01\xff" + b"\x00\x00\x00\x00", "remark is not UTF-8 at byte 17"),
        (FIXED + bytes(4) + b"\x00\x00\x00\x01", "fields at byte 21 claim 1 bytes, 0 are left"),
        (FIXED + bytes(4) + b"\xff\xff\xff\xff", "fields at byte 21 claim -1 bytes"),
        (FIXED + bytes(4) + b"\x00\x00\x00\x01\x00", "the length of a key at byte 21"),
        (FIXED + bytes(4) + b"\x00\x00\x00\x02\xff\xfe", "a key at byte 21 claims -2 bytes"),
        (
            FIXED + bytes(4) + b"\x00\x00\x00\x07\x00\x01a\xff\xff\xff\xff",
            "the value of 'a' at byte 24 claims -1 bytes",
        ),
        (FIXED + bytes(4) + b"\x00\x00\x00\x03\x00\x01\xff", "a key is not UTF-8 at byte 23"),
    ],
)
def test_a_broken_header_is_refused_by_field_and_byte(header: bytes, message: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        frame_of(header)
    assert message in str(caught.value)
