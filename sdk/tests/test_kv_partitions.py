"""Keys of a namespace over partitions, at brokers that move them."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from types import SimpleNamespace

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import LanemqError, NoRoute
from lanemq.sdk.kv import (
    Action,
    KvOffsetStore,
    KvRejected,
    LoadedEntry,
    NoNamespace,
    Step,
)
from lanemq.sdk.kv.requests import _deletion
from lanemq.sdk.kv.requests._calls import OtherPartitions
from lanemq.sdk.kv.requests._holders import Holders
from lanemq.sdk.kv.requests._route import KvRoute
from lanemq.testkit.sdk.kv import KvCluster
from lanemq.testkit.sdk.kv_stores import key_in, opened
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import BrokerData, MessageQueue
from lanemq.wire.kv import Moved, encode_answer, partition_of

WRITE, GET = RequestCode.KV_WRITE, RequestCode.KV_GET


async def test_each_key_is_at_the_broker_of_its_partition(kv: KvCluster) -> None:
    kv.make(4)
    async with opened(kv) as store:
        keys = [key_in(partition, 4) for partition in range(4)]
        for key in keys:
            assert await store.put(key, b"v-" + key) == 1
        for number, key in enumerate(keys):
            entry = await store.get(key)
            assert entry is not None
            assert entry.value == b"v-" + key
            assert key in kv.namespaces["default"][number].entries
            assert await store.partition_of(key) == number
        wanted = [keys[2], b"no", keys[0], keys[3], keys[1], keys[2]]
        found = await store.multi_get(wanted)
        assert [one and one.key for one in found] == [
            keys[2], None, keys[0], keys[3], keys[1], keys[2]
        ]  # fmt: skip
        assert (await store.compare_and_set(keys[3], b"x", version=1)).done
        assert await store.delete(keys[0]) == 1
        for broker in kv.kv_brokers:
            assert {partitions for _, partitions in broker.asked(WRITE)} == {4}


async def test_partitions_that_name_servers_do_not_list_are_known_to_brokers(
    kv: KvCluster,
) -> None:
    """The first guess is corrected, and each key is where it belongs."""
    kv.make(4)
    kv.publish_without_logical_queues()
    async with opened(kv, broker="broker-a") as store:
        for partition in range(4):
            await store.put(key_in(partition, 4), b"v")
        assert await store.partition_of(key_in(3, 4)) == 3
    for number, part in kv.namespaces["default"].items():
        assert list(part.entries) == [key_in(number, 4)]
    assert kv.kv_brokers[0].asked(WRITE)[0] == (0, 1)


async def test_a_write_follows_its_partition_and_is_done_once(kv: KvCluster) -> None:
    kv.make(2)
    first, second = kv.kv_brokers
    key = key_in(0, 2)
    async with opened(kv) as store:
        await store.put(key, b"1")
        first.mute(WRITE)  # it is done, and nobody hears of it
        async with trio.open_nursery() as nursery:

            async def put() -> None:
                assert await store.put(key, b"2") == 2

            nursery.start_soon(put)
            while first.count(WRITE) < 2:
                await trio.lowlevel.checkpoint()
            kv.move(0, "broker-b")
            first.cut()
        assert kv.written()[key] == b"2"
        assert kv.namespaces["default"][0].position == 2
        sent = [frame.fields for broker in kv.kv_brokers for frame in broker.requests
                if frame.code == WRITE]  # fmt: skip
        numbers = [fields["sequence"] for fields in sent]
        assert set(numbers) == {"1", "2"}
        assert second.count(WRITE) == 1


@pytest.mark.parametrize("knows", [True, False])
async def test_redirects_are_followed_without_the_name_server(
    kv: KvCluster, autojump_clock: MockClock, knows: bool
) -> None:
    kv.make(2)
    key = key_in(1, 2)
    async with opened(kv) as store:
        await store.put(key, b"1")
        for broker in kv.kv_brokers:
            broker.knows_holders = knows
        looked = kv.name_server_nodes[0].count(RequestCode.GET_BROKER_CLUSTER_INFO)
        kv.move(1, "broker-a", listed=not knows)
        began_s = trio.current_time()
        assert await store.put(key, b"2") == 2
        again = kv.name_server_nodes[0].count(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert again - looked == (0 if knows else 1)
        assert trio.current_time() == began_s


async def test_brokers_that_send_one_in_circles_are_asked_with_pauses(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    kv.make(2)
    key = key_in(1, 2)
    async with opened(kv, timeout_s=5.0) as store:
        await store.put(key, b"1")
        first, second = kv.kv_brokers  # each says that the other has it
        answer = second.handlers[GET]
        second.handlers[GET] = lambda frame, _: frame.reply(
            ResponseCode.KV_MOVED, body=_moved(2, "broker-a", first.address)
        )
        began_s = trio.current_time()
        with pytest.raises(LanemqError):
            await store.get(key)
        assert 4 <= trio.current_time() - began_s <= 5
        assert first.count(GET) + second.count(GET) < 40
        second.handlers[GET] = answer
        assert await store.get(key) is not None


def _moved(partitions: int, broker: str, address: str) -> bytes:
    return encode_answer(Moved(partitions, broker, address))


async def test_brokers_that_disagree_on_the_number_are_asked_with_pauses(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    kv.make(2)
    first, second = kv.kv_brokers
    for broker, number in ((first, 3), (second, 5)):
        other = second if broker is first else first
        body = _moved(number, other.name, other.address)
        broker.handlers[GET] = lambda frame, _, body=body: frame.reply(  # type: ignore[misc]
            ResponseCode.KV_MOVED, body=body
        )
        broker.handlers[RequestCode.KV_STATUS] = broker.handlers[GET]
    async with opened(kv, timeout_s=5.0) as store:
        with pytest.raises(LanemqError):
            await store.get(b"k")
        with pytest.raises(LanemqError):
            await store.status()
        assert trio.current_time() >= 8
        assert first.count(GET) + second.count(GET) < 40


async def test_writes_are_numbered_in_each_partition(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    """A partition that does not answer keeps nobody from the others."""
    kv.make(2)
    stuck, free = kv.namespaces["default"].values()
    async with opened(kv) as store, trio.open_nursery() as nursery:
        for number in range(3):
            assert await store.put(key_in(1, 2), b"%d" % number) == number + 1
        stuck.is_moving = True
        for _ in range(300):  # more than a partition is asked for at once
            nursery.start_soon(store.put, key_in(0, 2), b"v")
        await wait_all_tasks_blocked()
        assert await store.put(key_in(1, 2), b"3") == 4
        stuck.is_moving = False
    assert [sequence for _, sequence in free.results] == [1, 2, 3, 4]
    assert sorted(sequence for _, sequence in stuck.results) == list(range(1, 301))
    assert stuck.entries[key_in(0, 2)].version == 300


@pytest.mark.parametrize("seed", range(5))
async def test_every_write_is_done_once_wherever_partitions_go(
    kv: KvCluster, autojump_clock: MockClock, seed: int
) -> None:
    """Moves that name servers hear of or not, connections that break, answers that get lost."""
    random = Random(seed)
    kv.make(4)
    names = [broker.name for broker in kv.kv_brokers]
    async with opened(kv, timeout_s=600) as store, trio.open_nursery() as nursery:

        async def write(key: bytes) -> None:
            for number in range(1, 31):
                assert await store.put(key, b"%d" % number) == number
                await trio.sleep(0.1)

        async def disturb() -> None:
            for _ in range(60):
                await trio.sleep(random.random() / 5)
                broker, part = random.choice(kv.kv_brokers), random.randrange(4)
                match random.randrange(5):
                    case 0:
                        broker.cut()
                    case 1:
                        broker.mute(WRITE)
                    case 2:
                        broker.knows_holders = not broker.knows_holders
                    case 3:
                        kv.namespaces["default"][part].is_moving = random.random() < 0.5
                    case _:
                        kv.move(part, random.choice(names), listed=random.random() < 0.8)
            kv.publish("default")  # in the end somebody knows where everything is
            for state in kv.namespaces["default"].values():
                state.is_moving = False

        nursery.start_soon(disturb)
        for number in range(8):
            nursery.start_soon(write, b"k%d" % number)
    assert kv.written() == {b"k%d" % number: b"30" for number in range(8)}


async def test_a_partition_that_is_moving_is_waited_for(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    kv.make(2)
    part = kv.namespaces["default"][1]
    key = key_in(1, 2)
    async with opened(kv) as store, trio.open_nursery() as nursery:
        part.is_moving = True

        async def end_of_move() -> None:
            await trio.sleep(3)
            part.is_moving = False
            kv.move(1, "broker-a", listed=False)

        nursery.start_soon(end_of_move)
        assert await store.put(key, b"v") == 1
        assert trio.current_time() >= 3
        assert part.position == 1


async def test_a_partition_without_an_open_end_is_looked_for_until_there_is_one(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    kv.make(2)
    kv.publish("default", without=frozenset({1}))
    async with opened(kv) as store:
        with pytest.raises(NoRoute, match="nobody has partition 1 now"):
            await store.put(key_in(1, 2), b"v")
        async with trio.open_nursery() as nursery:

            async def end_of_move() -> None:
                await trio.sleep(2)
                kv.publish("default")

            nursery.start_soon(end_of_move)
            assert await store.put(key_in(1, 2), b"v") == 1


async def test_a_partition_whose_broker_is_down_is_not_begun_elsewhere(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    kv.make(2)
    kv.kv_brokers[1].reachable = False
    kv.kv_brokers[1].chains.clear()
    async with opened(kv, broker="broker-a") as store:
        await store.put(key_in(0, 2), b"v")
        with pytest.raises(NoRoute, match="no broker that is registered now has partition 1 of 2"):
            await store.put(key_in(1, 2), b"v")
        assert kv.namespaces["default"][1].position == 0


async def test_batches_are_in_one_partition(kv: KvCluster) -> None:
    kv.make(4)
    async with opened(kv) as store:
        first, second = key_in(2, 4), key_in(2, 4, "x")
        other = key_in(3, 4)
        steps = [Step(first, Action.PUT, b"1"), Step(second, Action.PUT, b"2")]
        assert (await store.batch(steps)).done
        with pytest.raises(KvRejected) as refused:
            await store.batch([*steps, Step(other, Action.PUT, b"3")])
        text = str(refused.value)
        assert f"{first!r} is in partition 2, {other!r} in 3 of 4" in text
        assert "a namespace of one partition" in text
        assert kv.written() == {first: b"1", second: b"2"}
        with pytest.raises(KvRejected):
            await store.batch([])


async def test_a_batch_is_not_refused_for_what_name_servers_miss(kv: KvCluster) -> None:
    """Of four partitions three are listed: only brokers know which keys are together."""
    kv.make(4)
    kv.publish("default")
    kv.kv_brokers[1].chains = {
        topic: queues.remove(3) for topic, queues in kv.kv_brokers[1].chains.items()
    }
    keys = [f"k{n}".encode() for n in range(100)]
    together = [key for key in keys if partition_of(key, 4) == 0]
    first = together[0]
    second = next(k for k in together if partition_of(k, 3) != partition_of(first, 3))
    async with opened(kv) as store:
        steps = [Step(key, Action.PUT, b"v") for key in (first, second)]
        assert (await store.batch(steps)).done


async def test_a_snapshot_is_spread_and_everything_is_cleared(kv: KvCluster) -> None:
    kv.make(3)
    async with opened(kv) as store:
        entries = [LoadedEntry(f"k{n}".encode(), b"v", 7, 1, 2) for n in range(50)]
        await store.load(entries)
        assert set(kv.written()) == {one.key for one in entries}
        status = await store.status()
        each = await store.statuses()
        assert [one.partition for one in each] == [0, 1, 2]
        assert (status.entries, status.partitions) == (50, 3)
        assert status.entry_bytes == sum(one.entry_bytes for one in each)
        assert status.clock_ms == 1002
        assert status.broker == "broker-a, broker-b"
        assert status.is_open
        assert not status.lost
        before = status.state_hash
        await store.put(key_in(1, 3), b"other")
        assert (await store.status()).state_hash != before
        await store.clear()
        assert kv.written() == {}


# Making namespaces


async def test_partitions_are_made_at_brokers_in_turn_and_only_once(kv: KvCluster) -> None:
    async with opened(kv, broker="broker-a") as store:
        await store.create(3, ["broker-b", "broker-a"])
        parts = kv.namespaces["default"]
        assert [part.holder for part in parts.values()] == ["broker-b", "broker-a", "broker-b"]
        await store.create(3, ["broker-a"])
        await store.create()
        assert len({part.holder for part in parts.values()}) == 2
        with pytest.raises(KvRejected, match="has 3 partitions, and not 4: their number never"):
            await store.create(4, ["broker-a"])
        await store.put(key_in(2, 3), b"v")
    async with opened(kv) as store:
        with pytest.raises(KvRejected, match="has 3 partitions, and not 2"):
            await store.create(2, ["broker-a"])
        await store.put(key_in(1, 3), b"v")
    assert len(kv.namespaces["default"]) == 3


async def test_making_goes_on_where_it_failed(kv: KvCluster, autojump_clock: MockClock) -> None:
    kv.kv_brokers[1].reachable = False
    async with opened(kv) as store:
        with pytest.raises(NoRoute, match="broker-b is not registered now"):
            await store.create(4, ["broker-a", "broker-b"])
        assert list(kv.namespaces["default"]) == [0]
        kv.kv_brokers[1].reachable = True
        await store.create(4, ["broker-a", "broker-b"])
        holders = [kv.namespaces["default"][number].holder for number in range(4)]
        assert holders == ["broker-a", "broker-b", "broker-a", "broker-b"]


async def test_the_number_of_partitions_that_are_there_counts(kv: KvCluster) -> None:
    kv.make(1)
    kv.publish_without_logical_queues()
    async with opened(kv) as store:
        with pytest.raises(KvRejected, match="has one partition, and not 4"):
            await store.create(4, ["broker-b"])
        await store.create(1, ["broker-b"])
        assert await store.put(b"k", b"v") == 1
    kv.make(4)
    kv.publish("default")
    kv.kv_brokers[0].chains.clear()
    kv.kv_brokers[0].topics.clear()
    kv.kv_brokers[1].chains = {
        topic: queues.remove(1) for topic, queues in kv.kv_brokers[1].chains.items()
    }
    async with opened(kv) as store:
        with pytest.raises(KvRejected, match="has more than 2 partitions"):
            await store.create(2, ["broker-a"])


async def test_a_broker_that_knows_of_no_partitions_has_one(kv: KvCluster) -> None:
    """Older brokers ignore the number in a request, and answer without one."""
    kv.make(1)
    kv.publish_without_logical_queues()
    first = kv.kv_brokers[0]
    for code, handler in list(first.handlers.items()):
        first.handlers[code] = lambda frame, peer, handler=handler: handler(  # type: ignore[misc]
            replace(frame, fields={k: v for k, v in frame.fields.items() if "partition" not in k}),
            peer,
        )
    async with opened(kv) as store:
        await store.put(b"k", b"v")
        assert (await store.status()).partitions == 1
        with pytest.raises(KvRejected, match="has one partition, and not 2"):
            await store.create(2, ["broker-b"])
        assert await store.put(b"k", b"v") == 2


async def test_of_several_brokers_nobody_chooses_where_partitions_are(kv: KvCluster) -> None:
    async with opened(kv) as store:
        with pytest.raises(NoNamespace, match="one of broker-a, broker-b"):
            await store.create(2)
        with pytest.raises(KvRejected, match="1 to 64 partitions, not 65"):
            await store.create(65, ["broker-a"])
        with pytest.raises(KvRejected, match="say how many"):
            await store.create(brokers=["broker-a", "broker-b"])
        assert not any(kv.namespaces.values())
        await store.create(brokers=["broker-b"])
        await store.create(brokers=["broker-b"])
    async with opened(kv) as store:
        with pytest.raises(NoNamespace, match="broker broker-b has it, and not broker-a"):
            await store.create(brokers=["broker-a"])
    assert [part.holder for part in kv.namespaces["default"].values()] == ["broker-b"]


async def test_a_lone_broker_gets_all_partitions(nursery: trio.Nursery) -> None:
    kv = KvCluster(nursery, brokers=1)
    async with opened(kv) as store:
        await store.create(2)
        await store.put(key_in(1, 2), b"v")
    async with opened(kv, namespace="other", broker="broker-a") as store:
        await store.create(2)
    assert [len(parts) for parts in kv.namespaces.values()] == [2, 2]


async def test_a_namespace_is_at_a_broker_that_was_named(kv: KvCluster) -> None:
    kv.make(1)
    async with opened(kv, broker="broker-b") as store:
        with pytest.raises(NoNamespace, match="broker broker-a has it, and not broker-b"):
            await store.put(b"k", b"v")
    kv.make(2)
    async with opened(kv, broker="broker-b") as store:
        await store.put(key_in(0, 2), b"v")
    async with opened(kv, broker="broker-c") as store:
        with pytest.raises(NoNamespace, match="brokers broker-a, broker-b have it"):
            await store.put(b"k", b"v")


async def test_one_that_moves_away_from_the_broker_that_was_named_is_followed(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    kv.make(1)
    async with opened(kv, broker="broker-a") as store:
        await store.put(b"k", b"1")
        kv.move(0, "broker-b")
        kv.kv_brokers[0].reachable = False
        kv.kv_brokers[0].cut()
        assert await store.put(b"k", b"2") == 2


# What is built on keys


async def test_checkpoints_locks_and_positions_are_single_keys(kv: KvCluster) -> None:
    kv.make(8)
    async with opened(kv) as store:
        for number in range(4):
            checkpoint = store.checkpoint(f"c{number}")
            assert await checkpoint.load() is None
            await checkpoint.save(b"%d" % number)
            assert await store.checkpoint(f"c{number}").load() == b"%d" % number
        lock_key = key_in(5, 8)
        async with store.lock(lock_key) as lock:
            near, far = key_in(5, 8, "near"), key_in(6, 8)
            assert (await store.batch([lock.check, Step(near, Action.PUT, b"")])).done
            with pytest.raises(KvRejected, match="in partition 5"):
                await store.batch([lock.check, Step(far, Action.PUT, b"")])
        positions = KvOffsetStore(store, "g")
        for queue_id in range(8):
            queue = MessageQueue("T", "broker-a", queue_id)
            await positions.save_offset(queue, queue_id)
            assert await positions.load_offset(queue) == queue_id


async def test_a_lock_is_waited_for_in_its_partition(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    kv.make(4)
    inside = 0
    async with opened(kv) as store, trio.open_nursery() as nursery:

        async def work(key: bytes) -> None:
            nonlocal inside
            async with store.lock(key):
                inside += 1
                assert inside == 1
                await trio.sleep(1)
                inside -= 1

        for _ in range(3):
            nursery.start_soon(work, key_in(3, 4))


def test_the_number_of_partitions_of_a_deleted_namespace_is_forgotten() -> None:
    holders = Holders(None, "shop", None)  # type: ignore[arg-type]
    brokers = {name: BrokerData("c", name, {0: f"{name}:1"}) for name in "ab"}
    unknown = KvRoute(brokers, None, ())  # as of a name server that has lost its memory
    deleted = KvRoute(brokers, None, (), deleted_at={"a"})
    for is_sure, route, error in (
        (True, unknown, NoRoute),
        (False, unknown, NoNamespace),
        (True, deleted, NoNamespace),
    ):
        holders._partitions, holders.is_sure = 2, is_sure
        with pytest.raises(error):
            holders._absent(route, 0, None)


async def test_a_deletion_whose_answer_was_lost_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forgotten(calls: object, identities: set[str]) -> None:
        assert identities == {"x"}

    monkeypatch.setattr(_deletion, "_forgotten", forgotten)

    class Calls:
        """One partition, which is deleted by a call whose answer does not come."""

        namespace, is_there = "shop", True
        holders = SimpleNamespace(reset=lambda: None)

        async def status_at(self, *args: object, **named: object) -> object:
            if not self.is_there:
                raise NoNamespace("shop", "it was deleted")
            return SimpleNamespace(identity="x")

        async def write_at(self, *args: object, **named: object) -> bytes:
            self.is_there = False
            raise OtherPartitions

        async def each(self, drop: Callable[..., Awaitable[bool]]) -> list[bool]:
            with suppress(OtherPartitions):
                await drop(0, 2, None)
            return [await drop(0, 1, None)]

    calls = Calls()
    await _deletion.delete_namespace(calls)  # type: ignore[arg-type]
    with pytest.raises(NoNamespace):  # there was none before this call
        await _deletion.delete_namespace(calls)  # type: ignore[arg-type]
