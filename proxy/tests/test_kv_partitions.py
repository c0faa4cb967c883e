"""Partitions of a namespace: each at the broker that its log ends at, with its state."""

import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from lanemq.proxy.broker.kv._fetching import StateFetcher
from lanemq.proxy.broker.kv._leftovers import Leftovers
from lanemq.proxy.logical.rules._mapping import TopicMapping
from lanemq.proxy.logical.rules._retire import swept
from lanemq.sdk import RefusedByBroker
from lanemq.sdk.admin import MigrationRefused
from lanemq.sdk.kv import open_kv_store
from lanemq.storage import KvEngine
from lanemq.testkit.proxy.partitions import (
    NEVER_MS,
    PARTITIONS,
    TOPIC,
    Cluster,
    cluster,
    lacks,
    says,
    until,
)
from lanemq.testkit.storage.kv import copy_in_pages
from lanemq.wire import RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvGet, KvState, KvStatus, KvWatch, KvWrite
from lanemq.wire.kv import (
    Action,
    Changes,
    Moved,
    NamespaceStatus,
    OpType,
    StateRows,
    Step,
    decode_answer,
    encode_key,
    encode_steps,
)
from lanemq.wire.logical import LogicalQueues, Segment, SegmentState

pytestmark = pytest.mark.slow
"""They wait for what brokers do behind their answers."""


@pytest.mark.parametrize("engine", [KvEngine.MEMORY, KvEngine.ROCKSDB])
async def test_a_partition_moves_with_all_that_it_has(tmp_path: Path, engine: KvEngine) -> None:
    async with cluster(tmp_path, "a", "b", engine=engine) as there:
        for number in range(300):
            await there.put("a", 2, b"k%d" % number, b"v" * 100, sequence=number + 1)
        was = (await there.statuses("a"))[2]
        await there.move(2, "b")
        now = (await there.statuses("b"))[2]
        assert (now.state_hash, now.position, now.entries) == (was.state_hash, was.position, 300)
        # A write that is repeated has been done, wherever the partition is.
        again = await there.put("b", 2, b"k299", b"v" * 100, sequence=300)
        assert (again.position, again.results[0].version) == (301, 1)
        assert (await there.put("b", 2, b"k0", b"new", sequence=301)).results[0].version == 2
        moved = await there.get_frame("a", 2, b"k0")
        assert moved.code == ResponseCode.KV_MOVED
        assert decode_answer(moved.body, Moved) == Moved(
            PARTITIONS, "b", str(there.broker("b").address)
        )
        # The broker before keeps nothing once the new one has it all.
        await until(lambda: lacks(there, "a", 2))
        await there.move(2, "a")
        entry = await there.get("a", 2, b"k0")
        assert entry is not None
        assert (entry.value, entry.version) == (b"new", 2)
        for name in ("a", "b"):
            await there.stop(name)
            await there.start(name, engine=engine)
        await until(lambda: there.is_open("a", 2))
        assert await there.get("a", 2, b"k0") == entry
        assert (await there.put("a", 2, b"k0", b"newer", sequence=302)).results[0].version == 3


async def test_leases_go_with_their_partitions(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path, "a", "b") as there,
        open_kv_store(namespace="jobs", name_servers=there.name_server, timeout_s=60) as store,
    ):
        lease = await store.grant_lease(600)
        keys = sorted(b"k%d" % number for number in range(20))
        for key in keys:
            await store.put(key, b"", lease=lease)
        for partition, name in ((0, "b"), (1, "a")):
            await there.move(partition, name)
        status = await store.lease_status(lease)
        assert (status.keys, status.ttl_ms) == (tuple(keys), 600_000)
        await store.keep_lease_alive(lease)
        await store.revoke_lease(lease)
        assert (await store.prefix()).entries == []


async def test_a_broker_that_learns_late_where_a_partition_went_lets_go_of_it(
    tmp_path: Path,
) -> None:
    """Lost power took its note that the partition had left; since then it has moved on."""
    async with cluster(tmp_path, "a", "b", "c", engine=KvEngine.ROCKSDB) as there:
        await there.put("a", 0, b"k", b"1", sequence=1)
        await there.stop("a")
        shutil.copytree(tmp_path / "a" / "kv", tmp_path / "before")
        await there.start("a", engine=KvEngine.ROCKSDB)
        await until(lambda: there.is_open("a", 0))
        await there.move(0, "b")
        await there.put("b", 0, b"k", b"2", sequence=2)
        await there.move(0, "c")
        await there.stop("a")
        shutil.rmtree(tmp_path / "a" / "kv")
        (tmp_path / "before").rename(tmp_path / "a" / "kv")
        await there.start("a", engine=KvEngine.ROCKSDB)
        await until(lambda: lacks(there, "a", 0))
        entry = await there.get("c", 0, b"k")
        assert entry is not None
        assert entry.value == b"2"


async def test_an_empty_namespace_may_move_as_well(tmp_path: Path) -> None:
    async with cluster(tmp_path, "a", "b") as there:
        for destination in ("b", "a", "b"):
            await there.move(0, destination)
        assert (await there.put("b", 0, b"k", b"1")).results[0].version == 1
        assert (await there.statuses("b"))[0].partitions == PARTITIONS


async def test_a_partition_that_is_closed_is_neither_read_nor_written(tmp_path: Path) -> None:
    """Between the seal and the opening elsewhere nobody may say what is in it."""
    # The brokers do not complete it by themselves meanwhile.
    async with cluster(tmp_path, "a", "b", logical_queue_reconcile_interval=NEVER_MS) as there:
        await there.put("a", 0, b"k", b"1")
        await there.prepare(0, "a", "b")
        answer = await there.get_frame("a", 0, b"k")
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert "is moving" in (answer.remark or "")
        assert (await there.get_frame("b", 0, b"k")).code == ResponseCode.KV_MOVED
        await there.admin.abort_migration(TOPIC, 0)
        await until(lambda: there.is_open("a", 0))
        assert await there.get("a", 0, b"k") is not None
        # What was called off is in the chain, and has never had the state.
        await there.move(0, "b")
        await there.move(0, "a")
        entry = await there.get("a", 0, b"k")
        assert entry is not None
        assert entry.version == 1


async def test_a_partition_whose_broker_before_is_forgotten_is_lost_not_empty(
    tmp_path: Path,
) -> None:
    """A state that is deleted with its base, of a log whose first part is gone with its broker."""
    async with cluster(tmp_path, "a", "b") as there:
        await there.put("a", 0, b"k", b"1")
        await there.move(0, "b")
        await there.put("b", 0, b"k", b"2")
        await there.stop("a")
        await there.stop("b")
        (tmp_path / "b" / "kv" / "memory.kv").unlink()
        shutil.rmtree(tmp_path / "b" / "kv" / "bases")  # it could be made again from there
        await there.admin.forget_broker("a")
        await there.start("b")
        answer = await there.get_frame("b", 0, b"k")
        assert answer.code in (ResponseCode.SYSTEM_BUSY, ResponseCode.KV_STATE_LOST)
        assert answer.body == b""


async def test_a_client_with_another_number_of_partitions_is_told(tmp_path: Path) -> None:
    async with cluster(tmp_path, "a") as there:
        answer = await there.get_frame("a", 0, b"k", partitions=1)
        assert answer.code == ResponseCode.KV_MOVED
        assert decode_answer(answer.body, Moved).partitions == PARTITIONS
        assert (await there.create("a", 1, 8)).code == ResponseCode.KV_MOVED
        refused = await there.create("a", 7, 4)
        assert refused.code == ResponseCode.INVALID_PARAMETER
        assert "there is no partition 7 of 4" in (refused.remark or "")
        assert (await there.create("a", 3)).code == 0  # it is there


async def test_a_watch_is_sent_on(tmp_path: Path) -> None:
    async with cluster(tmp_path, "a", "b") as there:
        await there.put("a", 0, b"k", b"1")
        header = KvWatch(
            position=3, namespace="jobs", partition=0, partitions=PARTITIONS, wait_millis=60_000
        )
        answers: list[Frame] = []

        async def watch() -> None:
            answers.append(await there.ask("a", RequestCode.KV_WATCH, header))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            with trio.fail_after(30):
                await there.move(0, "b")
        assert answers[0].code in (ResponseCode.KV_MOVED, ResponseCode.SYSTEM_BUSY)
        await there.put("b", 0, b"k", b"2")
        answer = await there.ask("b", RequestCode.KV_WATCH, header)
        assert [one.value for one in decode_answer(answer.body, Changes).changes] == [b"2"]


async def test_a_state_that_is_deleted_is_made_anew_where_its_log_began(tmp_path: Path) -> None:
    engine = KvEngine.MEMORY
    async with cluster(tmp_path, "a", "b") as there:
        await there.put("b", 1, b"k", b"1")
        await there.put("b", 3, b"k", b"3")
        await there.move(1, "a")
        await there.put("a", 1, b"k", b"2")
        await there.stop("a")
        await there.stop("b")
        for name in ("a", "b"):
            (tmp_path / name / "kv" / "memory.kv").unlink()
        await there.start("a", engine=engine)
        await there.start("b", engine=engine)
        await until(lambda: there.is_open("b", 3))
        entry = await there.get("b", 3, b"k")
        assert entry is not None
        assert entry.value == b"3"
        # Partition 1 began at b, whose log makes again what it had; and a's the rest.
        await until(lambda: there.is_open("a", 1))
        entry = await there.get("a", 1, b"k")
        assert entry is not None
        assert (entry.value, entry.version) == (b"2", 2)
        await until(lambda: lacks(there, "b", 1))


async def test_a_state_that_nobody_has_is_not_served_empty(tmp_path: Path) -> None:
    async with cluster(tmp_path, "a", "b") as there:
        await there.put("b", 1, b"k", b"1")
        await there.move(1, "a")
        await until(lambda: lacks(there, "b", 1))
        await there.move(1, "b")
        await until(lambda: lacks(there, "a", 1))
        await there.stop("b")
        shutil.rmtree(tmp_path / "b" / "kv")
        await there.start("b")
        # What it had came from a, which has it no more, and whose part is not the first.
        gone = "a: the state of partition 1 of jobs at record 3 is no longer here"
        await until(lambda: says(there, "b", 1, gone))
        assert (await there.get_frame("b", 1, b"k")).code == ResponseCode.SYSTEM_BUSY


async def test_a_partition_that_was_gone_past_is_lost_until_it_is_imported(tmp_path: Path) -> None:
    async with cluster(tmp_path, "a", "b") as there:
        await there.put("a", 0, b"k", b"1")
        await there.stop("a")
        with pytest.raises(MigrationRefused, match="not found"):
            await there.admin.migrate_logical_queue(TOPIC, 0, "b")
        await there.admin.migrate_logical_queue(TOPIC, 0, "b", force_delta=10, source_is_gone=True)
        await until(lambda: _has_lost(there, "b", 0))
        answer = await there.get_frame("b", 0, b"k")
        assert answer.code == ResponseCode.KV_STATE_LOST
        header = KvWrite(op_type=OpType.CLEAR, namespace="jobs", partition=0, partitions=PARTITIONS)
        assert (await there.ask("b", RequestCode.KV_WRITE, header)).code == 0
        # Nobody knows how often it was put before: no version comes again.
        assert (await there.put("b", 0, b"k", b"2")).results[0].version > 10


async def _has_lost(there: Cluster, name: str, partition: int) -> bool:
    status = (await there.statuses(name)).get(partition)
    return status is not None and status.lost


async def test_a_state_that_is_on_its_way_is_given_to_nobody_and_goes_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that comes to have a partition has a log of it from before, and half its rows."""
    copy_in_pages(monkeypatch, 20)
    goes_on, asked = trio.Event(), 0
    real = StateFetcher._rows

    async def rows(self: StateFetcher, *given: Any) -> StateRows:  # noqa: ANN401 - as it is called
        nonlocal asked
        asked += 1
        if asked == 3:
            await goes_on.wait()
        return await real(self, *given)

    async with cluster(tmp_path, "a", "b") as there:
        for number in range(60):
            await there.put("a", 0, b"k%02d" % number, b"v")
        was = (await there.statuses("a"))[0]
        await there.move(0, "b")
        await until(lambda: lacks(there, "a", 0))
        monkeypatch.setattr(StateFetcher, "_rows", rows)
        await there.admin.migrate_logical_queue(TOPIC, 0, "a")

        async def is_half_done() -> bool:
            return asked >= 3

        await until(is_half_done)
        header = KvState(namespace="jobs", partition=0, position=was.position)
        answer = await there.ask("a", RequestCode.KV_STATE, header)
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_BUSY,
            "partition 0 of jobs is on its way here",
        )
        with pytest.raises(RefusedByBroker, match="has not arrived here yet"):
            await there.admin.migrate_logical_queue(TOPIC, 0, "b")
        with pytest.raises(MigrationRefused):
            await there.admin.migrate_logical_queue(TOPIC, 0, "a")
        goes_on.set()
        await there.admin.abort_migration(TOPIC, 0)
        await until(lambda: there.is_open("a", 0))
        now = (await there.statuses("a"))[0]
        assert (now.state_hash, now.position) == (was.state_hash, was.position)
        for number in range(60):
            entry = await there.get("a", 0, b"k%02d" % number)
            assert entry is not None
            assert entry.version == 1


async def test_a_copy_that_failed_leaves_the_partition_to_others(tmp_path: Path) -> None:
    """Rows of a state that comes are nobody else's, but only for as long as it comes."""
    async with cluster(tmp_path, "a") as there:
        kv = there.broker("a").broker.context.store.kv
        assert kv is not None

        async def copy() -> None:
            async with kv.kept.copying("other"):
                with pytest.raises(OSError, match="is being taken over"):
                    await kv.make("other")
                raise RemoteProtocolError("enough")

        with pytest.raises(RemoteProtocolError, match="enough"):
            await copy()
        assert (await kv.make("other")).meta.next == 0


async def test_what_interrupts_the_making_of_a_partition_is_made_good_by_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path, "a", "b") as there:
        kv = there.broker("a").broker.context.store.kv
        assert kv is not None

        async def fails(*_: object) -> None:
            raise OSError(28, "No space left on device")

        def write(partition: int) -> KvWrite:
            return KvWrite(
                op_type=OpType.CREATE,
                namespace="new",
                partition=partition,
                partitions=2,
                create_at="a",
            )

        assert (await there.ask("a", RequestCode.KV_WRITE, write(0))).code == 0
        with monkeypatch.context() as patch:
            patch.setattr(kv, "make", fails)
            refused = await there.ask("a", RequestCode.KV_WRITE, write(1))
            assert refused.code == ResponseCode.SYSTEM_ERROR
        get = KvGet(key=encode_key(b"k"), namespace="new", partition=1, partitions=2)
        answer = await there.ask("a", RequestCode.KV_GET, get)
        assert answer.code == ResponseCode.KV_NAMESPACE_NOT_EXIST
        assert "create the namespace again" in (answer.remark or "")
        with pytest.raises(RefusedByBroker, match="it has no state"):
            await there.admin.migrate_logical_queue("%KV%new", 1, "b")
        await there.admin.abort_migration("%KV%new", 1)
        assert (await there.ask("a", RequestCode.KV_WRITE, write(1))).code == 0
        assert (await there.ask("a", RequestCode.KV_GET, get)).code == 0


async def test_a_lost_partition_learns_from_the_one_who_clears_it_how_many_there_are(
    tmp_path: Path,
) -> None:
    """The broker that gets it has no other partition of the namespace, and cannot know."""
    async with cluster(tmp_path, "a", "b") as there:
        for partition in (1, 3):
            await there.move(partition, "a")
            await until(partial(lacks, there, "b", partition))
        await there.put("a", 1, b"k", b"1")
        await there.stop("a")
        await there.admin.migrate_logical_queue(TOPIC, 1, "b", force_delta=10, source_is_gone=True)
        await until(lambda: _has_lost(there, "b", 1))
        header = KvWrite(op_type=OpType.CLEAR, namespace="jobs", partition=1, partitions=PARTITIONS)
        assert (await there.ask("b", RequestCode.KV_WRITE, header)).code == 0
        assert (await there.put("b", 1, b"k", b"2")).results[0].version > 10
        assert (await there.get_frame("b", 1, b"k", partitions=2)).code == ResponseCode.KV_MOVED


def test_the_broker_before_is_remembered_until_its_state_has_come() -> None:
    """Retention had the new broker forget, within seconds, where the state of an idle log is."""
    before = Segment(
        MessageQueue(TOPIC, "a", 0), 0, 0, SegmentState.EXPIRED, 0, 3, broker_address="a:1"
    )
    end = Segment(MessageQueue(TOPIC, "b", 0), 0, 3, SegmentState.NORMAL, broker_address="b:1")
    assert swept(TopicMapping(TOPIC, "b", LogicalQueues.of([before, end])), ()) == []
    other = [
        replace(one, message_queue=MessageQueue("T", one.broker_name, 0)) for one in (before, end)
    ]
    assert swept(TopicMapping("T", "b", LogicalQueues.of(other)), ()) == [other[0].key]


def test_a_source_that_was_gone_past_is_remembered_though_it_was_empty() -> None:
    """A destination that starts again has to tell it."""
    source = Segment(MessageQueue("T", "a", 0), 0, 0, broker_address="a:1").sealed(0)
    end = Segment(MessageQueue("T", "b", 0), 0, 0, broker_address="b:1")
    assert source.state is SegmentState.EXPIRED
    assert swept(TopicMapping("T", "b", LogicalQueues.of([source, end])), ()) == [source.key]
    forced = replace(end, is_forced=True)
    assert swept(TopicMapping("T", "b", LogicalQueues.of([source, forced])), ()) == []


async def test_partitions_neither_come_nor_go_by_other_tools(tmp_path: Path) -> None:
    async with cluster(tmp_path, "a") as there:
        address = str(there.broker("a").address)
        with pytest.raises(RefusedByBroker, match="partitions of a namespace"):
            await there.admin.create_queue(address, TOPIC, 4, SegmentState.NORMAL)
        with pytest.raises(RefusedByBroker, match="partitions of a namespace"):
            await there.admin.map_queue(address, TOPIC, 0, -1, force=True)
        chains = await there.admin.logical_queues(address, TOPIC)
        assert chains is not None
        with pytest.raises(RefusedByBroker, match="partitions of a namespace"):
            await there.admin.seal(address, next(iter(chains.segments)))
        assert await there.is_open("a", 0)


async def test_no_partition_goes_to_a_broker_without_keys(tmp_path: Path) -> None:
    async with cluster(tmp_path, "a") as there:
        await there.start("c", kv_enable=False)
        with pytest.raises(RefusedByBroker, match="broker c keeps no keys"):
            await there.admin.migrate_logical_queue(TOPIC, 0, "c")
        assert await there.is_open("a", 0)


async def test_rows_of_an_open_partition_or_of_another_position_are_given_to_nobody(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, "a") as there:
        await there.put("a", 0, b"k", b"1")
        for position in (0, 2):
            header = KvState(namespace="jobs", partition=0, position=position)
            answer = await there.ask("a", RequestCode.KV_STATE, header)
            assert answer.code == ResponseCode.SYSTEM_BUSY
        header = KvState(namespace="other", partition=0, position=0)
        answer = await there.ask("a", RequestCode.KV_STATE, header)
        assert answer.code == ResponseCode.KV_NAMESPACE_NOT_EXIST


async def test_a_namespace_of_before_gets_a_logical_queue(tmp_path: Path) -> None:
    """Stores that were written when a namespace was one queue of one broker."""
    async with cluster(tmp_path, "a", "b") as there:
        kv = there.broker("a").broker.context.store.kv
        assert kv is not None
        await kv.make("old")  # as it was made then, without a word to anybody
        there.broker("a").broker.context.topics.ensure("%KV%old", queues=1, perm=4)
        written = KvWrite(op_type=OpType.PUT, namespace="old")
        body = encode_steps([Step(b"k", Action.PUT, b"1")])
        assert (await there.ask("a", RequestCode.KV_WRITE, written, body)).code == 0
        await there.stop("a")
        await there.start("a")
        header = KvStatus(namespace="old")

        async def is_mapped() -> bool:
            return (
                await there.admin.logical_queues(str(there.broker("a").address), "%KV%old")
                is not None
            )

        await until(is_mapped)
        answer = await there.ask("a", RequestCode.KV_STATUS, header)
        assert decode_answer(answer.body, list[NamespaceStatus])[0].partitions == 1
        await there.admin.migrate_logical_queue("%KV%old", 0, "b")
        await until(lambda: _is_there(there, "b", "old"))


async def _is_there(there: Cluster, name: str, namespace: str) -> bool:
    answer = await there.ask(name, RequestCode.KV_STATUS, KvStatus(namespace=namespace))
    return answer.code == 0 and decode_answer(answer.body, list[NamespaceStatus])[0].is_open


async def test_a_partition_that_waits_for_its_broker_before_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = trio.Event()
    real = StateFetcher._rows

    async def rows(self: StateFetcher, name: str, *given: Any) -> StateRows:  # noqa: ANN401
        if name == "jobs":
            await goes_on.wait()
        return await real(self, name, *given)

    monkeypatch.setattr(StateFetcher, "_rows", rows)
    async with cluster(tmp_path, "a", "b") as there:
        for partition in (0, 2):
            await there.put("a", partition, b"k", b"v")
        await there.admin.migrate_logical_queue(TOPIC, 0, "b")
        await there.move(2, "b")
        assert not await there.is_open("b", 0)
        goes_on.set()
        await until(lambda: there.is_open("b", 0))


async def test_a_broker_that_answers_late_whether_it_has_a_partition_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, goes_on = trio.Event(), trio.Event()
    real = StateFetcher.is_open_at

    async def is_open_at(self: StateFetcher, name: str, *given: Any) -> bool:  # noqa: ANN401
        if name == "jobs" and not asked.is_set():
            asked.set()
            await goes_on.wait()
        return await real(self, name, *given)

    monkeypatch.setattr(StateFetcher, "is_open_at", is_open_at)
    async with cluster(tmp_path, "a", "b") as there:
        for partition in (0, 2):
            await there.put("a", partition, b"k", b"v")
            await there.move(partition, "b")
        await asked.wait()
        kv = there.broker("a").broker.context.store.kv
        assert kv is not None
        async with kv.kept.copying("jobs@2"):  # it comes back meanwhile
            goes_on.set()
            await until(lambda: lacks(there, "a", 0))


@pytest.mark.parametrize("is_moved", [False, True])
async def test_a_migration_that_was_called_off_leaves_a_log_to_make_the_state_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_moved: bool
) -> None:
    """It leaves two segments in the queue; the state was never written down."""
    goes_on = trio.Event()
    real = StateFetcher._rows

    async def rows(self: StateFetcher, *given: Any) -> StateRows:  # noqa: ANN401 - as it is called
        await goes_on.wait()
        return await real(self, *given)

    # The brokers do not complete it by themselves meanwhile.
    async with cluster(tmp_path, "a", "b", logical_queue_reconcile_interval=NEVER_MS) as there:
        await there.put("a", 0, b"k", b"1")
        await there.prepare(0, "a", "b")
        await there.admin.abort_migration(TOPIC, 0)
        await until(lambda: there.is_open("a", 0))
        await there.put("a", 0, b"k", b"2")
        was = (await there.statuses("a"))[0]
        if is_moved:
            monkeypatch.setattr(StateFetcher, "_rows", rows)
            await there.admin.migrate_logical_queue(TOPIC, 0, "b")
        await there.stop("a")
        shutil.rmtree(tmp_path / "a" / "kv")
        await there.start("a")
        goes_on.set()
        name = "b" if is_moved else "a"
        await until(lambda: there.is_open(name, 0))
        assert (await there.statuses(name))[0].state_hash == was.state_hash


async def test_going_past_keeps_rows_of_before_until_a_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(self: Leftovers) -> None:
        """As if the broker had been down from the hand-over on."""

    monkeypatch.setattr(Leftovers, "remove_unneeded", nothing)
    async with cluster(tmp_path, "a", "b") as there:
        for number in range(50):
            await there.put("a", 0, b"k%d" % number, b"v")
        await there.move(0, "b")
        await there.stop("b")
        await there.admin.migrate_logical_queue(TOPIC, 0, "a", force_delta=60, source_is_gone=True)
        await until(lambda: _has_lost(there, "a", 0))
        assert (await there.statuses("a"))[0].entries == 50
        await there.stop("a")
        await there.start("a")
        await until(lambda: _has_lost(there, "a", 0))
        assert (await there.statuses("a"))[0].entries == 50


async def test_operations_that_were_gone_past_are_not_done_again(tmp_path: Path) -> None:
    """Done last, they would undo what was done since."""
    quick: dict[str, Any] = {"logical_queue_reconcile_interval": 500}
    async with cluster(tmp_path, "a", "b", **quick) as there:
        for number in range(6):
            await there.put("a", 0, b"k", b"old%d" % number)
        await there.stop("a")
        await there.admin.migrate_logical_queue(TOPIC, 0, "b", force_delta=4, source_is_gone=True)
        await until(lambda: _has_lost(there, "b", 0))
        header = KvWrite(op_type=OpType.CLEAR, namespace="jobs", partition=0, partitions=PARTITIONS)
        assert (await there.ask("b", RequestCode.KV_WRITE, header)).code == 0
        done = await there.put("b", 0, b"k", b"new")
        assert done.results[0].version > 4  # which "old3" may have had
        await there.start("a", **quick)
        address = str(there.broker("a").address)
        counters = there.broker("a").broker.context.logical.counters

        async def is_told() -> bool:
            return any("operations on keys" in alarm for alarm in counters.alarms.values())

        await until(is_told)
        assert await there.admin.append_superseded(address) == 0
        assert counters.alarms
        assert await there.admin.append_superseded(address, topic=TOPIC) == 0
        assert not counters.alarms
        entry = await there.get("b", 0, b"k")
        assert entry is not None
        assert (entry.value, entry.version) == (b"new", done.results[0].version)


async def test_a_partition_that_comes_home_to_a_log_whose_beginning_is_gone_brings_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes into the queue of before, and nothing was written where it has been."""
    async with cluster(tmp_path, "a", "b") as there:
        await there.put("a", 0, b"k", b"precious")
        await there.move(0, "b")
        await until(lambda: lacks(there, "a", 0))
        for number in range(8):  # the log of the broker grows
            await there.put("a", 2, b"big%d" % number, b"x" * 500_000)
        store = there.broker("a").broker.context.store
        assert store.kv is not None
        await store.kv.flush()
        for path in sorted((tmp_path / "a" / "commitlog").iterdir())[:-1]:
            os.utime(path, (1, 1))
        for _ in range(3):
            await store.clean()
        begin, end = store.bounds(TOPIC, 0)
        assert begin == end > 0
        await there.move(0, "a")
        entry = await there.get("a", 0, b"k")
        assert entry is not None
        assert entry.value == b"precious"


async def test_a_fault_costs_a_partition_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is under way begins again after it."""
    goes_on, has_failed = trio.Event(), trio.Event()
    real_rows, real_remove = StateFetcher._rows, Leftovers.remove_unneeded

    async def rows(self: StateFetcher, *given: Any) -> StateRows:  # noqa: ANN401 - as it is called
        if not has_failed.is_set():
            goes_on.set()
            await trio.sleep_forever()
        return await real_rows(self, *given)

    async def remove_unneeded(self: Leftovers) -> None:
        if self._broker_name == "b" and goes_on.is_set() and not has_failed.is_set():
            has_failed.set()
            raise RuntimeError("any fault")
        await real_remove(self)

    monkeypatch.setattr(StateFetcher, "_rows", rows)
    monkeypatch.setattr(Leftovers, "remove_unneeded", remove_unneeded)
    async with cluster(tmp_path, "a", "b") as there:
        await there.put("a", 0, b"k", b"v")
        await there.move(0, "b")
        assert has_failed.is_set()
