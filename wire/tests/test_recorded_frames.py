"""Every recorded frame is read, and written back as it was; so is its typed header."""

import json
from typing import Any

import msgspec
import pytest

from lanemq.wire import RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import (
    Frame,
    SerializeType,
    decode_frame,
    decode_split,
    encode_frame,
    split_frames,
)
from lanemq.wire.headers import Header
from lanemq.wire.requests import REQUESTS

# Not in a header class, but put beside its fields: by the signer, the version-4.9 and 5.x name
# of the broker, the type of an RPC.
BESIDE_THE_HEADER = {"AccessKey", "Signature", "OnsChannel", "bname", "ReqT"}

# Answers with the fields of their header although they are not a success.
WITH_HEADER = {
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
}


def in_text_form(header: dict[str, Any]) -> dict[str, Any]:
    """The JSON value, ext fields as the protocol counts them: as text, and none as {}."""
    fields = header.get("extFields") or {}
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in fields.items()
    }
    return header | {"extFields": texts}


def json_header(data: bytes) -> dict[str, Any]:
    end = 8 + int.from_bytes(data[5:8])
    header: dict[str, Any] = json.loads(data[8:end])
    return header


def test_a_json_frame_is_written_back_with_the_same_value_and_body(recorded: list[Any]) -> None:
    seen = 0
    for one in recorded:
        if one.frame.serialize is SerializeType.JSON:
            again = encode_frame(decode_frame(one.data[4:]))
            assert json_header(again) == in_text_form(json_header(one.data))
            assert decode_frame(again[4:]).body == one.frame.body
            assert one.data.endswith(one.frame.body)
            seen += 1
    assert seen == 7000


def test_a_binary_frame_is_written_back_to_the_same_bytes(recorded: list[Any]) -> None:
    seen, doubled = 0, 0
    for one in recorded:
        if one.frame.serialize is SerializeType.ROCKETMQ:
            again = encode_frame(one.frame)
            if again == one.data:
                seen += 1
            else:
                # mqadmin's signing made Java write each field of a pull twice, equal both times.
                assert one.data.count(b"\x00\x0dmaxMsgNums"[2:]) == 2
                assert decode_frame(again[4:]) == one.frame
                doubled += 1
    assert (seen, doubled) == (2188, 2)


def test_frames_cut_from_one_stream_are_the_frames_that_were_sent(recorded: list[Any]) -> None:
    stream = b"".join(one.data for one in recorded)
    for kind in (bytes, bytearray):
        frames: list[Frame] = []
        at = 0
        while at < len(stream):
            splits, size_bytes = split_frames(kind(stream[at : at + (1 << 20)]))
            frames += map(decode_split, splits)
            assert size_bytes
            at += size_bytes
        assert frames == [one.frame for one in recorded]


def check_header(declared: type[Header], fields: dict[str, str], *, may_add: set[str]) -> None:
    header = declared.from_fields(fields)
    written = header.to_fields()
    names = {field.encode_name for field in msgspec.structs.fields(declared)}
    assert {name: fields[name] for name in fields if name in names} == {
        name: written[name] for name in written if name in fields
    }
    assert {name: written[name] for name in written if name not in fields}.keys() <= may_add
    assert fields.keys() - names <= BESIDE_THE_HEADER
    assert declared.from_fields(written) == header


def header_of(code: int) -> type[Header] | None:
    spec = REQUESTS.get(code)
    return None if spec is None else spec.header


def test_every_recorded_request_fits_the_header_of_its_code(recorded: list[Any]) -> None:
    seen = set()
    for one in recorded:
        declared = header_of(one.frame.code)
        if one.frame.is_response or declared is None:
            continue
        if one.capture == "go" and one.frame.code == RequestCode.SEND_BATCH_MESSAGE:
            # The real broker refuses it as well, with a NumberFormatException.
            with pytest.raises(RemoteProtocolError, match="field d is ''"):
                declared.from_fields(one.frame.fields)
            continue
        # 3.2.6 knows nothing of batches, so has no letter m; what we write says "false".
        check_header(declared, one.frame.fields, may_add={"m"})
        seen.add(one.frame.code)
    assert len(seen) == 43


def test_a_recorded_request_without_a_header_class_has_no_fields_of_its_own(
    recorded: list[Any],
) -> None:
    for one in recorded:
        # 3442 is what is left of a pop request, 200050, in 16 bits.
        if not one.frame.is_response and not (header_of(one.frame.code) or one.frame.code == 3442):
            assert one.frame.fields.keys() <= BESIDE_THE_HEADER


def test_every_recorded_answer_fits_the_header_of_its_request(recorded: list[Any]) -> None:
    seen = set()
    for one in recorded:
        spec = REQUESTS.get(one.request_code or 0)
        declared = None if spec is None else spec.answer
        if one.frame.is_response and declared is not None and one.frame.code in WITH_HEADER:
            check_header(declared, one.frame.fields, may_add=set())
            seen.add(one.request_code)
    assert len(seen) == 19


def test_every_recorded_code_has_its_name(recorded: list[Any]) -> None:
    requests = {one.frame.code for one in recorded if not one.frame.is_response}
    answers = {one.frame.code for one in recorded if one.frame.is_response}
    assert requests - set(RequestCode) == {3442}
    assert answers <= set(ResponseCode)
