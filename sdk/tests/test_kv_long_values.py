"""Values to compare with that are longer than an operation, and keys that are no text."""

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.sdk.kv import CasResult, KeyValueStore
from lanemq.sdk.kv.cli._command import Output
from lanemq.testkit.sdk.kv import KvCluster
from lanemq.testkit.sdk.kv_stores import opened
from lanemq.wire import RequestCode, show_text
from lanemq.wire.frame import Frame
from lanemq.wire.kv import VALUE_BYTES_MAX

LONG: Final = bytes(VALUE_BYTES_MAX - 1024)
OTHER: Final = b"x" * len(LONG)


@pytest.mark.parametrize("size_bytes", [1 << 20, (2 << 20) + 1, 3 << 20, VALUE_BYTES_MAX])
async def test_a_value_of_any_length_is_compared_with(kv: KvCluster, size_bytes: int) -> None:
    kv.make(1)
    first, second = bytes(size_bytes), b"y" * size_bytes
    async with opened(kv) as store:
        await store.put(b"k", first)
        refused = await store.compare_and_set(b"k", b"no", expected=second)
        assert (refused.done, refused.version) == (False, 1)
        assert await store.compare_and_set(b"k", second, expected=first) == CasResult(True, 2)
        assert not (await store.compare_and_set(b"k", first, version=1, expected=second)).done
        assert (await store.compare_and_set(b"k", first, version=2, expected=second)).done
        assert (await store.compare_and_set(b"k", None, expected=first)).done
        assert (await store.compare_and_set(b"k", second, expected=first)).version == 0


@pytest.mark.parametrize("same_value", [True, False])
async def test_a_write_between_the_look_and_the_comparison_is_not_lost(
    kv: KvCluster, same_value: bool
) -> None:
    kv.make(1)
    broker = kv.kv_brokers[0]
    async with opened(kv) as store:
        await store.put(b"k", LONG)
        between(broker.handlers, kv, LONG if same_value else OTHER)
        result = await store.compare_and_set(b"k", OTHER[1:], expected=LONG)
        assert result.done is same_value
        assert kv.written()[b"k"] == (OTHER[1:] if same_value else OTHER)
        assert await latest(store) == (3 if same_value else 2)


def between(handlers: dict[int, Any], kv: KvCluster, value: bytes) -> None:
    """Let another client put a value behind the next read."""
    real: Callable[[Frame, object], Frame] = handlers[RequestCode.KV_GET]

    def get(frame: Frame, peer: object) -> Frame:
        handlers[RequestCode.KV_GET] = real
        answer = real(frame, peer)
        part = kv.namespaces["default"][0]
        entry = part.entries[b"k"]
        part.entries[b"k"] = type(entry)(b"k", value, entry.version + 1, part.position, 1, 2)
        return answer

    handlers[RequestCode.KV_GET] = get


async def latest(store: KeyValueStore) -> int:
    entry = await store.get(b"k")
    assert entry is not None
    return entry.version


# Keys in the lines of scan and watch


def written(key: bytes) -> str:
    output = Output(as_hex=False, as_base64=False, as_json=False)
    return show_text(output.written_key(key).decode("utf-8", "backslashreplace"), None)


texts = st.text("a \\x20\n\x85\u202e\u00e9").map(str.encode)
keys = st.one_of(texts, st.binary(max_size=6), st.sampled_from([b"\xff", b"\\xff", b"\x85"]))


@given(one=keys, other=keys)
def test_no_two_keys_are_printed_alike(one: bytes, other: bytes) -> None:
    assert (written(one) == written(other)) == (one == other)
    assert " " not in written(one)


def test_a_key_that_is_text_is_printed_as_it_is() -> None:
    assert written("stock/\u00e4pfel".encode()) == "stock/\u00e4pfel"
    assert written(b"a b\\\xff\n") == r"a\x20b\\\xff\x0a"
