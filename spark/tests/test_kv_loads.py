"""Rows of keys become loads that a broker takes."""

from collections.abc import Sequence
from typing import cast

import trio

from lanemq.sdk.kv import KeyValueStore, LoadedEntry
from lanemq.spark.topics import _kv_load
from lanemq.wire.kv import LOAD_ENTRIES_MAX


class Loads:
    """A store that keeps what it is given, load by load."""

    def __init__(self) -> None:
        self.loads: list[list[bytes]] = []

    async def load(self, entries: Sequence[LoadedEntry]) -> None:
        self.loads.append([entry.key for entry in entries])


def loads_of(*values: bytes) -> list[list[bytes]]:
    store = Loads()
    rows = [
        {
            "key": b"%d" % number,
            "value": value,
            "version": 1,
            "createTimestamp": 1,
            "updateTimestamp": 1,
            "expireTimestamp": None,
        }
        for number, value in enumerate(values)
    ]

    async def load() -> int:
        return await _kv_load._load(cast("KeyValueStore", store), rows=rows)

    assert trio.run(load) == len(values)
    keys = [key for keys in store.loads for key in keys]
    assert keys == [b"%d" % number for number in range(len(values))]
    return store.loads


def test_many_short_rows_are_divided_by_their_number() -> None:
    assert [len(keys) for keys in loads_of(*[b""] * (LOAD_ENTRIES_MAX + 1))] == [
        LOAD_ENTRIES_MAX,
        1,
    ]


def test_long_rows_are_divided_by_their_bytes() -> None:
    long = bytes(_kv_load.LOAD_BYTES)
    assert [len(keys) for keys in loads_of(b"", long, long, b"", b"")] == [1, 1, 1, 2]
