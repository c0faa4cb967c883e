"""What the store's tests share: small stores on a simulated disk, and messages for them."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from lanemq.storage import NewMessage, Store, StoreConfig, open_store
from lanemq.storage.testing import SimulatedFiles
from lanemq.wire import encode_properties

ROOT = Path("/store")
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
START_MS = 1_700_000_000_000

MakeMessage = Callable[..., NewMessage]
OpenSmall = Callable[..., AbstractAsyncContextManager[Store]]


@pytest.fixture
def small_config() -> StoreConfig:
    return StoreConfig(
        root=ROOT,
        commit_log_file_bytes=4096,
        consume_queue_file_bytes=200,
        max_hash_slots=7,
        max_index_entries=40,
        tail_cache_bytes=1024,
    )


@pytest.fixture
def clock_ms() -> Callable[[], int]:
    """Unix time that follows trio's clock."""
    return lambda: START_MS + int(trio.current_time() * 1000)


@pytest.fixture
def files(clock_ms: Callable[[], int]) -> SimulatedFiles:
    return SimulatedFiles(now_s=lambda: clock_ms() / 1000)


@pytest.fixture
def open_small(
    small_config: StoreConfig, files: SimulatedFiles, clock_ms: Callable[[], int]
) -> OpenSmall:
    """Open a small store on ``files``, or on the disk given; keywords change its settings."""

    def open_it(
        disk: SimulatedFiles = files,
        **changes: Any,  # noqa: ANN401 - every setting has its own type
    ) -> AbstractAsyncContextManager[Store]:
        return open_store(replace(small_config, **changes), files=disk, clock_ms=clock_ms)

    return open_it


@pytest.fixture
def make_message(clock_ms: Callable[[], int]) -> MakeMessage:
    """A message; ``tags``, ``keys`` and ``unique_key`` become properties."""

    def make(
        body: bytes = b"hello",
        *,
        topic: str = "T",
        queue_id: int = 0,
        tags: str = "",
        keys: str = "",
        unique_key: str = "",
        **others: Any,  # noqa: ANN401 - every field has its own type
    ) -> NewMessage:
        properties = {"UNIQ_KEY": unique_key, "KEYS": keys, "TAGS": tags}
        return NewMessage(
            topic=topic,
            queue_id=queue_id,
            body=body,
            properties=others.pop("properties", encode_properties(properties)),
            born_timestamp_ms=clock_ms(),
            born_host=HOST,
            store_host=HOST,
            **others,
        )

    return make
