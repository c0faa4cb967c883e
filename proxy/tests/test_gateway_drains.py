"""A broker that is drained behind a proxy, and stopped for good, while clients go on."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from msgspec.structs import replace

from lanemq.proxy.gateway import open_gateway
from lanemq.proxy.gateway._numbers import BrokerKey
from lanemq.proxy.gateway.moves import _drain, _handover, _rest, _stands
from lanemq.proxy.gateway.moves._stands import Stand as Entry
from lanemq.proxy.gateway.moves._stands import decode_stand, reopen
from lanemq.proxy.gateway.order import Part, change_order
from lanemq.sdk import Message, RefusedByBroker, open_producer, open_remoting_client
from lanemq.sdk.admin import open_admin
from lanemq.sdk.admin.cli import admin as admin_command
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.drains import QUEUES, command, send, sending, sides
from lanemq.testkit.proxy.gateways import until
from lanemq.testkit.proxy.moves import A, B, Stand, put, reading, standing
from lanemq.testkit.proxy.peers import Dial
from lanemq.testkit.servers import PATIENT_PRODUCER, PATIENT_S
from lanemq.wire import Permission, RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatch, LockBatchResult, MessageQueue, RouteData, TopicConfig

Code = RequestCode


@pytest.fixture(autouse=True)
def answers_come_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_handover, "LATE_S", 0.1)
    monkeypatch.setattr(_rest, "DIRECT_S", 0.2)
    monkeypatch.setattr(_stands, "GONE_S", 0.0)


async def stop(at: Stand, broker: str) -> None:
    """Stop a broker for good, and wait until the proxy knows."""
    at.stops[broker].set()
    await at.stopped[broker].wait()
    await until(lambda: BrokerKey(broker, 0) not in at.proxy.brokers.listed)


async def route(at: Stand) -> RouteData:
    async with open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin:
        return await admin.route("T")


async def test_a_broker_is_drained_and_stopped_while_an_orderly_group_reads(
    tmp_path: Path, dial: Dial
) -> None:
    async with (
        standing(tmp_path, dial) as at,
        reading(at.address) as handled,
        sending(at) as producer,
    ):
        kept, gone = await sides(at)
        await send(producer, range(8))
        await until(lambda: len(handled.bodies) == 8)
        shown = await command("drainBroker", "-n", at.address, "-b", gone, "--dry-run")
        assert shown.count(f"{gone}                         {kept}") == 2
        shown = await command("drainBroker", "-n", at.address, "-b", gone)
        assert f"{kept} stands in for {gone}\n" in shown
        assert f"{gone} can be switched off now: nothing needs it" in shown
        async with open_admin(name_servers="127.0.0.1:1", timeout_s=PATIENT_S) as admin:
            table = (await admin.topic_configs(str(at.brokers[gone].address))).topic_config_table
            assert table["T"].perm == Permission.READ
            table = (await admin.topic_configs(str(at.brokers[kept].address))).topic_config_table
            assert table["T"].perm == Permission.READ_WRITE
        before = await route(at)
        assert {(q.broker_name, q.write_queue_nums, q.perm) for q in before.queue_datas} == {
            (A, 2, 6),
            (B, 2, 6),
        }
        await send(producer, range(8, 16))
        await stop(at, gone)
        assert (await route(at)).queue_datas == before.queue_datas
        await send(producer, range(16, 32))
        await until(lambda: len(handled.bodies) >= 32)
        by_queue: dict[MessageQueue, list[int]] = {}
        for body, (queue, offset) in zip(handled.bodies, handled.places, strict=True):
            by_queue.setdefault(queue, []).append(int(body))
            assert offset == len(by_queue[queue]) - 1
        assert sorted(map(sorted, by_queue.values())) == sorted(by_queue.values())
        assert sorted(int(body) for body in handled.bodies) == list(range(32))
        shown = await command("proxyStatus", "-n", at.address)
        assert f"{kept} stands in for {gone}, which nobody has to read any more" in shown


async def test_a_route_has_the_queues_of_a_broker_that_is_gone_since_the_last_look(
    tmp_path: Path, dial: Dial
) -> None:
    """A client that asked within two seconds dropped them, and handled messages twice."""
    async with standing(tmp_path, dial) as at, sending(at) as producer:
        _, gone = await sides(at)
        await send(producer, range(8))
        await command("drainBroker", "-n", at.address, "-b", gone)
        before = await route(at)
        async with at.proxy.routes._looking:
            at.stops[gone].set()
            await at.stopped[gone].wait()
            assert BrokerKey(gone, 0) in at.proxy.brokers.listed
            async with open_admin(
                name_servers=at.cluster.name_server, timeout_s=PATIENT_S
            ) as admin:
                assert len((await admin.route("T")).queue_datas) == 1
            assert (await route(at)).queue_datas == before.queue_datas


async def test_a_proxy_that_starts_after_the_broker_is_gone_serves_its_queues(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at:
        kept, gone = await sides(at)
        async with sending(at) as producer, reading(at.address) as handled:
            await send(producer, range(8))
            await until(lambda: len(handled.bodies) == 8)
        await command("drainBroker", "-n", at.address, "-b", gone)
        await stop(at, gone)
        async with open_gateway(at.cluster.config(logical=True, moves=True)) as other:
            address = str(other.address)
            # It tells no route until it has a port for the broker that is gone.
            async with open_admin(name_servers=address, timeout_s=PATIENT_S) as admin:
                told: list[RouteData] = []
                while BrokerKey(gone, 0) not in other.brokers.ports or not told:
                    with suppress(RefusedByBroker):
                        told.append(await admin.route("T"))
            assert {q.broker_name for one in told for q in one.queue_datas} == {A, B}
            assert all(len(one.queue_datas) == 2 for one in told)
            async with open_producer(
                "q", name_servers=address, options=PATIENT_PRODUCER
            ) as producer:
                await send(producer, range(8, 16))
            # The group has read all that only the broker had, and goes on behind it.
            async with reading(address) as later:
                await until(lambda: len(later.bodies) >= 8)
            assert sorted(map(int, later.bodies)) == list(range(8, 16))
            # Another one has nothing of before, and finds the begin of what is there.
            async with reading(address, group="new") as new:
                await until(lambda: len(new.bodies) >= 12)
            seen = [int(body) for body in new.bodies]
            assert {n for n in range(8) if (A, B)[n % QUEUES // 2] == kept} <= set(seen)
            assert set(range(8, 16)) <= set(seen)
            shown = await command("forgetBroker", "-n", address, "-b", gone)
            assert f"{gone} is forgotten" in shown


async def test_who_has_not_read_all_waits_until_the_broker_is_forgotten(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at, sending(at) as producer:
        _, gone = await sides(at)
        client = await at.client(gone)
        fields = {"topic": "T", "queueId": "1", "consumerGroup": "g"}
        await send(producer, range(16))
        commit = {**fields, "commitOffset": "1"}
        assert (await client.call(Code.UPDATE_CONSUMER_OFFSET, commit)).code == 0
        shown = await command("drainBroker", "-n", at.address, "-b", gone)
        assert "still there: 7 messages that a group has not read, most of them g of T" in shown
        await stop(at, gone)
        client = await at.client(gone)
        answer = await client.call(Code.QUERY_CONSUMER_OFFSET, fields)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        await command("forgetBroker", "-n", at.address, "-b", gone)
        answer = await client.call(Code.QUERY_CONSUMER_OFFSET, fields)
        assert (answer.code, answer.fields) == (0, {"offset": "4"})
        pull = {
            "consumerGroup": "g",
            "topic": "T",
            "queueId": "1",
            "queueOffset": "1",
            "maxMsgNums": "32",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
        }
        answer = await client.call(Code.PULL_MESSAGE, pull)
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert answer.fields["nextBeginOffset"] == "4"
        for code in (Code.GET_MIN_OFFSET, Code.GET_MAX_OFFSET):
            assert (await client.call(code, fields)).fields == {"offset": "4"}
        at_end = {**fields, "commitOffset": "4"}
        assert (await client.call(Code.UPDATE_CONSUMER_OFFSET, at_end)).code == 0
        assert (await client.call(Code.QUERY_CONSUMER_OFFSET, fields)).fields == {"offset": "4"}


@pytest.mark.parametrize("is_empty", [True, False])
async def test_a_forgotten_broker_that_comes_back_is_the_same_if_it_has_what_it_had(
    is_empty: bool, tmp_path: Path, dial: Dial
) -> None:
    async with (
        standing(tmp_path, dial) as at,
        open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin,
        sending(at) as producer,
    ):
        _, gone = await sides(at)
        client = await at.client(gone)
        fields = {"topic": "T", "queueId": "1", "consumerGroup": "g"}
        await send(producer, range(16))
        commit = {**fields, "commitOffset": "1"}
        assert (await client.call(Code.UPDATE_CONSUMER_OFFSET, commit)).code == 0
        await command("drainBroker", "-n", at.address, "-b", gone)
        await stop(at, gone)
        await command("forgetBroker", "-n", at.address, "-b", gone)
        assert f"{gone}, which is forgotten" in await command("proxyStatus", "-n", at.address)
        # Entries without the member, as proxies from before write them, are read.
        assert decode_stand(b'["a","",true]') == Entry("a", is_done=True)
        if is_empty:
            shutil.rmtree(tmp_path / gone)
        async with at.cluster.open_broker(gone):
            await until(lambda: BrokerKey(gone, 0) in at.proxy.brokers.listed)
            client = await at.client(gone)
            # Its messages count as deleted, whatever one of its name has.
            answer = await client.call(Code.GET_MIN_OFFSET, fields)
            assert (answer.code, answer.fields) == (0, {"offset": "4"})
            with pytest.raises(RefusedByBroker, match="was forgotten: drainBroker finds out"):
                await at.move(0, gone)
            if is_empty:
                with pytest.raises(RefusedByBroker, match="topic T: give it another name"):
                    await admin.drain_at_proxy(at.address, gone)
                with pytest.raises(RefusedByBroker, match="was forgotten"):
                    await at.move(0, gone)
            else:
                shown = await command("drainBroker", "-n", at.address, "-b", gone)
                assert "still there: 7 messages that a group has not read" in shown
                answer = await client.call(Code.GET_MIN_OFFSET, fields)
                assert (answer.code, answer.fields) == (0, {"offset": "0"})
                await at.move(0, gone)


async def test_a_broker_that_was_gone_and_is_back_is_done_no_longer(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at, sending(at) as producer:
        _, gone = await sides(at)
        await send(producer, range(8))
        async with reading(at.address) as handled:
            await until(lambda: len(handled.bodies) == 8)
        await command("drainBroker", "-n", at.address, "-b", gone)
        assert at.proxy.moving is not None
        stands = at.proxy.moving.stands
        assert stands.known[gone].is_done
        await stop(at, gone)
        client = await at.client(gone)
        least = {"topic": "T", "queueId": "1"}
        await until(lambda: stands.is_gone(gone))
        assert (await client.call(Code.GET_MIN_OFFSET, least)).fields == {"offset": "2"}
        async with at.cluster.open_broker(gone):
            await until(lambda: not stands.known[gone].is_done)
            client = await at.client(gone)
            assert (await client.call(Code.GET_MIN_OFFSET, least)).fields == {"offset": "0"}
            shown = await command("drainBroker", "-n", at.address, "-b", gone)
            assert f"{gone} can be switched off now" in shown
            assert stands.known[gone].is_done


def lock_of(client_id: str, *queues: MessageQueue) -> bytes:
    return LockBatch("g", client_id, queues).encode()


async def locked(client: Client, client_id: str, *queues: MessageQueue) -> set[MessageQueue]:
    answer = await client.call(Code.LOCK_BATCH_MQ, {}, lock_of(client_id, *queues))
    assert answer.code == 0, answer.remark
    return set(LockBatchResult.decode(answer.body).lock_ok_mq_set)


async def until_locked(
    client: Client, client_id: str, queues: set[MessageQueue], wanted: set[MessageQueue]
) -> None:
    """Ask for locks until all that are wanted are granted: a drain has them, too, for a moment at a
    time."""
    with trio.fail_after(60):
        while (found := await locked(client, client_id, *queues)) != wanted:
            assert found < wanted


async def test_locks_are_never_lent_twice_while_they_go_over(tmp_path: Path, dial: Dial) -> None:
    async with (
        standing(tmp_path, dial) as at,
        open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin,
    ):
        kept, gone = await sides(at)
        queue, other = MessageQueue("T", gone, 0), MessageQueue("T", gone, 1)
        client = await at.client(gone)
        commit = {"topic": "T", "queueId": "0", "consumerGroup": "g", "commitOffset": "0"}
        assert (await client.call(Code.UPDATE_CONSUMER_OFFSET, commit)).code == 0
        assert await locked(client, "one", queue) == {queue}
        waits = f"until locks of {gone} are at {kept}, too"
        while waits not in (found := await admin.drain_at_proxy(at.address, gone)).what:
            assert found.state == "draining"
        found = await admin.drain_at_proxy(at.address, gone)
        assert (found.state, waits in found.what) == ("draining", True)
        # At the one that stands in nobody has it yet, and at the first one somebody has.
        await until_locked(client, "two", {queue, other}, {other})
        direct = Client(await dial(at.brokers[kept].port))
        await until_locked(direct, "three", {queue, other}, {queue})
        assert await locked(client, "one", queue) == set()
        unlock = lock_of("three", queue)
        assert (await direct.call(Code.UNLOCK_BATCH_MQ, {}, unlock)).code == 0
        await until_locked(client, "one", {queue, other}, {queue})
        while (await admin.drain_at_proxy(at.address, gone)).state == "draining":
            pass
        assert await locked(client, "two", queue, other) == {other}
        unlock = lock_of("one", queue)
        assert (await client.call(Code.UNLOCK_BATCH_MQ, {}, unlock)).code == 0
        assert await locked(client, "two", queue, other) == {queue, other}
        assert await locked(direct, "three", queue, other) == set()


async def test_the_broker_of_the_log_stays(tmp_path: Path, dial: Dial) -> None:
    async with standing(tmp_path, dial) as at:
        kept, _ = await sides(at)
        runner = CliRunner()
        words = ["drainBroker", "-n", at.address, "-b", kept]
        shown = await trio.to_thread.run_sync(partial(runner.invoke, admin_command, words))
        assert shown.exit_code != 0
        assert "a log of proxies, which cannot move" in shown.output
        orders = at.proxy.orders
        assert orders is not None
        assert (order := orders.of("T")) is not None
        assert not order.moved


async def test_queues_come_back_to_a_drained_broker_and_are_balanced(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at:
        kept, gone = await sides(at)
        await command("drainBroker", "-n", at.address, "-b", gone)
        shown = await command("balanceLogicalQueues", "-n", at.address, "--apply")
        assert "evenly spread already" in shown
        async with (
            open_admin(name_servers=at.cluster.name_server, timeout_s=PATIENT_S) as admin,
            open_admin(name_servers=at.address, timeout_s=PATIENT_S) as proxied,
        ):
            address = str(at.brokers[gone].address)
            assert (await admin.config(address))["brokerPermission"] == "4"
            # Nobody writes there to a topic that is made later, direct or not.
            await admin.put_topic(
                address, TopicConfig("later", read_queue_nums=1, write_queue_nums=1)
            )
            for one in (admin, proxied):
                (queues,) = (await one.route("later")).queue_datas
                assert (queues.broker_name, queues.perm) == (gone, Permission.READ)
            await at.move(0 if gone == A else 2, gone)
            assert (await admin.config(address))["brokerPermission"] == "6"
            table = (await admin.topic_configs(address)).topic_config_table
        assert table["T"].perm == Permission.READ_WRITE
        await at.move(0 if kept == A else 2, gone)
        assert at.proxy.moving is not None
        stand = at.proxy.moving.stands.of(gone)
        assert stand is not None
        assert not stand.is_done
        shown = await command("drainBroker", "-n", at.address, "-b", gone)
        assert "[3/3]" in shown


async def test_a_drained_broker_that_is_still_there_serves_what_only_it_has(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at, sending(at) as producer:
        _, gone = await sides(at)
        await put(at.brokers[gone], 2)
        await send(producer, range(8))
        await command("drainBroker", "-n", at.address, "-b", gone)
        client = await at.client(gone)
        assert (await client.call(Code.GET_BROKER_RUNTIME_INFO, {})).code == 0
        async with reading(at.address, group="old") as old:
            await until(lambda: len(old.bodies) >= 8)
        await stop(at, gone)
        # The connection outlives the broker.
        answer = await client.call(Code.GET_BROKER_RUNTIME_INFO, {})
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "is drained and gone" in (answer.remark or "")
        beat = b'{"clientID":"c","consumerDataSet":[],"producerDataSet":[]}'
        assert (await client.call(Code.HEART_BEAT, {}, beat)).code == 0


async def test_queues_at_added_brokers_outlive_the_broker_behind_them(
    tmp_path: Path, dial: Dial
) -> None:
    async with (
        standing(tmp_path, dial) as at,
        open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin,
    ):
        _, gone = await sides(at)
        for count, name in ((5, A), (6, B)):
            await put(at.brokers[name], 3)
            with trio.fail_after(30):
                while sum(q.read_queue_nums for q in (await route(at)).queue_datas) < count:  # noqa: ASYNC110 - it is asked
                    await trio.sleep(0.1)
        before = await route(at)
        added = [q.broker_name for q in before.queue_datas if q.broker_name not in {A, B}]
        assert len(added) == 2
        await command("drainBroker", "-n", at.address, "-b", gone)
        await stop(at, gone)
        assert (await route(at)).queue_datas == before.queue_datas
        orders = at.proxy.orders
        assert orders is not None
        (number,) = [n for n in range(2) if orders.behind_one(n) == [gone]]
        queue = MessageQueue("T", added[number], 0)
        client = await at.client(queue.broker_name)
        assert await locked(client, "one", queue) == {queue}
        assert await locked(client, "two", queue) == set()
        unlock = lock_of("one", queue)
        assert (await client.call(Code.UNLOCK_BATCH_MQ, {}, unlock)).code == 0
        async with reading(at.address) as handled, sending(at) as producer:
            for number in range(4):
                await producer.send(Message(topic="T", body=b"%d" % number), queue=queue)
            await until(lambda: len(handled.bodies) >= 4)
            assert handled.places == [(queue, offset) for offset in range(4)]
        assert (await admin.proxy_status(at.address)).moves is not None


async def test_a_broker_that_gets_a_queue_meanwhile_is_not_done(
    tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain that has found nothing to read there says so late."""
    async with standing(tmp_path, dial) as at, open_remoting_client() as client:
        _, gone = await sides(at)
        await command("drainBroker", "-n", at.address, "-b", gone)
        moving = at.proxy.moving
        assert moving is not None
        stands = moving.stands
        before = stands.of(gone)
        assert before is not None
        assert before.is_done
        look = _rest.Rest.look
        looks = 0

        async def slow_look(rest: _rest.Rest, say: Callable[[str], None], *, is_last: bool) -> None:
            nonlocal looks
            await look(rest, say, is_last=is_last)
            looks += 1
            if looks == 1:
                await at.move(0, gone)

        monkeypatch.setattr(_rest.Rest, "look", slow_look)
        found = await _drain.Drain(at.context(client), gone, {}).run()
        assert (found.state, found.written, looks) == ("standing", 1, 2)
        moving.refresh()
        after = stands.of(gone)
        assert after is not None
        assert after.number > before.number
        assert after == replace(before, is_done=False, number=after.number)
        # One that is only on its way there has not said yet that the broker is needed again.
        await at.move(0, B if gone == A else A)
        orders = moving.orders

        async def prepare(rest: _rest.Rest, say: Callable[[str], None], *, is_last: bool) -> None:
            nonlocal looks
            await look(rest, say, is_last=is_last)
            looks += 1
            if looks == 3:
                order = orders.of("T")
                assert order is not None
                (moved,) = (
                    one for one in order.moved if one.place == order.own_of(order.queues()[0])
                )
                after = order.with_moved(moved, moved.prepared(Part(gone, 9))).with_kept((gone, 9))
                assert await change_order(orders, "T", order, after)

        monkeypatch.setattr(_rest.Rest, "look", prepare)
        found = await _drain.Drain(at.context(client), gone, {}).run()
        assert (found.state, found.written, looks) == ("standing", 1, 4)


async def test_a_broker_to_which_a_queue_was_to_go_meanwhile_is_forgotten_for_good(
    tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with standing(tmp_path, dial) as at, open_remoting_client() as client:
        _, gone = await sides(at)
        await command("drainBroker", "-n", at.address, "-b", gone)
        await stop(at, gone)
        moving = at.proxy.moving
        assert moving is not None
        stands = moving.stands
        count = _drain.Drain._count_written
        counts = 0

        async def count_slowly(drain: _drain.Drain) -> int:
            nonlocal counts
            found = await count(drain)
            counts += 1
            if counts == 1:
                await reopen(moving.orders.keys, gone)
            return found

        monkeypatch.setattr(_drain.Drain, "_count_written", count_slowly)
        found = await _drain.Drain(at.context(client), gone, {}).forget()
        assert (found.state, counts) == ("forgotten", 2)
        moving.refresh()
        assert stands.is_forgotten(gone)
