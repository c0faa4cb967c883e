"""Lists of keys and values that are too long are refused before their elements are decoded."""

import gc
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import RemoteProtocolError
from lanemq.wire.kv import (
    KEYS_BYTES_MAX,
    STEPS_MAX,
    Action,
    OpType,
    Step,
    decode_keys,
    decode_steps,
    decode_txn,
    encode_steps,
    list_count,
    plain_put,
)

MANY = 100_000
STEPS = encode_steps([Step(b"k", Action.CHECK)] * MANY)
COMPARES = [[b"k", 0, 0, 1]] * MANY
GETS = [[2, b"k"]] * MANY


def encoded(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


@pytest.mark.parametrize(
    ("body", "decode"),
    [
        (STEPS, lambda body: decode_steps(OpType.BATCH, body)),
        (STEPS, lambda body: decode_steps(OpType.PUT, body)),
        (STEPS, plain_put),
        (encoded([b"k"] * MANY), decode_keys),
        (encoded([COMPARES, [], []]), decode_txn),
        (encoded([[], GETS, []]), decode_txn),
        (encoded([[], [], GETS]), decode_txn),
    ],
    ids=["batch", "put", "plain put", "keys", "compares", "then", "otherwise"],
)
def test_a_list_beyond_its_limit_is_refused_by_its_number(
    body: bytes, decode: Callable[[bytes], object]
) -> None:
    refused = False
    gc.collect()
    tracemalloc.start()
    try:
        refused = decode(body) is None
    except RemoteProtocolError:
        refused = True
    finally:
        _, most_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert refused
    assert most_bytes < 100_000


@given(st.integers(0, 70_000))
def test_the_number_of_a_list_is_read_from_its_first_bytes(count: int) -> None:
    assert list_count(encoded([None] * count)) == count


@given(st.binary(max_size=6))
def test_no_bytes_make_the_number_fail(body: bytes) -> None:
    assert list_count(body) >= 0


def test_as_many_keys_as_may_be_are_decoded_and_no_longer_list() -> None:
    keys = [b"k"] * STEPS_MAX
    assert decode_keys(encoded(keys)) == keys
    with pytest.raises(RemoteProtocolError, match="bytes are asked for"):
        decode_keys(encoded([bytes(KEYS_BYTES_MAX)]))
