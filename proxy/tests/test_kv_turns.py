"""Reads and writes of keys that take long are cut into turns, between which others are served."""

from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy.net import _page_turns
from lanemq.proxy.net._page_turns import Turns
from lanemq.proxy.net._session import Session
from lanemq.proxy.sessions.keys import _pages
from lanemq.proxy.sessions.keys._watches import Watches
from lanemq.storage import KvEngine
from lanemq.testkit.proxy.keys import Keys, keys_of, result
from lanemq.testkit.storage.kv import count_decoded, end_few, hurry, reads_of_the_past
from lanemq.wire import HostAddress, Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import KvWatch
from lanemq.wire.kv import (
    LOAD_ENTRIES_MAX,
    STEPS_MAX,
    Action,
    Change,
    Changes,
    Entry,
    LeaseTerms,
    LoadedEntry,
    OpType,
    Page,
    RangePage,
    Step,
    decode_answer,
    encode_key,
    encode_load,
    encode_steps,
    encode_terms,
)


def now_ms() -> int:
    """A time of day that goes with trio's clock."""
    return 1_700_000_000_000 + int(trio.current_time() * 1000)


SESSIONS = [object() for _ in range(3)]


def session(number: int) -> Session:
    return SESSIONS[number]  # type: ignore[return-value]


async def changes_from(keys: Keys, position: int, prefix: bytes = b"") -> list[Change]:
    """The changes of all pages."""
    found: list[Change] = []
    index = 0
    while True:
        answer = await keys.ask(
            RequestCode.KV_WATCH, position=position, index=index, prefix=encode_key(prefix)
        )
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        changes = decode_answer(answer.body, Changes)
        if (changes.next_position, changes.next_index) == (position, index):
            return found
        found += changes.changes
        position, index = changes.next_position, changes.next_index


async def batches(keys: Keys, number: int, size: int) -> None:
    for batch in range(number):
        steps = [Step(b"k%03d" % n, Action.PUT, b"%d.%d" % (batch, n)) for n in range(size)]
        assert result(await keys.write(OpType.BATCH, *steps)).done


@pytest.mark.parametrize("engine", list(KvEngine))
async def test_a_watch_behind_batches_decodes_each_record_once_a_page(
    tmp_path: Path, engine: KvEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keys_of(tmp_path, kv_engine=engine) as (keys, _):
        await batches(keys, 8, 250)
        decoded = count_decoded(monkeypatch)
        found = await changes_from(keys, 0)
        expected = [
            (batch, n, b"k%03d" % n, b"%d.%d" % (batch, n))
            for batch in range(8)
            for n in range(250)
        ]
        assert [(one.position, one.index, one.key, one.value) for one in found] == expected
        # Two pages of 1,000 begin, and the last batch's values are those of the entries.
        assert 7 <= len(decoded) <= 7 + 2


@pytest.mark.parametrize("engine", list(KvEngine))
async def test_pages_that_end_early_have_the_same_together(
    tmp_path: Path, engine: KvEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keys_of(tmp_path, kv_engine=engine) as (keys, _):
        await batches(keys, 3, 100)
        whole = await changes_from(keys, 0)
        some = await changes_from(keys, 0, b"k05")
        hurry(monkeypatch, _pages)
        assert await changes_from(keys, 0) == whole
        assert await changes_from(keys, 0, b"k05") == some
        entries: list[Entry] = []
        cursor, pages, snapshot = b"", 0, "new"
        while True:
            answer = await keys.ask(
                RequestCode.KV_SCAN, cursor=encode_key(cursor), limit=1000, snapshot=snapshot
            )
            page = decode_answer(answer.body, Page)
            entries += page.entries
            pages += 1
            if page.cursor is None or page.snapshot is None:
                break
            cursor, snapshot = page.cursor, page.snapshot
        assert pages > 10
        assert [one.value for one in entries] == [b"2.%d" % n for n in range(100)]
        wanted = [one.key for one in entries]
        answer = await keys.ask(RequestCode.KV_MULTI_GET, msgspec.msgpack.encode(wanted))
        first = decode_answer(answer.body, list[Entry | None])
        assert first == entries[: len(first)]
        assert 0 < len(first) < len(wanted)


@pytest.mark.parametrize("engine", list(KvEngine))
async def test_writes_that_are_too_much_for_one_turn_are_applied_in_order_in_later_ones(
    tmp_path: Path, engine: KvEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keys_of(tmp_path, kv_engine=engine) as (keys, _):
        await keys.put(b"n", b"")
        other = Keys(keys.client, "other")
        await other.put(b"n", b"")
        hurry(monkeypatch)
        frames = [
            keys.client.frame(
                RequestCode.KV_WRITE,
                {"namespace": one.namespace, "opType": OpType.PUT},
                encode_steps([Step(b"n", Action.PUT, b"%d" % number)]),
            )
            for number in range(20)
            for one in (keys, other)
        ]
        await keys.client.peer.send(*frames)
        positions = {}
        for _ in frames:
            answer = await keys.client.peer.receive()
            assert isinstance(answer, Frame)
            positions[answer.opaque] = result(answer).position
        numbers = [positions[frame.opaque] for frame in frames]
        assert numbers == [number for number in range(1, 21) for _ in range(2)]
        for one in (keys, other):
            entry = await one.get(b"n")
            assert entry is not None
            assert (entry.value, entry.version) == (b"19", 21)
            assert (await one.status()).position == 21


async def test_a_long_write_is_applied_in_a_turn_of_its_own(tmp_path: Path) -> None:
    """Its check and its way into the log have taken one."""
    async with keys_of(tmp_path, mapped_file_size_commit_log=1 << 26) as (keys, broker):
        await keys.put(b"n", b"")
        states, appliers = broker.context.store.kv, list[str]()
        assert states is not None
        states.on_applied.append(lambda *_: appliers.append(trio.lowlevel.current_task().name))
        many = [Step(b"%04d" % number + b"k" * 4000, Action.DELETE) for number in range(STEPS_MAX)]
        for steps in ([Step(b"n", Action.DELETE)], many, [Step(b"n", Action.PUT, b"v")]):
            assert result(await keys.write(OpType.BATCH, *steps)).done
        short, long, *others = appliers
        assert long != short
        assert others == [short]


async def test_many_entries_that_expire_at_once_are_removed_in_turns(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = 1_000_000
    async with keys_of(tmp_path, now_ms=lambda: now_ms) as (keys, broker):
        for start in range(0, 3000, 1000):
            steps = [Step(b"%d" % n, Action.PUT, b"v", 50) for n in range(start, start + 1000)]
            assert result(await keys.write(OpType.BATCH, *steps)).done
        hurry(monkeypatch)
        now_ms += 60
        await broker.broker.clock_moved()
        await wait_all_tasks_blocked()
        assert (await keys.status()).entries == 0
        kinds = [one.kind for one in await changes_from(keys, 3)]
        assert len(kinds) == 3000


async def test_leases_that_are_due_together_end_together_and_writers_are_served_meanwhile(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record ends a few of them, and the next one does not wait for the next tick."""
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY, now_ms=now_ms) as (keys, _):
        await keys.put(b"w", b"")
        for lease in range(1, 101):
            terms = encode_terms(LeaseTerms(lease, 5000))
            granted = await keys.ask(RequestCode.KV_WRITE, terms, opType=OpType.LEASE)
            assert result(granted).done
            step = Step(b"k%d" % lease, Action.PUT, b"v", ttl_ms=-lease)
            assert result(await keys.write(OpType.PUT, step)).done
        begin = (await keys.status()).position
        end_few(monkeypatch, 4)  # two leases with their entries
        mock_clock.jump(5.3)  # one tick, and no more
        written = list[int]()
        while (await keys.status()).leases and len(written) < 100:
            written.append(result(await keys.put(b"w", b"")).position)
        status = await keys.status()
        assert (status.leases, status.entries) == (0, 1)
        assert len(written) > 3
        assert 50 <= status.position - begin <= 50 + len(written)


async def test_what_could_not_be_written_to_the_log_expires_by_a_later_tick(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY, now_ms=now_ms) as (keys, broker):
        steps = [Step(b"%d" % n, Action.PUT, b"v", 5000) for n in range(20)]
        assert result(await keys.write(OpType.BATCH, *steps)).done
        end_few(monkeypatch, 2)
        assert broker.broker._kv is not None
        own = broker.broker._kv.writes.own
        commit, commits = own._commit, list[int]()

        def failing() -> None:
            commits.append(1)
            if len(commits) == 2:
                raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is full")
            commit()

        monkeypatch.setattr(own, "_commit", failing)
        mock_clock.jump(5.3)
        await wait_all_tasks_blocked()
        assert len(commits) == 2
        mock_clock.jump(0.3)
        await wait_all_tasks_blocked()
        assert (await keys.status()).entries == 0


async def test_a_load_has_no_more_entries_than_a_batch_has_steps(tmp_path: Path) -> None:
    """A record is applied in one turn, and entries of both that expire take as long."""
    assert LOAD_ENTRIES_MAX <= STEPS_MAX
    async with keys_of(tmp_path) as (keys, _):
        never = 1 << 60
        entries = [LoadedEntry(b"%d" % n, b"", 1, 1, 1, never) for n in range(LOAD_ENTRIES_MAX + 1)]
        refused = await keys.ask(
            RequestCode.KV_WRITE, encode_load(entries), opType=OpType.LOAD, createAt="*"
        )
        assert refused.code == ResponseCode.INVALID_PARAMETER
        assert str(LOAD_ENTRIES_MAX) in (refused.remark or "")
        taken = await keys.ask(
            RequestCode.KV_WRITE, encode_load(entries[1:]), opType=OpType.LOAD, createAt="*"
        )
        assert result(taken).done
        assert (await keys.status()).entries == LOAD_ENTRIES_MAX


# The turns


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which only the test changes."""
    now = [0.0]
    monkeypatch.setattr(_page_turns, "perf_counter", lambda: now[0])
    return now


class TurnsOfLoop(trio.abc.Instrument):
    """Counts the turns of the loop."""

    turn = 0

    def after_io_wait(self, timeout: float) -> None:
        self.turn += 1


async def test_pages_beyond_a_turn_wait_and_peers_are_served_in_rotation(
    seconds: list[float],
) -> None:
    turns, read, read_in, clock = Turns(), list[tuple[int, int]](), list[int](), TurnsOfLoop()
    trio.lowlevel.add_instrument(clock)

    async def page(peer: int, number: int) -> None:
        def take(until_s: float) -> None:
            assert until_s == seconds[0] + _page_turns.PAGE_S
            seconds[0] = until_s + 1
            read.append((peer, number))
            read_in.append(clock.turn)

        await turns.later(session(peer), take)

    async with trio.open_nursery() as nursery:
        turns.now(lambda until_s: seconds.__setitem__(0, until_s))
        for number in range(4):
            nursery.start_soon(page, 0, number)
            await wait_all_tasks_blocked()
        nursery.start_soon(page, 1, 0)
        await wait_all_tasks_blocked()
        nursery.start_soon(page, 2, 0)
        await wait_all_tasks_blocked()
        assert read == []
        nursery.start_soon(turns.run)
        await wait_all_tasks_blocked()
        assert read == [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (0, 3)]
        assert len(set(read_in)) == 6  # one a turn
        assert turns.is_free
        nursery.cancel_scope.cancel()


async def test_a_page_whose_request_is_gone_is_not_read_and_errors_are_its_own(
    seconds: list[float],
) -> None:
    turns, read = Turns(), list[str]()

    def fail(until_s: float) -> None:
        raise ValueError("broken")

    async with trio.open_nursery() as nursery:
        turns.now(lambda until_s: seconds.__setitem__(0, until_s))
        with trio.move_on_after(0):
            await turns.later(session(0), lambda until_s: read.append("gone"))
        nursery.start_soon(turns.run)
        turns.now(lambda until_s: seconds.__setitem__(0, until_s))
        with pytest.raises(ValueError, match="broken"):
            await turns.later(session(1), fail)
        await turns.later(session(2), lambda until_s: read.append("there"))
        assert read == ["there"]
        nursery.cancel_scope.cancel()


async def test_reads_of_the_past_of_one_connection_keep_no_more_than_one_and_are_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each notes up to 4 MiB, and thousands of a connection may wait."""
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY) as (keys, broker):
        await keys.put(b"first", b"v")
        revision = (await keys.status()).position
        for group in range(4):
            names = [bytes(500) + b"%d %d" % (group, number) for number in range(200)]
            result(await keys.write(OpType.BATCH, *(Step(name, Action.PUT) for name in names)))
        hurry(monkeypatch, _page_turns)
        budget, most_bytes, charged_bytes = broker.broker.context.budget, 0, 0
        idle_bytes, client = budget.used_bytes, broker.connect()
        asked = {"namespace": "default", "begin": "", "revision": str(revision)}
        with reads_of_the_past() as reads:
            await client.peer.send(*(client.frame(RequestCode.KV_RANGE, asked) for _ in range(20)))
            received = trio.Event()

            async def receive() -> None:
                for _ in range(20):
                    page = decode_answer((await client.peer.receive()).body, RangePage)
                    assert [one.key for one in page.entries] == [b"first"]
                received.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                while not received.is_set():
                    await trio.lowlevel.checkpoint()
                    begun = [one.noted_bytes for one in reads if one.noted_bytes]
                    assert len(begun) <= 1
                    most_bytes = max(most_bytes, *begun, 0)
                    charged_bytes = max(charged_bytes, budget.used_bytes - idle_bytes)
        await wait_all_tasks_blocked()
        assert 400_000 < most_bytes <= charged_bytes
        assert budget.used_bytes - idle_bytes < 20_000


async def test_watches_of_what_is_not_there_leave_nothing(nursery: trio.Nursery) -> None:
    """They come to the table of news where a turn has no time left."""

    class Nowhere:
        def find(self, namespace: str, partition: int, partitions: int) -> None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, namespace)

    turns = Turns()
    nursery.start_soon(turns.run)
    watches = Watches(readable=cast(Any, Nowhere()), turns=turns)
    turns._spent_s = 1.0
    async with trio.open_nursery() as asking:
        asker = Session(cast(Any, None), 1, HostAddress("10.0.0.1", 1), 1)
        for number in range(20):
            header = KvWatch(0, namespace=f"none-{number}", wait_millis=1000)
            answer = watches.watch(header, request(RequestCode.KV_WATCH), asker)
            asking.start_soon(refused, answer)
        await wait_all_tasks_blocked()
    assert not watches.waiting
    assert not watches._news
    nursery.cancel_scope.cancel()


async def refused(answer: object) -> None:
    with pytest.raises(Refused, match="none-"):
        await cast(Awaitable[object], answer)
