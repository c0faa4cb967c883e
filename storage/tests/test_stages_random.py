"""Random lives of a store in random stages: whatever happens, nothing is lost and all agrees."""

import os
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.storage import Store
from lanemq.testkit.storage.stages import (
    Stand,
    assert_files_agree,
    assert_rows_agree,
    copy_store,
    log_end,
    new_message,
    wanted_rows,
)
from lanemq.wire import SysFlag
from lanemq.wire.message import decode_message

Queue = tuple[str, int]
QUEUES: list[Queue] = [("A", 0), ("A", 1), ("Longer", 0)]


@dataclass
class Model:
    """Committed messages: queue -> number of each, and the times topics were deleted."""

    queues: dict[Queue, list[int]] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    number: int = 0


def put_some(rng: random.Random, store: Store, model: Model) -> None:
    for _ in range(rng.randint(1, 12)):
        topic, queue_id = queue = rng.choice(QUEUES)
        model.number += 1
        new = new_message(model.number, topic=topic, queue_id=queue_id)
        new.body += bytes(rng.choice((0, 10, 1500)))
        if rng.random() < 0.1:
            new.sys_flag = SysFlag.TRANSACTION_PREPARED
            store.put(new)
        else:
            numbers = model.queues.setdefault(queue, [])
            assert store.put(new).queue_offset == len(numbers)
            numbers.append(model.number)
    store.commit()


def check(store: Store, model: Model) -> None:
    for queue in QUEUES:
        numbers = model.queues.get(queue, [])
        begin, end = store.bounds(*queue)
        assert (begin, end) == (0, len(numbers)), queue
        for number, unit in zip(numbers, store.units(*queue, begin, end), strict=True):
            record = store.record_at(unit.log_position)
            assert record is not None
            found = decode_message(record)
            assert (found.topic, found.queue_id) == queue
            assert int(found.body.rstrip(b"\0")) == number
        for number in numbers[-3:]:
            by_key = store.query(queue[0], f"U{number}", max_count=9, begin_ms=0, end_ms=1 << 60)
            assert len(by_key.records) == 1


async def step(rng: random.Random, store: Store, model: Model) -> None:
    match rng.randint(0, 9):
        case 0 | 1 | 2 | 3 | 4:
            put_some(rng, store, model)
        case 5:
            await store._parts.housekeeping.flush_all()
            put_some(rng, store, model)
            if store.queue_rows is not None:  # which then run ahead of the log
                await store.in_rocksdb(store.max_position)
                store.queue_rows.flush()
        case 6:
            await store.in_rocksdb(store.max_position)
        case 7:
            await trio.sleep(rng.choice((0, 0.001, 0.01)))
        case 8:
            check(store, model)
        case 9:
            if rng.random() < 0.3:
                topic = rng.choice(QUEUES)[0]
                store.delete_topic(topic)
                model.deleted[topic] = store.max_position
                for queue in QUEUES:
                    if queue[0] == topic:
                        model.queues.pop(queue, None)


async def simulate(seed: int, directory: Path) -> None:
    rng, model = random.Random(seed), Model()
    stand = Stand(directory / "store", commit_log_file_bytes=8192)
    for life in range(rng.randint(2, 6)):
        stage = rng.randint(1, 3)
        lazy = {"rocksdb_backfill_rate": rng.choice((1, 1_000_000))}
        async with stand.open(stage, **lazy) as store:
            check(store, model)
            for _ in range(rng.randint(0, 10)):
                if lazy["rocksdb_backfill_rate"] > 1 or store.rocksdb_progress() is None:
                    await step(rng, store, model)
                else:
                    put_some(rng, store, model)
            copied = copy_store(stand.root, directory / f"copy{life}")
        ends = log_end(stand.config(1))
        end = rng.choice(("clean", "kill", "power", "notes lost"))
        if end in ("kill", "power"):
            stand.root = copied
            assert (copied / "abort").exists()
            if end == "power":
                ends = lose_power(rng, stand, model)
        elif end == "notes lost" and not model.deleted and stage != 1:
            os.unlink(stand.root / "config/dispatchWatermark.json")
        assert log_end(stand.config(1)) == ends
    for stage in (2, 3, 1):
        async with stand.open(stage) as store:
            await store.in_rocksdb(store.max_position)
            check(store, model)
        wanted = wanted_rows(stand.config(1), model.deleted)
        assert {queue: len(rows) for queue, rows in wanted.items()} == {
            queue: len(numbers) for queue, numbers in model.queues.items()
        }
        if stage > 1:
            assert_rows_agree(stand.config(2), model.deleted)
        if stage < 3:
            assert_files_agree(stand.config(2), model.deleted)


def lose_power(rng: random.Random, stand: Stand, model: Model) -> int:
    """Lose the end of the log, but nothing that a watermark says is durable."""
    notes = msgspec.json.decode((stand.root / "config/dispatchWatermark.json").read_bytes())
    durable = max(notes["files"], notes["index"], (notes.get("rocksdb") or {"end": 0})["end"])
    wanted = wanted_rows(stand.config(1), model.deleted)
    positions = [row[0] for rows in wanted.values() for row in rows.values() if row[0] >= durable]
    if not positions:
        return log_end(stand.config(1))
    cut = rng.choice(sorted(positions)[-8:])
    stand.erase_log(cut + rng.choice((0, 1, 30, 100)))
    for queue, rows in wanted.items():
        kept = [offset for offset, row in rows.items() if row[0] < cut]
        model.queues[queue] = model.queues[queue][: len(kept)]
        if not kept:
            del model.queues[queue]
    model.deleted = {topic: min(end, cut) for topic, end in model.deleted.items()}
    return cut


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**64 - 1))
def test_nothing_is_lost_in_any_stage(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        trio.run(simulate, seed, Path(directory))
