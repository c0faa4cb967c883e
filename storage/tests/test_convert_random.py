"""Stores with a random past are converted, and then have what their logs say."""

import random
import shutil
from pathlib import Path

import pytest

from lanemq.storage.bulk import convert_to_files, convert_to_rocksdb
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase, is_present
from lanemq.testkit.cases import first
from lanemq.testkit.storage.stages import Stand, assert_files_agree, assert_rows_agree
from lanemq.testkit.storage.turns import take_turns

STAGES = (1, 2, 3)
TOPICS = ("T", "Longer")


class Past:
    """The history of a store before it is converted."""

    def __init__(self, stand: Stand, seed: int) -> None:
        self.stand = stand
        self.rng = random.Random(seed)
        self.number = 0
        self.deleted: dict[str, int] = {}
        self.told: list[str] = []

    async def run(self) -> None:
        stage = self.rng.choice(STAGES)
        self.told.append(f"stage {stage}")
        backfill = self.rng.random() < 0.5
        async with self.stand.open(stage, allow_uncovered=True, rocksdb_backfill=backfill) as store:
            for _ in range(self.rng.randint(1, 4)):
                topic, count = self.rng.choice(TOPICS), self.rng.randint(1, 80)
                self.stand.put(store, count, first=self.number, topic=topic)
                self.number += count
                if self.rng.random() < 0.15:
                    store.delete_topic(topic)
                    self.deleted[topic] = store.max_position
                    self.told.append(f"{topic} deleted at {store.max_position}")
            if self.rng.random() < 0.7:
                await store.in_rocksdb(store.max_position)

    def damage(self) -> None:
        root = self.stand.root
        what = self.rng.choice(["expire", "forget", "rows", "files", "nothing", "nothing"])
        if self.deleted and what in ("forget", "rows"):
            what = "nothing"  # else nobody would know of the deletions
        self.told.append(what)
        if what == "expire":
            files = sorted((root / "commitlog").iterdir())
            if len(files) > 2:
                files[0].unlink()
        elif what == "forget":
            (root / "config" / "dispatchWatermark.json").unlink(missing_ok=True)
        elif what == "rows" and is_present(root / "consumequeue"):
            rows = QueueRows(QueueDatabase(root / "consumequeue"))
            for topic, queue_id in list(rows.stored_queues()):
                begin = self.rng.randint(0, 40)
                rows.delete_units(topic, queue_id, begin, begin + self.rng.randint(1, 9))
            rows.close()
            # Our own brokers lose no rows, so they cannot have been the last.
            (root / "config" / "dispatchWatermark.json").unlink(missing_ok=True)
        elif what == "files":
            found = sorted((root / "consumequeue").glob("*/*/*"))
            if found:
                self.rng.choice(found).write_bytes(self.rng.randbytes(200))


@pytest.mark.slow
@pytest.mark.parametrize("seed", first(6, range(24)))
async def test_both_conversions_leave_what_the_log_says(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = Past(Stand(tmp_path / "store"), seed)
    for _ in range(past.rng.randint(1, 5)):
        await past.run()
    past.damage()
    root = past.stand.root
    files = Stand(Path(shutil.copytree(root, tmp_path / "files")))
    take_turns(monkeypatch)
    convert_to_rocksdb(root, jobs=1 + seed % 2)
    assert_rows_agree(past.stand.config(3), past.deleted)
    convert_to_files(files.root, queue_file_bytes=200)
    assert_files_agree(files.config(1), past.deleted)
