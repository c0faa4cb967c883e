"""The fixtures of the store's tests: small stores on a simulated disk, and messages for them."""

import shutil
import tarfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from lanemq.storage import NewMessage, Store, StoreConfig, open_store
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.kv import standing_turns
from lanemq.testkit.storage.stages import Stand
from lanemq.testkit.storage.stores import HOST, ROOT, START_MS, STORES, MakeMessage, OpenSmall
from lanemq.wire.message import encode_properties


@pytest.fixture(autouse=True)
def turns() -> Iterator[None]:
    """Turns of the loop take no time, however busy the machine is, unless a test says so."""
    with standing_turns():
        yield


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
    small_config: StoreConfig,
    files: SimulatedFiles,
    clock_ms: Callable[[], int],
    autojump_clock: MockClock,
) -> OpenSmall:
    """Open a small store on ``files``, or on the disk given; keywords change its settings.

    Its tests wait in simulated time.
    """

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


@pytest.fixture(scope="session")
def unpacked_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stores that real brokers wrote, by name; not to be changed."""
    directory = tmp_path_factory.mktemp("stores")
    for path in sorted(STORES.glob("*.tar.gz")):
        with tarfile.open(path) as archive:
            archive.extractall(directory, filter="data")
    return directory


@pytest.fixture
def recorded(unpacked_stores: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Copy one of the recorded stores, to be changed at will."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(unpacked_stores / name, tmp_path / name))

    return copy


@pytest.fixture
def filled(tmp_path: Path, make_message: MakeMessage) -> Callable[..., Awaitable[Path]]:
    """Make a small store on the real disk, with ``count`` messages, closed cleanly."""

    async def fill(count: int, *, topics: tuple[str, ...] = ("T",), queues: int = 1) -> Path:
        config = StoreConfig(
            root=tmp_path / "filled",
            commit_log_file_bytes=4096,
            consume_queue_file_bytes=200,
            max_hash_slots=7,
            max_index_entries=40,
        )
        async with open_store(config) as store:
            for number in range(count):
                topic = topics[number % len(topics)]
                message = make_message(
                    b"body %d" % number,
                    topic=topic,
                    queue_id=number // len(topics) % queues,
                    unique_key=f"U{number}",
                    tags="even" if number % 2 == 0 else "",
                )
                store.put(message)
            store.commit()
        return config.root

    return fill


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    """A store on the real disk, not opened yet, for each of the three stages."""
    return Stand(tmp_path / "store")
