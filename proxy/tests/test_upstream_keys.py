"""Keys over an upstream log: proxies that follow one queue agree, whatever is lost between."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.proxy.gateway.kv import (
    KeyEntry,
    KeysUnavailable,
    NotYet,
    TooLong,
    UpstreamKeys,
    _log,
    _partition,
    _snapshot_writer,
    make_keys,
)
from lanemq.proxy.gateway.kv._log import PartitionLog
from lanemq.storage.kv import operation_properties
from lanemq.testkit.proxy.keys_history import KeysHistory
from lanemq.testkit.proxy.upstream_log import UpstreamLog, UpstreamLogQueue
from lanemq.testkit.storage.kv import end_few
from lanemq.wire.kv import (
    UNDER_WAY_MAX,
    Action,
    OpType,
    Step,
    chosen_client,
    client_problem,
    encode_compact,
    encode_steps,
)
from lanemq.wire.message import decode_properties

NAMES = [b"a", b"b"]


@asynccontextmanager
async def proxy(
    log: UpstreamLog, *, seed: int = 0, timeout_s: float = 15.0
) -> AsyncIterator[tuple[UpstreamKeys, UpstreamLogQueue]]:
    """Open the keys of one proxy over ``log``."""
    async with trio.open_nursery() as nursery:
        queue = log.queue(nursery)
        keys = make_keys(
            [queue],
            [log.snapshots.queue(nursery)],
            namespace="n",
            timeout_s=timeout_s,
            rng=random.Random(seed),
        )
        nursery.start_soon(keys.run)
        yield keys, queue
        nursery.cancel_scope.cancel()


@pytest.fixture
def log() -> UpstreamLog:
    return UpstreamLog(random.Random(1))


async def test_an_entry_is_put_read_compared_and_deleted(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with proxy(log) as (keys, _):
        assert await keys.read(b"a") is None
        assert await keys.put(b"a", b"1") == 1
        assert keys.get(b"a") == KeyEntry(b"1", 1)
        assert await keys.put(b"a", b"2", expected=1) == 2
        assert await keys.put(b"a", b"3", expected=1) is None
        assert await keys.put(b"a", b"3", expected=0) is None
        assert keys.get(b"a") == (b"2", 2)
        assert not await keys.delete(b"a", expected=1)
        assert await keys.delete(b"a", expected=2)
        assert await keys.read(b"a") is None
        version = await keys.put(b"a", b"4", expected=0)
        assert version == 3


async def test_two_proxies_agree_and_one_that_starts_later_too(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with proxy(log, seed=1) as (one, _), proxy(log, seed=2) as (two, _):
        assert await one.put(b"a", b"1", expected=0) == 1
        assert await two.put(b"a", b"2", expected=0) is None
        assert await two.read(b"a") == (b"1", 1)
        assert await two.put(b"b", b"2") == 1
        async with proxy(log, seed=3) as (three, _):
            assert await three.read(b"b") == (b"2", 1)
            assert three.scan(b"") == [(b"a", (b"1", 1)), (b"b", (b"2", 1))]
            await trio.sleep(1)  # all have applied everything
            hashes = {keys.logs[0].state.hash for keys in (one, two, three)}
    assert len(hashes) == 1


async def test_a_watch_gives_what_there_is_and_every_change(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with proxy(log, seed=1) as (one, _), proxy(log, seed=2) as (two, _):
        await one.put(b"a/1", b"1")
        await one.put(b"b/1", b"1")
        await two.read(b"a/1")
        changes = two.watch(b"a/")
        assert await anext(changes) == (b"a/1", (b"1", 1))
        await one.put(b"a/1", b"2")
        await one.delete(b"a/1")
        await one.put(b"a/2", b"3")
        assert await anext(changes) == (b"a/1", (b"2", 2))
        assert await anext(changes) == (b"a/1", None)
        assert (await anext(changes)).name == b"a/2"


async def test_a_write_whose_answers_are_lost_is_done_once(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with proxy(log, timeout_s=600.0) as (keys, _):
        await keys.read(b"a")
        log.faults = 0.3
        for number in range(1, 20):
            assert await keys.put(b"a", b"x") == number
    assert log.appends > 22  # some were repeated


async def test_no_client_can_write_as_a_proxy(log: UpstreamLog, autojump_clock: MockClock) -> None:
    """The id is in the log, where everybody reads it: else its numbers could be taken."""
    async with proxy(log, seed=1) as (one, _), proxy(log, seed=2) as (two, _):
        await one.put(b"a", b"1")
        await two.put(b"a", b"2")
    named = [decode_properties(record.properties) for record in log.records]
    writers = {each["kv_client"].partition(":")[0] for each in named if "kv_client" in each}
    assert len(writers) == 2
    assert all(client_problem(writer) for writer in writers)
    assert not any(chosen_client(writer) for writer in writers)


async def test_a_call_says_what_it_waits_for_while_the_broker_is_down(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with proxy(log) as (keys, _):
        await keys.put(b"a", b"1")
        log.is_down = True
        with pytest.raises(KeysUnavailable, match="not yet: the broker cannot be reached"):
            await keys.put(b"a", b"2")
        with pytest.raises(KeysUnavailable, match="not yet"):
            await keys.read(b"a")
        assert keys.get(b"a") == (b"1", 1)  # what this proxy knows
        log.is_down = False
        assert await keys.put(b"a", b"3") in (2, 3)


async def test_a_cluster_that_asks_for_an_account_from_now_on_closes_its_keys(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """A client without an account reads nothing of what the proxy has read before."""
    async with proxy(log) as (keys, _):
        await keys.put(b"a", b"1")
        (partition,) = keys.logs
        log.asks_for_account = True
        with pytest.raises(KeysUnavailable, match="has accounts"):
            await keys.read(b"a")
        assert not partition.follower.opened.is_set()
        log.asks_for_account = False
        assert await keys.put(b"a", b"2") == 2
        assert partition.follower.opened.is_set()


async def test_a_log_without_its_begin_is_not_served(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with proxy(log, seed=1) as (keys, _):
        await keys.put(b"a", b"1")
        await keys.put(b"b", b"1")
    log.begin = 2
    async with proxy(log, seed=2) as (keys, _):
        with pytest.raises(KeysUnavailable, match="record 0 is needed, and there is no snapshot"):
            await keys.read(b"b")
        with pytest.raises(KeysUnavailable, match="record 0 is needed"):
            await keys.put(b"b", b"2")
        assert keys.get(b"b") is None


async def test_records_that_the_broker_has_lost_are_noticed(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """The log was shorter than what was read of it, and has grown again by other records."""
    async with proxy(log, seed=1) as (one, queue), proxy(log, seed=2) as (two, _):
        await one.put(b"a", b"1")
        await trio.sleep(1)  # both have begun
        await one.put(b"a", b"2")
        await two.read(b"a")
        queue.is_cut = log.is_down = True
        await trio.sleep(20)
        del log.records[-1]
        log.is_down = False
        await two.put(b"b", b"1")  # in the place of the lost record
        queue.is_cut = False
        await trio.sleep(20)
        assert await one.read(b"a") == await two.read(b"a") == (b"1", 1)
        await trio.sleep(1)
        assert one.logs[0].state.hash == two.logs[0].state.hash


async def test_writes_and_watches_go_on_after_the_broker_has_lost_records(
    log: UpstreamLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxy(log, seed=1) as (one, _), proxy(log, seed=2) as (two, _):
        watch = one.watch(b"")
        for value in (b"1", b"lost"):
            kept = len(log.records)
            assert await one.put(b"a", value)
        assert watch.told() == [(b"a", (b"lost", 2))]
        versions: list[int | None] = []

        async def put(number: int) -> None:
            versions.append(await one.put(f"b/{number}".encode(), b"0"))

        async def append(*_: object) -> None:
            await trio.sleep(0.01)
            raise NotYet("nothing is taken")

        log.is_down = True
        await trio.sleep(20)  # in which pulls that wait end
        async with trio.open_nursery() as nursery:
            for number in range(UNDER_WAY_MAX + 50):
                nursery.start_soon(put, number)
            await trio.sleep(1)
            del log.records[kept:]
            with monkeypatch.context() as patch:
                patch.setattr(UpstreamLogQueue, "append", append)
                log.is_down = False
                await trio.sleep(6)  # in which the state is made again
            assert await two.put(b"a", b"2") == 2  # the same version again
        assert versions == [1] * (UNDER_WAY_MAX + 50)
        assert await one.read(b"a") == (b"2", 2)
        assert (b"a", (b"2", 2)) in watch.told()


async def test_foreign_records_change_nothing(log: UpstreamLog, autojump_clock: MockClock) -> None:
    async with proxy(log) as (keys, _):
        await keys.put(b"a", b"1")
        log.store(b"hello", b"")
        log.store(b"\xff\xff", b"kv_opType\x01put\x02")
        log.store(b"", b"kv_opType\x01tick\x02kv_time\x01many\x02")
        assert await keys.put(b"a", b"2") == 2
        assert keys.scan(b"") == [(b"a", (b"2", 2))]


def writer_of(log: UpstreamLog) -> tuple[str, int]:
    """Return the id and the latest number of the only proxy."""
    text = decode_properties(log.records[-1].properties)["kv_client"]
    writer, number, _ = text.rsplit(":", 2)
    return writer, int(number)


def spoof(log: UpstreamLog, op_type: str, body: bytes, *numbers: int) -> None:
    """Write with the id of the proxy, and with numbers of its next writes."""
    writer, last = writer_of(log)
    for number in numbers:
        properties = operation_properties(op_type, client=writer, sequence=last + number, waits=1)
        log.store(body, properties)


OTHERS = [
    (OpType.TICK, b""),
    (OpType.PUT, encode_steps([Step(b"a", Action.PUT, b"other")])),
    (OpType.PUT, encode_steps([Step(b"b", Action.PUT, b"other")])),
    (OpType.BATCH, encode_steps([Step(b"b", Action.PUT, b"1"), Step(b"c", Action.PUT, b"1")])),
    (OpType.PUT, b"no body"),
    ("no operation", b""),
]


@pytest.mark.parametrize(("op_type", "body"), OTHERS)
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_write_with_the_id_of_a_proxy_answers_none_of_its_own(
    log: UpstreamLog, autojump_clock: MockClock, op_type: str, body: bytes, is_first: bool
) -> None:
    """The id is in the log. Such a record is there before the proxy writes, or beside it."""
    async with proxy(log) as (keys, _):
        await keys.put(b"a", b"0")
        versions = []
        if is_first:
            spoof(log, op_type, body, 1, 2, 3)
            await keys.read(b"a")
            versions.append(await keys.put(b"a", b"mine"))
        else:
            async with trio.open_nursery() as nursery:

                async def put() -> None:
                    versions.append(await keys.put(b"a", b"mine"))

                nursery.start_soon(put)
                spoof(log, op_type, body, 1)
        entry = keys.get(b"a")
        assert entry is not None
        assert (entry.value, entry.version) == (b"mine", versions[0])
        assert await keys.put(b"a", b"later", expected=entry.version) == entry.version + 1
        assert await keys.delete(b"a")
        assert await keys.read(b"a") is None


async def test_a_write_that_may_be_anothers_is_not_answered(
    log: UpstreamLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number has a result, and the record of that is no longer known."""
    monkeypatch.setattr(_partition, "RECENT_BYTES_MAX", 1)
    async with proxy(log) as (keys, _):
        await keys.put(b"a", b"0")
        spoof(log, *OTHERS[1], 1, 1000)
        await keys.read(b"a")
        with pytest.raises(KeysUnavailable, match="FORGOTTEN"):
            await keys.put(b"a", b"mine")


async def test_records_of_others_take_no_memory_beyond_what_proxies_write(
    log: UpstreamLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write to the topic upstream could fill all proxies, and set their time."""
    monkeypatch.setattr(_partition, "STRANGE_BYTES_MAX", 10_000)
    async with proxy(log, seed=1) as (one, _):
        await one.put(b"a", b"1", ttl_s=10)
        for number in range(50):
            put = encode_steps([Step(b"k%02d" % number, Action.PUT, b"x" * 1000)])
            log.store(put, b"kv_opType\x01put\x02")
        log.store(b"", b"kv_opType\x01tick\x02kv_time\x01999999999999999\x02")
        assert await one.delete(b"k00")
        assert len(one.scan(b"")) < 12
        assert await one.read(b"a") is not None, "its time has not come"
        async with proxy(log, seed=2) as (two, _):
            await two.read(b"a")
            await trio.sleep(1)  # in which both apply what the second one has written at its start
            assert two.logs[0].state.hash == one.logs[0].state.hash
            await trio.sleep(20)
            assert await two.read(b"a") is None


async def test_a_compaction_makes_room_where_memory_is_full(
    log: UpstreamLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record removes a thousand rows: more of them follow until there is room."""
    async with proxy(log) as (keys, _):
        for _ in range(2500):
            log.store(encode_steps([Step(b"k", Action.PUT)]), b"kv_opType\x01put\x02")
        await keys.put(b"k", b"")
        monkeypatch.setattr(_log, "MEMORY_BYTES_MAX", 100_000)
        with pytest.raises(KeysUnavailable, match="compact"):
            await keys.put(b"k", b"")
        (one,) = keys.logs
        await one.write(OpType.COMPACT, encode_compact(one.state.meta.next))
        await trio.sleep(5)
        await keys.put(b"k", b"")
        assert one.follower.kept.rows_bytes < 100_000


async def test_history_makes_room_before_writes_are_refused(
    log: UpstreamLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_log, "MEMORY_BYTES_MAX", 600_000)
    async with proxy(log, seed=1) as (one, _), proxy(log, seed=2) as (two, _):
        await one.put(b"k", b"")
        for _ in range(5000):
            log.store(encode_steps([Step(b"k", Action.PUT)]), b"kv_opType\x01put\x02")
        await trio.sleep(10)
        for keys in (one, two):
            await keys.put(b"k", b"")
            meta = keys.logs[0].state.meta
            assert 1000 < meta.changes < 3000
        end = meta.next
        await trio.sleep(60)
        assert two.logs[0].state.meta.next == end, "and no more than that"
        assert two.logs[0].state.hash == one.logs[0].state.hash


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
async def test_the_clock_of_the_broker_does_not_age_entries(
    log: UpstreamLog, autojump_clock: MockClock, step_ms: int
) -> None:
    """Neither for proxies that run, nor for one that starts after the step."""
    real = log.clock_ms
    async with proxy(log, seed=1) as (one, _):
        began_s = trio.current_time()
        await one.put(b"lock", b"x", ttl_s=100)
        await trio.sleep(50)
        log.clock_ms = lambda: real() + step_ms
        await one.put(b"other", b"y")
        async with proxy(log, seed=2) as (two, _):
            await two.put(b"other", b"z")
            assert await two.read(b"lock") is not None
            async for change in two.watch(b"lock"):
                if change.entry is None:
                    break
            assert 99.9 <= trio.current_time() - began_s <= 101.5
            assert await one.read(b"lock") is None


async def test_the_time_without_any_proxy_counts(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with proxy(log, seed=1) as (keys, _):
        await keys.put(b"lock", b"x", ttl_s=100)
        await keys.put(b"later", b"x", ttl_s=1000)
    await trio.sleep(200)
    async with proxy(log, seed=2) as (keys, _):
        await keys.put(b"a", b"1")
        assert await keys.read(b"lock") is None
        assert await keys.read(b"later") is not None


async def test_entries_expire_in_a_log_that_is_not_written(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with proxy(log, seed=1) as (one, _), proxy(log, seed=2) as (two, _):
        await one.put(b"lock", b"x", ttl_s=60)
        changes = two.watch(b"lock")
        assert (await anext(changes)).entry is not None
        began_s = trio.current_time()
        assert (await anext(changes)).entry is None
        assert 59 <= trio.current_time() - began_s <= 62


async def test_entries_of_one_time_expire_together(
    log: UpstreamLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record ends a few of them, and the next one does not wait for the next look."""
    end_few(monkeypatch, 2)
    async with proxy(log) as (keys, _):
        began_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(partial(keys.put, b"%d" % number, b"", ttl_s=60))
        changes = keys.watch(b"")
        for _ in range(100):
            assert (await anext(changes)).entry is not None
        for _ in range(100):
            assert (await anext(changes)).entry is None
        assert 59 <= trio.current_time() - began_s <= 64


async def test_a_start_takes_a_snapshot_and_the_rest_of_the_log(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with proxy(log, seed=1) as (one, _):
        for number in range(300):
            await one.put(b"key/%d" % (number % 100), b"%d" % number * 50)
        await one.put(b"lock", b"x", ttl_s=100)
        await one.writers[0].write()
        await one.delete(b"key/7")
        await one.put(b"last", b"1")
        log.begin = len(log.records) - 5
        assert one.statuses()[0].snapshot is not None
        async with proxy(log, seed=2) as (two, _):
            assert await two.read(b"key/7") is None
            assert await two.read(b"key/8") == await one.read(b"key/8")
            await trio.sleep(1)
            assert two.logs[0].state.hash == one.logs[0].state.hash
            assert two.statuses()[0].snapshot == one.statuses()[0].snapshot
            changes = two.watch(b"lock")
            assert (await anext(changes)).entry is not None
            assert (await anext(changes)).entry is None
    log.begin = len(log.records) - 1  # what followed the snapshot is gone, too
    async with proxy(log, seed=3) as (three, _):
        with pytest.raises(KeysUnavailable, match="there is no snapshot with it"):
            await three.read(b"last")


async def test_a_snapshot_is_written_when_it_is_due_and_once(
    log: UpstreamLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_snapshot_writer, "RECORDS", 100)
    monkeypatch.setattr(_snapshot_writer, "AGE_MS", 60_000)
    async with proxy(log, seed=1) as (one, _), proxy(log, seed=2) as (two, _):
        for number in range(150):
            await one.put(b"a", b"%d" % number)
        assert snapshots_of(log) == 0
        await trio.sleep(10)
        assert snapshots_of(log) == 1
        assert one.statuses()[0].snapshot == two.statuses()[0].snapshot is not None
        await trio.sleep(65)  # by its age
        assert snapshots_of(log) == 2
        assert two.statuses()[0].lag == 0


def snapshots_of(log: UpstreamLog) -> int:
    """Return the number of whole snapshots."""
    return sum(b"kv_snapshot" in one.properties for one in log.records)


async def test_a_snapshot_without_a_part_is_left_out(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with proxy(log, seed=1) as (one, _):
        for number in range(30):
            await one.put(b"%d" % number, b"x" * 100_000)
        await one.writers[0].write()
        await one.put(b"1", b"y")
        count = len(log.snapshots.records)
        assert count > 3
        await one.writers[0].write()
        gone = log.snapshots.records[count + 1]
        log.snapshots.records[count + 1] = gone._replace(body=b"")
    async with proxy(log, seed=2) as (two, _):
        assert await two.read(b"1") == (b"y", 2)
        assert two.statuses()[0].snapshot is not None
    log.begin = 10
    async with proxy(log, seed=3) as (three, _):
        assert await three.read(b"1") == (b"y", 2)
    log.snapshots.begin = count
    async with proxy(log, seed=4) as (four, _):
        with pytest.raises(KeysUnavailable, match="there is no snapshot with it"):
            await four.read(b"1")


@pytest.mark.parametrize("record_bytes_max", [6 << 10, 64 << 10, 1 << 20, 4 << 20])
async def test_what_a_log_takes_its_snapshots_take_too(
    log: UpstreamLog, autojump_clock: MockClock, record_bytes_max: int
) -> None:
    """A row has more bytes than the write that made it, and parts of many rows may be too long."""
    log.record_bytes_max = log.snapshots.record_bytes_max = record_bytes_max
    rng = random.Random(7)
    async with proxy(log, seed=1) as (one, _):
        longest = rng.randbytes(record_bytes_max)
        while True:
            try:
                await one.put(b"longest", longest)
            except TooLong:
                longest = longest[1:] if len(longest) < record_bytes_max - 40 else longest[10:]
            else:
                break
        assert len(longest) > record_bytes_max - 400
        for number in range(100):
            await one.put(b"%d" % number, b"x" * 500)
        assert await one.writers[0].write() is not None
        await one.put(b"last", b"1")
        log.begin = len(log.records) - 2
        async with proxy(log, seed=2) as (two, _):
            assert await two.read(b"longest") == (longest, 1)
            await trio.sleep(1)
            assert two.scan(b"") == one.scan(b"")
            assert two.logs[0].state.hash == one.logs[0].state.hash


async def test_a_broker_that_takes_no_snapshot_does_not_end_the_proxy(
    log: UpstreamLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_snapshot_writer, "RECORDS", 10)
    log.snapshots.record_bytes_max = 1000
    async with proxy(log, seed=1) as (one, _):
        for number in range(20):
            await one.put(b"%d" % number, b"x" * 500)
        await trio.sleep(100)
        assert not log.snapshots.records
        assert await one.read(b"1") == (b"x" * 500, 1)
        log.snapshots.record_bytes_max = 4 << 20
        await trio.sleep(100)
        assert log.snapshots.records
        assert one.statuses()[0].snapshot is not None


async def test_snapshots_of_another_log_are_not_taken(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """Its topic was deleted, and that of the snapshots was not."""
    async with proxy(log, seed=1) as (one, _):
        await one.put(b"a", b"1")
        await one.put(b"a", b"2")
        await one.writers[0].write()
    log.records.clear()
    async with proxy(log, seed=2) as (two, _):
        assert await two.read(b"a") is None
        for _ in range(10):
            await two.put(b"b", b"1")
    async with proxy(log, seed=3) as (three, _):
        assert await three.read(b"a") is None
        assert await three.read(b"b") == (b"1", 10)


async def run_proxies(seed: int) -> KeysHistory:
    """Let clients work at proxies that crash and are cut off, over a log with faults."""
    rng = random.Random(seed)
    log, clients = UpstreamLog(rng), KeysHistory(NAMES)
    log.faults = rng.choice((0.0, 0.02, 0.1))
    numbers = iter(range(1000))

    async def life(calls: int) -> None:
        for _ in range(rng.randint(1, 3)):
            async with proxy(log, seed=rng.getrandbits(32)) as (keys, queue):
                with trio.move_on_after(rng.choice((rng.uniform(0.01, 20), 1000.0))):
                    async with trio.open_nursery() as nursery:
                        for _ in range(rng.randint(1, 3)):
                            of_client = random.Random(rng.getrandbits(32))
                            nursery.start_soon(
                                partial(clients.work, keys, next(numbers), of_client, calls=calls)
                            )
                        while rng.random() < 0.5:
                            await trio.sleep(rng.uniform(0, 10))
                            if rng.random() < 0.5 and keys.logs[0].follower.opened.is_set():
                                nursery.start_soon(keys.writers[0].write)
                            queue.is_cut = not queue.is_cut
                        queue.is_cut = False

    async def outages() -> None:
        while True:
            await trio.sleep(rng.uniform(5, 40))
            log.is_down = True
            await trio.sleep(rng.uniform(0, 10))
            log.is_down = False

    async def retention() -> None:
        """Remove what is in a snapshot, as soon as it is."""
        while True:
            await trio.sleep(rng.uniform(1, 20))
            told = [one for one in log.records if b"kv_snapshot" in one.properties]
            if told:
                position = decode_properties(told[-1].properties)["kv_snapshot"]
                log.begin = rng.randint(log.begin, max(log.begin, int(position)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(outages)
        nursery.start_soon(retention)
        async with trio.open_nursery() as lives:
            for _ in range(rng.randint(1, 3)):
                lives.start_soon(life, rng.randint(1, 12))
        nursery.cancel_scope.cancel()
    log.faults, log.is_down = 0.0, False
    async with proxy(log, seed=1) as (one, _), proxy(log, seed=2) as (two, _):
        for name in NAMES:
            await clients.call(name, "get", partial(one.read, name))
            await clients.call(name, "get", partial(two.read, name))
        await trio.sleep(1)
        assert one.logs[0].state.hash == two.logs[0].state.hash
    return clients


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_proxies_over_one_log_are_one_store(seed: int) -> None:
    history = trio.run(run_proxies, seed, clock=MockClock(autojump_threshold=0))
    assert history.is_linearizable


def test_a_proxy_that_answers_from_the_past_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken build: a read does not wait for what others have written."""

    async def current(log: PartitionLog) -> None:
        await log.follower.opened.wait()

    monkeypatch.setattr(PartitionLog, "current", current)
    histories = (
        trio.run(run_proxies, seed, clock=MockClock(autojump_threshold=0)) for seed in range(50)
    )
    assert not all(history.is_linearizable for history in histories)
