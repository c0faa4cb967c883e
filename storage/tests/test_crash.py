"""Whatever a crash leaves, the store opens, has what it promised, and goes on without a gap.

Each run is one seed: a broker's life on a disk in memory, killed or cut off from power at a
random operation, several times over. See ``lanemq.testkit.storage.disk`` for the faults.
"""

import random
from dataclasses import dataclass, field
from typing import Literal

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.storage import FlushMode, NewMessage, Put, Store, StoreConfig, open_store
from lanemq.testkit.storage.batches import batch_of, puts_of
from lanemq.testkit.storage.disk import Crash, SimulatedFiles
from lanemq.testkit.storage.stores import HOST, ROOT, START_MS
from lanemq.wire import SysFlag
from lanemq.wire.message import decode_message, encode_properties

FOREVER_MS = 1 << 62
CONFIG = StoreConfig(
    root=ROOT,
    commit_log_file_bytes=2048,
    consume_queue_file_bytes=200,
    max_hash_slots=7,
    max_index_entries=40,
    tail_cache_bytes=1024,
    flush=FlushMode.ASYNC,
    flush_interval_s=0.05,
    flush_least_bytes=1,
    queue_flush_interval_s=0.03,
    queue_thorough_interval_s=0.2,
    offsets_persist_interval_s=0.1,
)
How = Literal["kill", "power"]


def clock_ms() -> int:
    return START_MS + int(trio.current_time() * 1000)


@dataclass
class Model:
    """The store's promises."""

    written: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=dict)
    """Queue -> offset -> body of all that was committed: a kill may not lose it."""
    durable_end: int = 0
    """Nothing of the log before it may be lost with the power."""
    ends: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    """Queue -> offset -> end of the record."""
    next_body: int = 0

    def committed(self, message: NewMessage, put: Put) -> None:
        queue = message.topic, message.queue_id
        self.written.setdefault(queue, {})[put.queue_offset] = message.body
        self.ends.setdefault(queue, {})[put.queue_offset] = put.end

    def after(self, how: How) -> None:
        """Forget what a loss of power may take."""
        if how == "power":
            for queue, ends in self.ends.items():
                for offset in [offset for offset, end in ends.items() if end > self.durable_end]:
                    del ends[offset], self.written[queue][offset]


def new_message(rng: random.Random, model: Model, queue: tuple[str, int]) -> NewMessage:
    model.next_body += 1
    body = b"%d " % model.next_body + rng.randbytes(rng.choice((0, 10, 100, 300)))
    return NewMessage(
        topic=queue[0],
        queue_id=queue[1],
        body=body,
        properties=encode_properties(
            {"UNIQ_KEY": f"U{model.next_body}", "KEYS": f"k{model.next_body % 5}", "TAGS": "t"}
        ),
        born_timestamp_ms=clock_ms(),
        born_host=HOST,
        store_host=HOST,
    )


async def put_some(rng: random.Random, store: Store, model: Model) -> None:
    taken: list[tuple[NewMessage, Put]] = []
    for _ in range(rng.randint(1, 4)):
        queue = rng.choice("AB"), rng.randint(0, 1)
        messages = [new_message(rng, model, queue) for _ in range(rng.choice((1, 1, 1, 3)))]
        if rng.random() < 0.1:
            messages[0].sys_flag = SysFlag.TRANSACTION_PREPARED
            store.put(messages[0])
        elif len(messages) == 1:
            taken.append((messages[0], store.put(messages[0])))
        else:
            taken += zip(messages, puts_of(store.put_batch(batch_of(messages))), strict=True)
    store.commit()
    for message, put in taken:
        model.committed(message, put)
    if rng.random() < 0.3:
        end = store.max_position
        await store.flushed(end)
        model.durable_end = end


def check(store: Store, model: Model) -> None:
    """Safety: nothing promised is lost, no gap, log and queues and index agree."""
    for queue, bodies in model.written.items():
        begin, end = store.bounds(*queue)
        assert begin == 0
        assert all(offset < end for offset in bodies), (queue, end, sorted(bodies))
        for offset, unit in enumerate(store.units(*queue, begin, end)):
            record = store.record_at(unit.log_position)
            assert record is not None
            message = decode_message(record, check_crc=True)
            assert (message.topic, message.queue_id, message.queue_offset) == (*queue, offset)
            assert len(record) == unit.size_bytes
            if offset in bodies:
                assert message.body == bodies[offset]
            # The checksum of the format covers the body alone: a last record that nobody was
            # promised may come back with torn properties, in the reference as here.
            if message.unique_key:
                found = store.query(
                    queue[0], message.unique_key, max_count=9, begin_ms=0, end_ms=FOREVER_MS
                )
                assert found.records.count(record) == 1
            # What survived without a promise is promised from now on.
            bodies[offset] = message.body
            model.ends[queue][offset] = unit.log_position + unit.size_bytes


def only_crashes(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(only_crashes(inner) for inner in error.exceptions)
    return isinstance(error, Crash)


async def live(rng: random.Random, files: SimulatedFiles, model: Model, steps: int) -> None:
    """A life that may end at any operation."""
    try:
        async with open_store(CONFIG, files=files, clock_ms=clock_ms) as store:
            check(store, model)
            for _ in range(steps):
                await put_some(rng, store, model)
                store.tables.consumer_offsets.put("g", "A", 0, store.bounds("A", 0)[1])
                if rng.random() < 0.5:
                    await trio.sleep(rng.choice((0.01, 0.1, 1, 4)))
            if rng.random() < 0.7:
                files.kill()
    except BaseException as error:
        if not only_crashes(error):
            raise


async def simulate(seed: int) -> None:
    rng = random.Random(seed)
    files, model = SimulatedFiles(seed=seed, now_s=trio.current_time), Model()
    for _ in range(4):
        files.crash_after = rng.choice((None, rng.randint(0, 30), rng.randint(0, 200)))
        await live(rng, files, model, steps=rng.randint(0, 25))
        how: How = rng.choice(("kill", "power"))
        files = files.reboot(how)
        model.after(how)
    # Everything healed: two quiet openings, the second after a clean stop, show the same.
    async with open_store(CONFIG, files=files, clock_ms=clock_ms) as store:
        check(store, model)
        await put_some(rng, store, model)
        end = store.max_position
    assert not files.exists(ROOT / "abort")
    async with open_store(CONFIG, files=files, clock_ms=clock_ms) as store:
        assert store.max_position == end
        check(store, model)


SEEDS = st.integers(0, 2**64 - 1)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, schedule=st.random_module())
def test_nothing_promised_is_lost_whenever_the_process_dies(seed: int, schedule: object) -> None:
    trio.run(simulate, seed, clock=MockClock(autojump_threshold=0))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(seed=SEEDS, schedule=st.random_module())
def test_nothing_promised_is_lost_in_many_more_lives(seed: int, schedule: object) -> None:
    trio.run(simulate, seed, clock=MockClock(autojump_threshold=0))
