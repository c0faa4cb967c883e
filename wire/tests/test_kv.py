"""Operations and answers of the key-value store."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import RemoteProtocolError
from lanemq.wire.kv import (
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    Action,
    Change,
    ChangeKind,
    Changes,
    LoadedEntry,
    OpType,
    Step,
    decode_answer,
    decode_key,
    decode_load,
    decode_steps,
    encode_answer,
    encode_key,
    encode_load,
    encode_steps,
    kv_namespace,
    kv_topic,
    namespace_problem,
)

steps = st.builds(
    Step,
    key=st.binary(min_size=1, max_size=40),
    action=st.sampled_from(Action),
    value=st.binary(max_size=40),
    ttl_ms=st.integers(0, 10**9),
    if_version=st.none() | st.integers(0, 2**63 - 1),
    if_value=st.none() | st.binary(max_size=10),
)


@given(st.lists(steps, min_size=1, max_size=5, unique_by=lambda step: step.key))
def test_steps_come_back(made: list[Step]) -> None:
    assert decode_steps(OpType.BATCH, encode_steps(made)) == made


@given(st.binary(max_size=60), st.sampled_from([OpType.PUT, OpType.BATCH, OpType.CLEAR, "x"]))
def test_rubbish_is_refused_as_such(body: bytes, op_type: str) -> None:
    for decode in (lambda: decode_steps(op_type, body), lambda: decode_load(body)):
        with suppress(RemoteProtocolError):
            decode()


@pytest.mark.parametrize(
    "entry",
    [
        LoadedEntry(b"", b"v", 1, 0, 0),
        LoadedEntry(bytes(KEY_BYTES_MAX + 1), b"v", 1, 0, 0),
        LoadedEntry(b"k", bytes(VALUE_BYTES_MAX + 1), 1, 0, 0),
        LoadedEntry(b"k", b"v", 0, 0, 0),
        LoadedEntry(b"k", b"v", 1 << 63, 0, 0),
        LoadedEntry(b"k", b"v", 1, -1, 0),
        LoadedEntry(b"k", b"v", 1, 0, -1),
        LoadedEntry(b"k", b"v", 1, 0, 0, 1 << 63),
    ],
)
def test_an_entry_to_load_that_breaks_a_limit_is_refused(entry: LoadedEntry) -> None:
    longest = LoadedEntry(bytes(KEY_BYTES_MAX), bytes(VALUE_BYTES_MAX), (1 << 63) - 1, 0, 0)
    assert decode_load(encode_load([longest])) == [longest]
    with pytest.raises(RemoteProtocolError, match="load cannot be read"):
        decode_load(encode_load([entry]))


@given(st.binary(max_size=60))
def test_keys_come_back(key: bytes) -> None:
    assert decode_key(encode_key(key)) == key


@pytest.mark.parametrize("text", ["a", "a===", "a b=", "-_-_", "ä"])
def test_what_is_no_standard_base64_is_named(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="the prefix is not standard base64"):
        decode_key(text, "prefix")


def test_a_namespace_has_a_topic() -> None:
    assert kv_topic("jobs") == "%KV%jobs"
    assert kv_namespace("%KV%jobs") == "jobs"
    assert kv_namespace("jobs") is None
    assert namespace_problem("jobs-1_A") is None
    for name in ("", "a b", "%", "n" * 65):
        assert namespace_problem(name) is not None


@pytest.mark.parametrize("number", range(4))
def test_the_kind_of_a_change_has_a_name_and_on_the_wire_its_number(number: int) -> None:
    assert encode_answer(ChangeKind(number)) == bytes((number,))
    sent = encode_answer(Changes([Change(0, 0, ChangeKind(number), b"k", 1)], 1))
    (change,) = decode_answer(sent, Changes).changes
    assert change.kind is ChangeKind(number)
    assert change.kind == number
    assert str(change.kind) == f"ChangeKind.{change.kind.name}"
