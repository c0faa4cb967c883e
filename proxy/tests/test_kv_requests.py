"""Requests for keys and values, as any client may send them."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.sessions.keys import _pages, _snapshots
from lanemq.storage import FlushMode, KvEngine
from lanemq.testkit.proxy.brokers import TestBroker
from lanemq.testkit.proxy.keys import Keys, keys_of, result
from lanemq.testkit.storage.kv import look_at_few_changes
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.kv import (
    Action,
    Changes,
    Entry,
    LoadedEntry,
    Operation,
    OperationKind,
    OpType,
    Page,
    Step,
    StepResult,
    Txn,
    WriteAnswer,
    decode_answer,
    encode_compact,
    encode_key,
    encode_load,
    encode_steps,
    encode_txn,
)
from lanemq.wire.message import decode_properties

SUCCESS = ResponseCode.SUCCESS
BAD = ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize("engine", list(KvEngine))
async def test_what_is_put_is_got_with_its_version_and_times(
    tmp_path: Path, mock_clock: MockClock, engine: KvEngine
) -> None:
    async with keys_of(tmp_path, kv_engine=engine, now_ms=lambda: 5000) as (keys, _):
        assert result(await keys.put(b"\x00\xff", b"1")).results == (StepResult(1),)
        assert result(await keys.put(b"\x00\xff", b"2")).results == (StepResult(2),)
        assert await keys.get(b"\x00\xff") == Entry(b"\x00\xff", b"2", 2, 1, 5000, 5000)
        assert await keys.get(b"no") is None
        deleted = await keys.write(OpType.DELETE, Step(b"\x00\xff", Action.DELETE))
        assert result(deleted).results == (StepResult(2),)
        assert await keys.get(b"\x00\xff") is None
        assert (await keys.status()).engine == engine.value


async def test_a_write_that_compares_wrongly_is_told_what_is_there(tmp_path: Path) -> None:
    async with keys_of(tmp_path) as (keys, _):
        await keys.put(b"k", b"1")
        answer = result(await keys.write(OpType.CAS, Step(b"k", Action.PUT, b"2", if_version=5)))
        assert answer == WriteAnswer(False, 1, (StepResult(1, holds=False),), b"1")


@pytest.mark.parametrize(
    ("op_type", "step"),
    [
        (OpType.PUT, Step(b"k", Action.CHECK)),
        (OpType.PUT, Step(b"k", Action.DELETE)),
        (OpType.DELETE, Step(b"k", Action.PUT)),
        (OpType.DELETE, Step(b"k", Action.CHECK)),
        (OpType.CAS, Step(b"k", Action.CHECK, if_version=1)),
        (OpType.BATCH, Step(b"k", Action.CHECK, b"value")),
    ],
)
async def test_an_operation_does_what_its_kind_says(
    tmp_path: Path, op_type: str, step: Step
) -> None:
    """Readers of the change feed take the property ``kv_opType`` for what was done."""
    async with keys_of(tmp_path) as (keys, broker):
        await keys.put(b"k", b"1")
        before = broker.context.store.max_position
        assert (await keys.write(op_type, step)).code == BAD
        txn = encode_txn(Txn([], [Operation(OperationKind.GET, b"k", b"value")], []))
        answer = await keys.ask(RequestCode.KV_WRITE, txn, opType=OpType.TXN)
        assert answer.code == BAD
        assert broker.context.store.max_position == before


async def test_all_writes_of_a_read_are_one_write_to_the_log_and_one_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keys_of(tmp_path) as (keys, broker):
        await keys.put(b"k", b"0")
        log = broker.context.store._log
        commits = []
        commit = log.commit
        sent = []

        def counted() -> None:
            commits.append(len(log.pending))
            commit()

        monkeypatch.setattr(type(log), "commit", lambda self: counted())
        (connection,) = broker.broker.server.connections
        try_send = connection._transport.try_send

        def counted_send(data: bytes) -> int:
            sent.append(len(data))
            return try_send(data)

        monkeypatch.setattr(connection._transport, "try_send", counted_send)
        body = encode_steps([Step(b"k", Action.PUT, b"v")])
        frames = [
            keys.client.frame(RequestCode.KV_WRITE, {"opType": OpType.PUT}, body) for _ in range(20)
        ]
        await keys.client.peer.send(*frames)
        answers = [await keys.client.peer.receive() for _ in frames]
        assert [answer.opaque for answer in answers] == [frame.opaque for frame in frames]
        versions = [result(answer).results[0].version for answer in answers]
        assert versions == list(range(2, 22))
        assert commits == [20]
        assert len(sent) == 1


async def test_a_repeated_write_is_done_once_even_across_a_restart(tmp_path: Path) -> None:
    writer: dict[str, Any] = {"client": "me", "sequence": 1, "waits": 1}
    async with keys_of(tmp_path) as (keys, _):
        first = result(await keys.put(b"k", b"1", **writer))
        await keys.put(b"k", b"2")
        assert result(await keys.put(b"k", b"1", **writer)) == first
    async with keys_of(tmp_path) as (keys, _):
        assert result(await keys.put(b"k", b"1", **writer)) == first
        entry = await keys.get(b"k")
        assert entry is not None
        assert (entry.value, entry.version) == (b"2", 2)
        await keys.put(b"k", b"3", client="me", sequence=2, waits=2)
        forgotten = await keys.put(b"k", b"1", **writer)
        assert forgotten.code == ResponseCode.KV_WRITE_FORGOTTEN


async def test_a_batch_and_a_multi_get(tmp_path: Path) -> None:
    async with keys_of(tmp_path) as (keys, _):
        await keys.write(OpType.BATCH, Step(b"a", Action.PUT, b"1"), Step(b"b", Action.PUT, b"2"))
        body = msgspec.msgpack.encode([b"b", b"no", b"a"])
        answer = await keys.ask(RequestCode.KV_MULTI_GET, body)
        found = msgspec.msgpack.decode(answer.body, type=list[Entry | None])
        assert [one and one.value for one in found] == [b"2", None, b"1"]


async def test_a_multi_get_is_bounded_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pages, "perf_counter", lambda: 0.0)  # and here not in time
    async with keys_of(tmp_path, mapped_file_size_commit_log=32 << 20) as (keys, _):
        for number in range(4):
            await keys.put(b"%d" % number, bytes(2 << 20))
        body = msgspec.msgpack.encode([b"%d" % number for number in range(4)])
        answer = await keys.ask(RequestCode.KV_MULTI_GET, body)
        assert len(msgspec.msgpack.decode(answer.body, type=list[Entry | None])) == 3


async def test_a_scan_goes_on_with_its_cursor_in_the_order_of_bytes(tmp_path: Path) -> None:
    async with keys_of(tmp_path) as (keys, _):
        for key in (b"a/2", b"b", b"a/1", b"a/10"):
            await keys.put(key, b"v")
        prefix = encode_key(b"a/")
        first = await keys.ask(RequestCode.KV_SCAN, prefix=prefix, limit=2)
        page = decode_answer(first.body, Page)
        assert [one.key for one in page.entries] == [b"a/1", b"a/10"]
        assert page.cursor is not None
        second = await keys.ask(
            RequestCode.KV_SCAN, prefix=prefix, cursor=encode_key(page.cursor), keysOnly="true"
        )
        page = decode_answer(second.body, Page)
        assert [(one.key, one.value) for one in page.entries] == [(b"a/2", b"")]
        assert page.cursor is None


async def test_a_watch_is_answered_when_something_changes(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with keys_of(tmp_path) as (keys, broker):
        await keys.put(b"a", b"1")
        other = Keys(broker.connect())
        answers: list[tuple[float, Frame]] = []

        async def watch() -> None:
            answer = await other.watch(1, wait_ms=20_000, prefix=b"a")
            answers.append((trio.current_time(), answer))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await trio.sleep(1)
            await keys.put(b"b", b"no")
            await trio.sleep(1)
            assert answers == []
            await keys.put(b"a", b"2")
        changes = decode_answer(answers[0][1].body, Changes)
        assert [(one.key, one.value, one.version) for one in changes.changes] == [(b"a", b"2", 2)]
        assert changes.next_position == 3
        since_s = trio.current_time()
        late = decode_answer((await other.watch(3, wait_ms=2000)).body, Changes)
        assert late.changes == []
        assert trio.current_time() - since_s == pytest.approx(2, abs=0.1)


async def test_a_watch_from_before_what_is_known_is_told_to_begin_anew(tmp_path: Path) -> None:
    async with keys_of(tmp_path) as (keys, _):
        await keys.put(b"k", b"1")
        assert result(await keys.write(OpType.CLEAR)).done
        answer = await keys.watch(0)
        assert answer.code == ResponseCode.KV_COMPACTED
        assert "watch from the position of the first page" in (answer.remark or "")
        assert (await keys.watch(50)).code == BAD


async def test_entries_expire_by_themselves_and_watchers_hear_of_it(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    def now_ms() -> int:
        return 1_000_000 + int(trio.current_time() * 1000)

    async with keys_of(tmp_path, now_ms=now_ms) as (keys, _):
        await keys.put(b"k", b"v", ttl_ms=3000)
        await trio.sleep(2.9)
        assert await keys.get(b"k") is not None
        await trio.sleep(0.5)
        assert await keys.get(b"k") is None
        changes = decode_answer((await keys.watch(1)).body, Changes)
        assert [(one.kind, one.key) for one in changes.changes] == [(2, b"k")]
        position = (await keys.status()).position
        await trio.sleep(60)
        assert (await keys.status()).position == position, "nothing is due: nothing is written"


async def test_entries_of_a_snapshot_are_loaded(tmp_path: Path) -> None:
    async with keys_of(tmp_path) as (keys, _):
        body = encode_load([LoadedEntry(b"k", b"v", 7, 11, 12)])
        answer = await keys.ask(RequestCode.KV_WRITE, body, opType=OpType.LOAD, createAt="*")
        assert result(answer).done
        entry = await keys.get(b"k")
        assert entry is not None
        assert (entry.version, entry.create_time_ms, entry.update_time_ms) == (7, 11, 12)


@pytest.mark.parametrize(
    ("fields", "body", "said"),
    [
        ({"opType": "dance"}, b"", "no operation 'dance'"),
        ({"opType": "tick"}, b"", "no operation 'tick'"),
        ({"opType": "put", "namespace": "a b"}, b"", "letters, digits"),
        ({"opType": "put", "namespace": "n" * 65}, b"", "65 characters"),
        ({"opType": "put"}, b"rubbish", "cannot be read"),
        ({"opType": "put"}, encode_steps([Step(b"", Action.PUT)]), "a key of 0 bytes"),
        ({"opType": "put"}, encode_steps([Step(b"k" * 4097, Action.PUT)]), "4097 bytes"),
        (
            {"opType": "put"},
            encode_steps([Step(b"k", Action.PUT, bytes((4 << 20) + 1))]),
            "a value of 4194305 bytes",
        ),
        (
            {"opType": "batch"},
            encode_steps([Step(b"%d" % n, Action.DELETE) for n in range(1025)]),
            "1 to 1024 steps",
        ),
        ({"opType": "put", "client": "c"}, encode_steps([Step(b"k", Action.PUT)]), "sequence"),
        ({"opType": "put", "client": "c:1"}, b"", "client id"),
    ],
)
async def test_what_breaks_a_limit_is_refused_and_nothing_is_stored(
    broker: TestBroker, fields: dict[str, str], body: bytes, said: str
) -> None:
    answer = await broker.connect().call(RequestCode.KV_WRITE, fields, body)
    assert answer.code == BAD
    assert said in (answer.remark or "")
    assert broker.context.store.max_position <= 0


async def test_bad_reads_are_refused(tmp_path: Path) -> None:
    async with keys_of(tmp_path) as (keys, _):
        unknown = await Keys(keys.client, "nobody").ask(RequestCode.KV_GET, key="aw==")
        assert unknown.code == ResponseCode.KV_NAMESPACE_NOT_EXIST
        await keys.put(b"k", b"v")
        bad = await keys.ask(RequestCode.KV_GET, key="no base64")
        assert (bad.code, bad.remark) == (
            BAD,
            "the key is not standard base64: Only base64 data is allowed",
        )
        assert (await keys.ask(RequestCode.KV_SCAN, prefix="%%%")).code == BAD
        assert (await keys.ask(RequestCode.KV_GET, key="aw==", consistency="odd")).code == BAD
        assert (await keys.ask(RequestCode.KV_MULTI_GET, b"\x01")).code == BAD
        assert (await keys.ask(RequestCode.KV_SCAN, limit=10**9)).code == SUCCESS


async def test_the_largest_value_fits(tmp_path: Path) -> None:
    async with keys_of(tmp_path, mapped_file_size_commit_log=16 << 20) as (keys, _):
        value = bytes(4 << 20)
        assert result(await keys.put(b"k" * 4096, value)).done
        entry = await keys.get(b"k" * 4096)
        assert entry is not None
        assert entry.value == value


async def test_namespaces_are_apart_and_bounded(tmp_path: Path) -> None:
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY) as (keys, broker):
        for number in range(64):  # each from its own address, for one has a share of them only
            one = Keys(broker.connect(f"10.0.0.{number}"), f"n{number}")
            assert result(await one.put(b"k", b"%d" % number)).done
        entry = await Keys(keys.client, "n7").get(b"k")
        assert entry is not None
        assert entry.value == b"7"
        refused = await Keys(keys.client, "one-more").put(b"k", b"v")
        assert refused.code == BAD
        assert "at most 64 namespaces" in (refused.remark or "")


async def test_the_log_is_a_topic_that_can_be_read_and_not_written(tmp_path: Path) -> None:
    async with keys_of(tmp_path) as (keys, broker):
        await keys.put(b"k", b"v")
        client = broker.connect()
        (message,) = await client.messages("%KV%default")
        named = decode_properties(message.properties_data)
        assert (named["kv_opType"], named["key"]) == ("put", encode_key(b"k"))
        sent = await client.send("%KV%default", b"x")
        assert sent.code == ResponseCode.NO_PERMISSION
        fields = {"topic": "%KV%default"}
        deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, fields)
        assert deleted.code == ResponseCode.SYSTEM_ERROR
        entry = await keys.get(b"k")
        assert entry is not None
        assert entry.version == 1


async def test_the_first_record_alone_tells_that_there_are_bounds_in_bytes(tmp_path: Path) -> None:
    async with keys_of(tmp_path) as (keys, broker):
        for _ in range(3):
            await keys.put(b"k", b"v")
        messages = await broker.connect().messages("%KV%default")
        told = ["kv_bounds" in decode_properties(one.properties_data) for one in messages]
        assert told == [True, False, False]


async def test_changes_of_keys_that_are_gone_count_in_the_memory(tmp_path: Path) -> None:
    """Their rows have these keys; there is no entry then, and no more than one before."""
    settings = {"kv_engine": KvEngine.MEMORY, "kv_memory_max_bytes": 1 << 20}
    async with keys_of(tmp_path, **settings) as (keys, _):
        for number in range(300):
            key = bytes(4000) + b"%d" % number
            put = await keys.put(key, b"")
            if put.code != SUCCESS:
                break
            result(await keys.write(OpType.DELETE, Step(key, Action.DELETE)))
        assert "kvMemoryMaxBytes" in (put.remark or "")
        assert 100 < number < 150
        status = await keys.status()
        assert status.entries == 0
        assert "(compact, kvHistoryRevisions)" in (put.remark or "")
        compact = encode_compact(status.position)
        assert (
            await keys.ask(RequestCode.KV_WRITE, compact, opType=OpType.COMPACT)
        ).code == SUCCESS
        assert (await keys.put(b"k", b"v")).code == SUCCESS


async def test_a_lost_namespace_is_refused_until_it_is_cleared(tmp_path: Path) -> None:
    async with keys_of(tmp_path) as (keys, broker):
        await keys.put(b"k", b"v")
        kv = broker.context.store.kv
        assert kv is not None
        state = kv.states["default"]
        state.mark_lost(state.meta.next)
        lost = await keys.put(b"k", b"v")
        assert lost.code == ResponseCode.KV_STATE_LOST
        read = await keys.ask(RequestCode.KV_GET, key="aw==")
        assert read.code == ResponseCode.KV_STATE_LOST
        assert result(await keys.write(OpType.CLEAR)).done
        assert result(await keys.put(b"k", b"v")).done


async def test_memory_is_bounded_and_deletes_make_room(tmp_path: Path) -> None:
    settings = {"kv_engine": KvEngine.MEMORY, "kv_memory_max_bytes": 1 << 20}
    async with keys_of(tmp_path, mapped_file_size_commit_log=8 << 20, **settings) as (keys, _):
        await keys.put(b"big", bytes(2 << 20))
        refused = await keys.put(b"k", b"v")
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert "kvMemoryMaxBytes" in (refused.remark or "")
        assert await keys.get(b"big") is not None
        assert result(await keys.write(OpType.DELETE, Step(b"big", Action.DELETE))).done
        assert result(await keys.put(b"k", b"v")).done


async def test_a_log_that_cannot_be_written_refuses_and_applies_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keys_of(tmp_path) as (keys, broker):
        await keys.put(b"k", b"1")
        segments = broker.context.store._log.segments

        def full(self: object, position: int, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(type(segments), "write", full)
            refused = await keys.put(b"k", b"2")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        entry = await keys.get(b"k")
        assert entry is not None
        assert entry.value == b"1"


async def test_keys_can_be_switched_off(tmp_path: Path) -> None:
    async with keys_of(tmp_path, kv_enable=False) as (keys, _):
        answer = await keys.put(b"k", b"v")
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_with_synchronous_flush_an_answered_write_survives_a_copy_of_the_disk(
    tmp_path: Path,
) -> None:
    settings = {"flush_disk_type": FlushMode.SYNC, "kv_engine": KvEngine.MEMORY}
    async with keys_of(tmp_path / "a", **settings) as (keys, broker):
        assert result(await keys.put(b"k", b"v")).done
        store = broker.context.store
        assert store.flushed_position == store.max_position
        shutil.copytree(tmp_path / "a", tmp_path / "b")
    async with keys_of(tmp_path / "b", **settings) as (keys, _):
        # The state is made of the log while the broker serves already.
        with trio.fail_after(60):
            while (await keys.ask(RequestCode.KV_GET, key=encode_key(b"k"))).code != SUCCESS:  # noqa: ASYNC110 - nobody tells
                await trio.sleep(0.01)
        assert await keys.get(b"k") is not None


@pytest.mark.parametrize("engine", list(KvEngine))
async def test_pages_of_a_snapshot_are_of_one_moment(
    autojump_clock: MockClock, tmp_path: Path, engine: KvEngine
) -> None:
    async with keys_of(tmp_path, kv_engine=engine) as (keys, _):
        for number in range(4):
            await keys.put(b"k%d" % number, b"old")
        first = await keys.ask(RequestCode.KV_SCAN, limit=2, snapshot="new")
        page = decode_answer(first.body, Page)
        assert page.snapshot is not None
        assert page.cursor is not None
        for number in range(4):
            await keys.put(b"k%d" % number, b"new")
        await keys.write(OpType.DELETE, Step(b"k3", Action.DELETE))
        await keys.put(b"k9", b"new")
        cursor = encode_key(page.cursor)
        rest = await keys.ask(RequestCode.KV_SCAN, cursor=cursor, snapshot=page.snapshot)
        later = decode_answer(rest.body, Page)
        assert [(one.key, one.value) for one in later.entries] == [(b"k2", b"old"), (b"k3", b"old")]
        assert (later.position, later.cursor, later.snapshot) == (4, None, None)
        gone = await keys.ask(RequestCode.KV_SCAN, cursor=cursor, snapshot=page.snapshot)
        assert gone.code == ResponseCode.KV_COMPACTED


async def test_snapshots_are_bounded_and_given_up_when_nobody_reads_them(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY) as (keys, _):
        for number in range(3):
            await keys.put(b"k%d" % number, b"v")
        for _ in range(4):
            kept = await keys.ask(RequestCode.KV_SCAN, limit=1, snapshot="new")
            assert kept.code == SUCCESS
        busy = await keys.ask(RequestCode.KV_SCAN, limit=1, snapshot="new")
        assert busy.code == ResponseCode.SYSTEM_BUSY
        await trio.sleep(62)
        again = await keys.ask(RequestCode.KV_SCAN, limit=1, snapshot="new")
        assert again.code == SUCCESS


async def test_snapshots_keep_only_so_much_that_was_written_again_since(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of each in time kept all rows that there had ever been, beyond every limit."""
    monkeypatch.setattr(_snapshots, "PINNED_BYTES_MAX", 300_000)

    async def begin(keys: Keys) -> Page:
        answer = await keys.ask(RequestCode.KV_SCAN, limit=1, snapshot="new")
        return decode_answer(answer.body, Page)

    async def go_on(keys: Keys, page: Page) -> int:
        assert page.cursor is not None
        cursor = encode_key(page.cursor)
        answer = await keys.ask(RequestCode.KV_SCAN, limit=1, cursor=cursor, snapshot=page.snapshot)
        return answer.code

    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY) as (keys, broker):
        other = Keys(broker.connect("10.1.1.1"))
        for number in range(4):
            await keys.put(b"k%d" % number, bytes(30_000))
        begun = []
        for turn in range(3):
            begun.append(await begin(keys))
            if not turn:
                of_other = await begin(other)
            for number in range(4):
                await keys.put(b"k%d" % number, bytes([turn + 1]) * 30_000)
            await trio.sleep(1)  # nobody asks for any of them meanwhile
        codes = [await go_on(keys, page) for page in begun]
        assert codes == [ResponseCode.KV_COMPACTED, ResponseCode.KV_COMPACTED, SUCCESS]
        assert await go_on(other, of_other) == SUCCESS, "it keeps least of all"
        assert (await begin(keys)).snapshot is not None


async def test_a_snapshot_that_cannot_be_told_any_more_is_refused_rather_than_wrong(
    tmp_path: Path,
) -> None:
    async with keys_of(tmp_path) as (keys, _):
        for number in range(4):
            await keys.put(b"k%d" % number, b"old")
        first = await keys.ask(RequestCode.KV_SCAN, limit=2, snapshot="new")
        page = decode_answer(first.body, Page)
        assert page.cursor is not None
        await keys.write(OpType.CLEAR)
        rest = await keys.ask(
            RequestCode.KV_SCAN, cursor=encode_key(page.cursor), snapshot=page.snapshot
        )
        assert rest.code == ResponseCode.KV_COMPACTED
        assert "begin again" in (rest.remark or "")


async def test_a_watcher_gets_what_lies_behind_many_changes_of_others_at_once(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_at_few_changes(monkeypatch, 5)
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY) as (keys, _):
        for number in range(20):
            await keys.put(b"others/%d" % number, b"v")
        await keys.put(b"mine", b"v")
        since_s = trio.current_time()
        answer = await keys.watch(0, wait_ms=20_000, prefix=b"mine")
        found = decode_answer(answer.body, Changes).changes
        assert [one.key for one in found] == [b"mine"]
        assert trio.current_time() - since_s < 1
