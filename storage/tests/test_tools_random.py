"""Stores with a random past and random damage: conversions and repairs take nothing away that can
be read, or say so and leave it."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanemq.storage._errors import StoreError
from lanemq.storage._layouts import BLANK_SIZE
from lanemq.storage.bulk import convert_to_files, convert_to_rocksdb
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase, is_present
from lanemq.storage.tools import look_into, repair_store, verify_store
from lanemq.storage.tools.reading._units import RowsUnits, Units
from lanemq.storage.tools.rebuild._losses import is_readable
from lanemq.testkit.cases import first
from lanemq.testkit.storage.stages import Stand

FILES, BOTH, ROCKSDB = 1, 2, 3
Message = tuple[str, int, int]
"""Topic, queue id and log position."""


class History:
    """The history of a store, step by step; no broker is there when a tool is."""

    def __init__(self, stand: Stand, seed: int) -> None:
        self.stand = stand
        self.rng = random.Random(seed)
        self.number = 0
        self.copies = 0
        self.stage = FILES
        self.told: list[str] = []

    async def live(self) -> None:
        """A broker of some stage; some die."""
        self.stage = self.rng.choice((FILES, BOTH, ROCKSDB))
        dies = self.rng.random() < 0.4
        self.told.append(f"stage {self.stage}, killed: {dies}")
        async with self.stand.open(self.stage, allow_uncovered=True) as store:
            for _ in range(self.rng.randint(1, 3)):
                count = self.rng.randint(1, 60)
                self.stand.put(store, count, first=self.number)
                self.number += count
            if self.rng.random() < 0.8:
                await store.in_rocksdb(store.max_position)
            if dies:
                self.copies += 1
                self.stand.kill(self.stand.root.parent / f"copy-{self.copies}")
        if self.stage == ROCKSDB:  # what tells a stage from the outside
            for table in ("topics", "subscriptionGroups", "consumerOffsets"):
                QueueDatabase(self.stand.root / "config" / table).close()

    def damage(self) -> None:
        root = self.stand.root
        kind = self.rng.choice(("file", "unit", "rows", "current", "log", "index", "nothing"))
        self.told.append(f"damage: {kind}")
        queue_files = sorted((root / "consumequeue").glob("*/*/*"))
        if kind in ("file", "unit") and queue_files:
            path = self.rng.choice(queue_files)
            if kind == "file":
                path.unlink()
            else:
                data = bytearray(path.read_bytes())
                at = self.rng.randrange(len(data) // 20) * 20
                data[at : at + 20] = bytes(20)
                path.write_bytes(data)
        elif kind == "rows" and is_present(root / "consumequeue"):
            rows = QueueRows(QueueDatabase(root / "consumequeue"))
            first = self.rng.randrange(60)
            rows.delete_units("T", self.rng.randrange(2), first, first + self.rng.randint(1, 9))
            rows.close()
        elif kind == "current" and is_present(root / "consumequeue"):
            (root / "consumequeue" / "CURRENT").unlink()
        elif kind == "log":
            path = self.rng.choice(sorted((root / "commitlog").iterdir()))
            data = bytearray(path.read_bytes())
            at = self.rng.randrange(len(data))
            data[at] ^= 1
            path.write_bytes(data)
        elif kind == "index":
            shutil.rmtree(root / "index", ignore_errors=True)

    def readable(self, *, in_rows: bool) -> set[Message]:
        """The messages that one index leads to."""
        store = look_into(self.stand.root)
        if not in_rows:
            queues: list[tuple[str, int, Units]] = [
                (queue.topic, queue.queue_id, queue) for queue in store.queues()
            ]
            return set(self._messages(queues))
        if not is_present(store.consume_queue):
            return set()
        rows = QueueRows(QueueDatabase(store.consume_queue, read_only=True))
        try:
            names = list(rows.stored_queues())
            return set(self._messages([(*name, RowsUnits(rows, *name)) for name in names]))
        finally:
            rows.close()

    def _messages(self, queues: list[tuple[str, int, Units]]) -> Iterator[Message]:
        log = look_into(self.stand.root).log
        for topic, queue_id, units in queues:
            for _, unit in units.units(0, units.written_end()):
                position, size, _ = unit
                if 0 < size < BLANK_SIZE and is_readable(log, topic, queue_id, position):
                    yield topic, queue_id, position
            units.close()

    def tool(self) -> None:
        """A conversion or a repair; what it says nothing of can be read as before."""
        kind = self.rng.choice(("repair", "repair all", "to files", "to rocksdb"))
        self.told.append(kind)
        in_files, in_rows = self.readable(in_rows=False), self.readable(in_rows=True)
        before = in_rows if verify_store(self.stand.root).stage.stage == ROCKSDB else in_files
        lost, damaged = 0, set[int | None]()
        try:
            if kind.startswith("repair"):
                report = repair_store(self.stand.root, everything=kind != "repair")
                lost = sum(loss.count for loss in report.losses)
                damaged = {found.log_position for found in (report.after or report.before).problems}
            else:
                convert = convert_to_files if kind == "to files" else convert_to_rocksdb
                damaged = {found.log_position for found in convert(self.stand.root).damaged}
        except StoreError as error:
            self.told.append(f"refused: {error}")
        before = {message for message in before if message[2] not in damaged}
        after = self.readable(in_rows=verify_store(self.stand.root).stage.stage == ROCKSDB)
        assert lost == 0 or kind.startswith("repair"), self.told
        assert before <= after, (self.told, sorted(before - after)[:5])
        if kind == "to files" and "refused" not in self.told[-1]:
            assert before <= self.readable(in_rows=False), self.told
        if kind == "to rocksdb" and "refused" not in self.told[-1]:
            assert before <= self.readable(in_rows=True), self.told


@pytest.mark.slow
@pytest.mark.parametrize("seed", first(10, range(40)))
async def test_nothing_readable_becomes_unreadable_without_a_word(
    seed: int, tmp_path: Path
) -> None:
    history = History(Stand(tmp_path / "store"), seed)
    await history.live()
    for _ in range(history.rng.randint(1, 3)):
        for _ in range(history.rng.randint(0, 2)):
            history.damage()
        history.tool()
        if history.rng.random() < 0.5:
            try:
                await history.live()
            except StoreError as error:
                history.told.append(f"start refused: {error}")
