"""Typed headers: one declaration reads, checks and writes."""

from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.wire import LocalProtocolError, RemoteProtocolError, RequestCode
from lanemq.wire import headers as headers_package
from lanemq.wire._numbers import Int, Long
from lanemq.wire.headers import (
    ConsumerSendMsgBack,
    CreateTopic,
    GetConsumeStatsInBroker,
    Header,
    PullMessage,
    PullMessageResponse,
    QueryMessage,
    RegisterBroker,
    SendMessage,
    SendMessageV2,
    UnregisterClient,
    UpdateConsumerOffset,
)
from lanemq.wire.requests import REQUESTS

HEADERS = sorted(
    {
        header
        for spec in REQUESTS.values()
        for header in (spec.header, spec.answer)
        if header is not None
    },
    key=lambda header: header.__name__,
)
OFFSET = {"consumerGroup": "g", "topic": "t", "queueId": "3", "commitOffset": "9"}
SEND = SendMessage(
    producer_group="group",
    topic="topic",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=-1,
    sys_flag=0,
    born_timestamp=1_700_000_000_000,
    flag=0,
)


def values(annotation: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - any form of one
    """Any value of a field: of its Java type, and None where it may be absent."""
    if get_origin(annotation) in (Union, UnionType):
        return st.one_of([values(member) for member in get_args(annotation)])
    bits = {Int: 31, Long: 63}.get(annotation)
    if bits is not None:
        return st.integers(-(2**bits), 2**bits - 1)
    return {bool: st.booleans(), str: st.text(), type(None): st.none()}[annotation]


def headers(declared: type[Header]) -> st.SearchStrategy[Any]:
    fields = msgspec.structs.fields(declared)
    return st.builds(declared, **{field.name: values(field.type) for field in fields})


@pytest.mark.parametrize("declared", HEADERS)
@settings(max_examples=10)
@given(data=st.data())
def test_every_header_is_read_back(declared: type[Header], data: st.DataObject) -> None:
    header = data.draw(headers(declared))
    assert declared.from_fields(header.to_fields()) == header


def test_every_public_header_has_its_code() -> None:
    named = {
        value
        for value in vars(headers_package).values()
        if isinstance(value, type) and issubclass(value, Header) and value is not Header
    }
    assert named == set(HEADERS)


def test_names_on_the_wire_are_the_java_field_names() -> None:
    assert UnregisterClient("id").to_fields() == {"clientID": "id"}
    assert GetConsumeStatsInBroker(is_order=True).to_fields() == {"isOrder": "true"}
    assert "bodyCrc32" in RegisterBroker("b", "a", "c", "h", 0).to_fields()
    query = QueryMessage("t", "k", 32, 0, 2**63 - 1, unique_key_query=True)
    assert query.to_fields()["_UNIQUE_KEY_QUERY"] == "true"
    assert query.to_fields()["endTimestamp"] == "9223372036854775807"


def test_what_is_none_is_left_out() -> None:
    assert PullMessageResponse(0, 1, 2, 3).to_fields() == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "1",
        "minOffset": "2",
        "maxOffset": "3",
    }


def test_a_required_field_that_is_none_is_our_own_mistake() -> None:
    header = PullMessageResponse(0, 1, 2, None)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="max_offset is None"):
        header.to_fields()


@pytest.mark.parametrize("name", list(OFFSET))
def test_a_missing_required_field_is_named(name: str) -> None:
    fields = {key: value for key, value in OFFSET.items() if key != name}
    with pytest.raises(RemoteProtocolError, match=f"required field {name} is missing"):
        UpdateConsumerOffset.from_fields(fields)


@pytest.mark.parametrize(
    "text", ["", "x", "0x10", "1_000", "1e3 ", "1e3", "1.0", "3.5", "null", " 3", "٣", "9" * 41]
)
def test_a_field_that_is_no_number_is_named(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=r"field queueId is .*, no integer"):
        UpdateConsumerOffset.from_fields({**OFFSET, "queueId": text})


@pytest.mark.parametrize(
    ("name", "text"),
    [("queueId", "2147483648"), ("commitOffset", "9223372036854775808"), ("queueId", "9" * 40)],
)
def test_a_number_beyond_its_java_type_is_named(name: str, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=rf"field {name} is {text}: it must be"):
        UpdateConsumerOffset.from_fields({**OFFSET, name: text})


@pytest.mark.parametrize(("text", "number"), [("+3", 3), ("007", 7), ("-0", 0)])
def test_numbers_that_java_takes_are_taken(text: str, number: int) -> None:
    assert UpdateConsumerOffset.from_fields({**OFFSET, "queueId": text}).queue_id == number


@pytest.mark.parametrize(
    ("text", "truth"),
    [("true", True), ("TRUE", True), ("false", False), ("", False), ("no", False), ("1", False)],
)
def test_truth_is_what_java_says_it_is(text: str, truth: bool) -> None:
    fields = {"offset": "1", "group": "g", "delayLevel": "0", "unitMode": text}
    assert ConsumerSendMsgBack.from_fields(fields).unit_mode is truth


def test_text_that_looks_like_something_else_stays_text() -> None:
    fields = {**OFFSET, "topic": "null", "consumerGroup": "true"}
    header = UpdateConsumerOffset.from_fields(fields)
    assert (header.topic, header.consumer_group) == ("null", "true")


def test_what_old_clients_leave_out_has_the_references_default() -> None:
    fields = {
        "topic": "t",
        "defaultTopic": "TBW102",
        "readQueueNums": "8",
        "writeQueueNums": "8",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
    }
    header = CreateTopic.from_fields(fields)
    assert (header.order, header.topic_sys_flag, header.attributes) == (False, None, None)


def test_the_letters_of_a_send_are_the_letters_of_the_reference() -> None:
    names = [field.encode_name for field in msgspec.structs.fields(SendMessage)]
    letters = [field.encode_name for field in msgspec.structs.fields(SendMessageV2)]
    # Long names in the order of the letters; l and m changed places in the long form.
    assert dict(zip(letters, names, strict=True)) == {
        "a": "producerGroup",
        "b": "topic",
        "c": "defaultTopic",
        "d": "defaultTopicQueueNums",
        "e": "queueId",
        "f": "sysFlag",
        "g": "bornTimestamp",
        "h": "flag",
        "i": "properties",
        "j": "reconsumeTimes",
        "k": "unitMode",
        "l": "maxReconsumeTimes",
        "m": "batch",
        "n": "bname",
    }


@given(headers(SendMessage))
def test_letters_and_long_names_say_the_same(header: SendMessage) -> None:
    letters = SendMessage.from_letters(header.to_letters())
    assert isinstance(letters, SendMessage)
    for name in SendMessage.__struct_fields__:
        assert getattr(letters, name) == getattr(header, name)
    assert letters.to_letters() == header.to_letters()


def test_a_send_of_3_2_6_has_neither_l_nor_m() -> None:
    fields = SEND.to_letters()
    del fields["m"]
    header = SendMessage.from_letters(fields)
    assert (header.max_reconsume_times, header.batch, header.unit_mode) == (None, False, False)
    assert header.reconsume_times is None  # absent is not 0


def test_a_broken_letter_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match="field g is 'now'"):
        SendMessage.from_letters({**SEND.to_letters(), "g": "now"})


def test_the_three_codes_of_the_letter_form() -> None:
    codes = [code for code, spec in REQUESTS.items() if spec.header is SendMessageV2]
    assert codes == [
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    ]


def test_a_change_leaves_all_other_fields_as_they_are() -> None:
    fields = {"queueId": "1", "sysFlag": "2", "a": "of somebody", "offset": "007"}
    changed = PullMessage.rewritten(fields, queue_id=3, subscription="*", sys_flag=0)
    assert changed == fields | {"queueId": "3", "subscription": "*", "sysFlag": "0"}
    assert SendMessageV2.rewritten({"e": "1"}, queue_id=2) == {"e": "2"}
    with pytest.raises(KeyError):
        PullMessage.rewritten(fields, offset=3)


def test_headers_are_values() -> None:
    header: Any = UpdateConsumerOffset.from_fields(OFFSET)
    assert hash(header) == hash(UpdateConsumerOffset.from_fields(OFFSET))
    with pytest.raises(AttributeError):
        header.topic = "other"
