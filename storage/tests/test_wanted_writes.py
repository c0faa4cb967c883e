"""Topics and groups are written beside the loop, once for all who wait, and nobody waits less."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stores import OpenSmall
from lanemq.wire.bodies import TopicConfig

TOPICS = Path("/store/config/topics.json")


@final
class Gate:
    """Holds writes of a table until it is opened, once for each."""

    def __init__(self, write: Callable[[Any], Any]) -> None:
        self._write = write
        self.begun = 0
        self.is_full = False
        self._places = trio.Semaphore(0)

    async def __call__(self, source: object) -> None:
        self.begun += 1
        if self.is_full:
            await self._places.acquire()
            raise OSError(errno.ENOSPC, "No space left on device")
        # The content is that of the moment when the write begins.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, source)
            await self._places.acquire()

    def open(self) -> None:
        self._places.release()


async def test_those_who_wait_share_the_next_write(
    open_small: OpenSmall, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_small() as store, trio.open_nursery() as nursery:
        tables = store.tables
        gate = Gate(tables.topics.backend.write_off_loop)  # type: ignore[attr-defined]
        monkeypatch.setattr(tables.topics.backend, "write_off_loop", gate)
        written: list[str] = []

        async def create(name: str) -> None:
            tables.topics.put(TopicConfig(name), at_once=False)
            tables.want(tables.topics, name)
            await tables.write_wanted()
            assert f'"{name}"'.encode() in (files.read_all(TOPICS) or b"")
            written.append(name)

        nursery.start_soon(create, "first")
        await wait_all_tasks_blocked()
        for number in range(20):
            nursery.start_soon(create, f"T{number}")
        await wait_all_tasks_blocked()
        assert (gate.begun, written) == (1, [])
        assert tables.is_unwritten(tables.topics, "first")
        gate.open()
        await wait_all_tasks_blocked()
        assert (gate.begun, written) == (2, ["first"])
        assert tables.is_unwritten(tables.topics, "T0")
        gate.open()
        await wait_all_tasks_blocked()
        assert (gate.begun, len(written)) == (2, 21)
        assert not tables.is_unwritten(tables.topics, "T0")
        monkeypatch.undo()


async def test_a_write_that_fails_is_refused_to_all_who_shared_it_and_to_no_other(
    open_small: OpenSmall, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_small() as store, trio.open_nursery() as nursery:
        tables = store.tables
        gate = Gate(tables.topics.backend.write_off_loop)  # type: ignore[attr-defined]
        monkeypatch.setattr(tables.topics.backend, "write_off_loop", gate)
        refused: list[int | None] = []
        for name in "ab":
            tables.topics.put(TopicConfig(name), at_once=False)
            tables.want(tables.topics, name)

        async def wait() -> None:
            try:
                await tables.write_wanted()
            except OSError as error:
                refused.append(error.errno)

        gate.is_full = True
        for _ in range(3):
            nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        gate.open()
        await wait_all_tasks_blocked()
        assert (gate.begun, refused) == (1, [errno.ENOSPC] * 3)
        assert tables.is_unwritten(tables.topics, "a")
        gate.is_full = False
        gate.open()
        await tables.write_wanted()
        assert b'"a"' in (files.read_all(TOPICS) or b"")
        assert not tables.is_unwritten(tables.topics, "b")
        monkeypatch.undo()


async def test_who_is_cancelled_leaves_the_write_to_the_next(
    open_small: OpenSmall, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_small() as store, trio.open_nursery() as nursery:
        tables = store.tables
        gate = Gate(tables.topics.backend.write_off_loop)  # type: ignore[attr-defined]
        monkeypatch.setattr(tables.topics.backend, "write_off_loop", gate)
        scope = trio.CancelScope()

        async def given_up() -> None:
            with scope:
                tables.topics.put(TopicConfig("a"), at_once=False)
                tables.want(tables.topics, "a")
                await tables.write_wanted()

        nursery.start_soon(given_up)
        await wait_all_tasks_blocked()
        tables.topics.put(TopicConfig("b"), at_once=False)
        tables.want(tables.topics, "b")
        scope.cancel()
        gate.open()
        await tables.write_wanted()
        assert gate.begun == 2
        assert b'"a"' in (files.read_all(TOPICS) or b"")
        assert b'"b"' in (files.read_all(TOPICS) or b"")
        monkeypatch.undo()
