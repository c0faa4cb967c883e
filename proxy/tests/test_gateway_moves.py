"""Queues that move from one broker to another behind a proxy, while clients go on."""

from pathlib import Path
from typing import Final

import pytest
import trio
from click.testing import CliRunner
from msgspec.structs import replace

from lanemq.proxy._settings import ConfigError
from lanemq.proxy.gateway import GatewayConfig, GatewayFamilies, open_gateway
from lanemq.proxy.gateway._numbers import BrokerKey
from lanemq.proxy.gateway.moves._context import MoveRefused
from lanemq.proxy.gateway.moves._lease import LEASES
from lanemq.proxy.gateway.moves._mover import Move
from lanemq.proxy.gateway.order import PARTS_MAX, MovedQueue, Part, change_order
from lanemq.proxy.net.http._exposition import render
from lanemq.sdk import (
    Message,
    RefusedByBroker,
    TransactionState,
    open_producer,
    open_remoting_client,
    open_transaction_producer,
)
from lanemq.sdk.admin import open_admin
from lanemq.sdk.admin.cli import admin as admin_command
from lanemq.testkit.proxy.brokers import Client, pull_header, send_header
from lanemq.testkit.proxy.drains import command, send, sending, sides
from lanemq.testkit.proxy.gateways import until
from lanemq.testkit.proxy.moves import A, B, moved, put, reading, standing
from lanemq.testkit.proxy.peers import Dial
from lanemq.testkit.servers import PATIENT_PRODUCER, PATIENT_S, free_port
from lanemq.wire import RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.bodies import MessageQueue, SubscriptionGroupConfig
from lanemq.wire.message import BatchEntry, encode_batch

Code = RequestCode
ROUTE: Final = Code.GET_ROUTEINFO_BY_TOPIC
Queue = tuple[str, int]


async def test_a_queue_moves_and_back_while_clients_go_on(tmp_path: Path, dial: Dial) -> None:
    async with (
        standing(tmp_path, dial) as at,
        reading(at.address) as handled,
        open_producer("p", name_servers=at.address, options=PATIENT_PRODUCER) as producer,
    ):
        queue = MessageQueue("T", A, 1)
        sent = 0
        offsets: list[int] = []

        async def send(count: int) -> None:
            nonlocal sent
            for _ in range(count):
                found = await producer.send(
                    Message(topic="T", body=f"{sent}".encode()), queue=queue
                )
                assert found.queue == queue
                offsets.append(found.queue_offset)
                sent += 1

        await send(5)
        await until(lambda: len(handled.bodies) == 5)
        first = await at.move(1, B)
        assert (first.state, first.broker_name, first.queue_id, first.begin) == ("moved", B, 2, 5)
        await send(5)
        second = await at.move(1, A)
        assert (second.broker_name, second.queue_id, second.begin) == (A, 2, 10)
        await send(5)
        await until(lambda: len(handled.bodies) == 15)
        assert offsets == list(range(15))
        assert handled.bodies == [str(number) for number in range(15)]
        assert handled.places == [(queue, number) for number in range(15)]
        stores = {name: one.broker.context.store for name, one in at.brokers.items()}
        assert stores[A].bounds("T", 1) == (0, 5)
        assert stores[B].bounds("T", 2) == (0, 5)
        assert stores[A].bounds("T", 2) == (0, 5)


async def unknown(_: object) -> TransactionState:
    return TransactionState.UNKNOWN


async def test_what_is_due_later_comes_to_the_open_end(tmp_path: Path, dial: Dial) -> None:
    """A delayed message and a half wait at the broker that took them, whose queue has ended."""
    async with (
        standing(tmp_path, dial) as at,
        open_producer("p", name_servers=at.address, options=PATIENT_PRODUCER) as producer,
        open_transaction_producer(
            "t", name_servers=at.address, options=PATIENT_PRODUCER, check=unknown
        ) as transactions,
    ):
        queue = MessageQueue("T", A, 0)
        begun, moved_on = trio.Event(), trio.Event()

        async def execute(_: Message, __: str) -> TransactionState:
            begun.set()
            await moved_on.wait()
            return TransactionState.COMMIT

        async with trio.open_nursery() as nursery:
            half = Message(topic="T", body=b"half")
            nursery.start_soon(transactions.send_in_transaction, half, execute)
            await begun.wait()
            for body, level in ((b"now", 0), (b"later", 3)):
                await producer.send(Message(topic="T", body=body, delay_level=level), queue=queue)
            for index in range(4):
                await at.move(index, B if index < 2 else A)
            moved_on.set()
        async with reading(at.address) as handled:
            await until(lambda: len(handled.bodies) >= 3)
            assert sorted(handled.bodies) == ["half", "later", "now"]
            assert {place[0].broker_name for place in handled.places} <= {A, B}
        left = at.proxy.left
        assert left is not None
        assert left.sent == 2
        async with open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin:
            status = (await admin.proxy_status(at.address)).moves
            assert status is not None
            assert status.sent_again == 2
            assert [(one.topic, one.index, len(one.parts)) for one in status.queues] == [
                ("T", index, 2) for index in range(4)
            ]
            assert [one.name for one in status.leases] == [at.address]
            assert status.lease_seconds > 0
        text = b"".join(await render(GatewayFamilies(at.proxy).all())).decode()
        assert "lanemq_proxy_moved_queues 4" in text
        assert "lanemq_proxy_sent_again_total 2" in text


@pytest.mark.parametrize("is_batch", [False, True])
async def test_what_a_client_sends_again_behind_a_move_comes_once(
    is_batch: bool, tmp_path: Path, dial: Dial
) -> None:
    """A send without an answer is stored behind the end, and again in the next part."""
    keyed = [BatchEntry(0, b"%d" % n, b"UNIQ_KEY\x01key-%d\x02" % n) for n in range(3)]
    async with standing(tmp_path, dial) as at, reading(at.address) as handled:
        await at.move(0, B)
        direct = Client(await dial(at.brokers[A].address.port))
        for client in (await at.client(A), direct):
            if is_batch:
                header = send_header("T", None, queue_id=0, batch=True).to_letters()
                answer = await client.call(Code.SEND_BATCH_MESSAGE, header, encode_batch(keyed))
                assert answer.code == 0, answer.remark
            for one in [] if is_batch else keyed:
                sent = await client.send("T", one.body, one.properties.decode(), queue_id=0)
                assert sent.code == 0, sent.remark
        last = await direct.send("T", b"last", queue_id=0)
        assert last.code == 0, last.remark
        await until(lambda: "last" in handled.bodies)
        assert handled.bodies == ["0", "1", "2", "last"]
        async with open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin:
            status = (await admin.proxy_status(at.address)).moves
            assert status is not None
            assert (status.sent_again, status.passed_over) == (1, 3)
        text = b"".join(await render(GatewayFamilies(at.proxy).all())).decode()
        assert "lanemq_proxy_passed_over_total 3" in text


async def test_a_group_with_direct_members_keeps_a_queue_where_it_is(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at:
        async with reading(at.cluster.name_server):
            with pytest.raises(RefusedByBroker, match="group g has members who go direct"):
                await at.move(0, B)
        for index, broker, why in (
            (9, B, "topic T has 4 queues"),
            (0, A, "queue 0 is at broker-a"),
            (0, "broker-x", "no master"),
        ):
            with pytest.raises(RefusedByBroker, match=why):
                await at.move(index, broker)
        orders = at.proxy.orders
        assert orders is not None
        order = orders.of("T")
        assert order is not None
        assert not order.moved
        assert not order.kept


async def test_a_proxy_whose_lease_has_ended_serves_no_queue_that_may_move(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at:
        client = await at.client(A)
        fields = {"topic": "T", "queueId": "0"}
        assert (await client.call(Code.GET_MAX_OFFSET, fields)).code == 0
        moving = at.proxy.moving
        assert moving is not None
        moving.lease.hold_back("it is not to be renewed")
        # What was asked before gets no answer either: the connection ends.
        assert moving.lease.era == 1
        answer = await client.call(Code.GET_MAX_OFFSET, fields)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "has no lease" in (answer.remark or "")
        other = await at.client(B)
        system = await other.call(Code.GET_BROKER_RUNTIME_INFO, {})
        assert system.code == 0
        with pytest.raises(RefusedByBroker, match="no lease"):
            await at.move(0, B)


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_a_send_after_the_lease_has_ended_is_not_both_stored_and_refused(
    is_waiting: bool, tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at:
        moving, client = at.proxy.moving, await at.client(A)
        assert moving is not None
        assert (await client.send("T", queue_id=0)).code == 0
        if is_waiting:
            fields = pull_header("T", 1, 0, sys_flag=6, suspend_timeout_millis=60_000).to_fields()
            await client.peer.send(client.frame(Code.PULL_MESSAGE, fields))
            await until(lambda: at.proxy.brokers.ports[BrokerKey(A, 0)].counts.requests == 2)
        moving.lease._until_s = trio.current_time() - 1
        assert moving.lease.era == 1
        moving.lease.renew_for(1 << 60)
        await until(lambda: moving.lease.is_sure)
        if is_waiting:
            letters = send_header("T", None, queue_id=0).to_letters()
            await client.peer.send(client.frame(Code.SEND_MESSAGE_V2, letters, b"x"))
            while not await client.peer.is_closed():
                pass
        else:
            assert (await client.send("T", queue_id=0)).code == 0
        stored = at.brokers[A].broker.context.store.bounds("T", 0)
        assert stored == (0, 1 if is_waiting else 2)


async def test_a_move_waits_for_every_proxy_and_is_called_off(tmp_path: Path, dial: Dial) -> None:
    """Another proxy's lease says that it has not heard of the move."""
    async with (
        standing(tmp_path, dial) as at,
        open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin,
    ):
        orders = at.proxy.orders
        assert orders is not None
        await orders.keys.put(LEASES + b"other/1", b'["other",0]')
        what = ""
        while "until all proxies" not in what:
            found = await admin.move_queue(at.address, "T", 0, B)
            assert found.state == "moving"
            what = found.what
        runner = CliRunner()
        words = ["abortMigrateTopicLogicalQueue", "-n", at.address, "-t", "T", "-i", "0"]
        shown = await trio.to_thread.run_sync(lambda: runner.invoke(admin_command, words))
        assert shown.exit_code == 0, shown.output
        assert "queue 0 of T stays where it is" in shown.output
        await until(lambda: (order := orders.of("T")) is not None and not order.moved)
        await orders.keys.delete(LEASES + b"other/1")
        # Who still waits for the move hears of it, and does not begin it again.
        with pytest.raises(RefusedByBroker, match="was called off"):
            await moved(admin, 0, B)
        assert (order := orders.of("T")) is not None
        assert not order.moved
        words = ["migrateTopicLogicalQueue", "-n", at.address, "-t", "T", "-i", "0", "-b", B]
        shown = await trio.to_thread.run_sync(lambda: runner.invoke(admin_command, words))
        assert shown.exit_code == 0, shown.output
        assert "queue 0 of T continues at queue 3 of broker-b, from offset 0 on" in shown.output
        words = ["proxyStatus", "-n", at.address]
        shown = await trio.to_thread.run_sync(lambda: runner.invoke(admin_command, words))
        assert "broker-a 0: 0--1, broker-b 3: 0-" in shown.output


async def test_a_move_that_another_proxy_calls_off_does_not_begin_again(
    tmp_path: Path, dial: Dial
) -> None:
    async with (
        standing(tmp_path, dial) as at,
        open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin,
    ):
        orders = at.proxy.orders
        assert orders is not None
        await orders.keys.put(LEASES + b"other/1", b'["other",0]')
        while "until all proxies" not in (await admin.move_queue(at.address, "T", 0, B)).what:
            pass
        order = orders.of("T")
        assert order is not None
        called_off = replace(order, moved=())
        assert await change_order(orders, "T", order, called_off)
        await orders.keys.delete(LEASES + b"other/1")
        with pytest.raises(RefusedByBroker, match="was called off"):
            await moved(admin, 0, B)
        assert orders.of("T") == called_off


async def test_a_queue_that_went_back_meanwhile_is_moved_again(tmp_path: Path, dial: Dial) -> None:
    """Nobody was told the end of its first move to the broker."""
    async with (
        standing(tmp_path, dial) as at,
        open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin,
    ):
        orders = at.proxy.orders
        assert orders is not None

        def ends() -> list[str]:
            order = orders.of("T")
            return [] if order is None or any(order.targets()) else list(order.ends())

        await orders.keys.put(LEASES + b"other/1", b'["other",0]')
        assert (await admin.move_queue(at.address, "T", 0, B)).state == "moving"
        await orders.keys.delete(LEASES + b"other/1")
        await until(lambda: ends()[:1] == [B])
        assert (await at.move(0, A)).broker_name == A
        found = await at.move(0, B)
        assert (found.state, found.broker_name, found.queue_id) == ("moved", B, 3)
        assert ends()[0] == B


async def test_a_move_that_is_called_off_while_it_looks_keeps_no_queue_on_its_way(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at, open_remoting_client() as client:
        orders = at.proxy.orders
        assert orders is not None
        move = Move(at.context(client), topic="T", index=0, broker=B)
        move.is_called_off = True
        with pytest.raises(MoveRefused, match="was called off"):
            await move.run()
        assert (order := orders.of("T")) is not None
        assert order.kept == ((B, 2),)
        assert not order.moved


async def test_nobody_writes_where_nobody_reads_after_a_move_was_called_off(
    tmp_path: Path, dial: Dial
) -> None:
    async with (
        standing(tmp_path, dial) as at,
        open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin,
    ):
        orders = at.proxy.orders
        assert orders is not None
        order = orders.of("T")
        assert order is not None
        assert await change_order(orders, "T", order, order.with_kept((A, 2)))
        await at.move(0, B)  # clients' list is no longer the cluster's
        await put(at.brokers[A], 3)
        with trio.fail_after(30):
            while (await admin.route("T")).queue_datas and len(orders.others["T"].queues()) < 5:  # noqa: ASYNC110 - it is asked
                await trio.sleep(0.1)
        async with open_producer(
            "d", name_servers=at.cluster.name_server, options=PATIENT_PRODUCER
        ) as direct:
            await direct.send(Message(topic="T", body=b"x"), queue=MessageQueue("T", A, 2))
        async with reading(at.address) as handled:
            await until(lambda: handled.bodies == ["x"])


async def test_an_order_that_cannot_be_read_is_served_to_nobody(tmp_path: Path, dial: Dial) -> None:
    async with standing(tmp_path, dial) as at:
        orders = at.proxy.orders
        assert orders is not None
        order = orders.of("T")
        assert order is not None
        await orders.keys.put(b"topic/T", b"no order")
        client, routes = await at.client(A), Client(await dial(at.proxy.address.port))
        fields = {"topic": "T", "queueId": "0"}
        for asked in (client.call(Code.GET_MAX_OFFSET, fields), routes.call(ROUTE, {"topic": "T"})):
            answer = await asked
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "cannot read" in (answer.remark or "")
        await orders.keys.put(b"topic/T", order.encode())
        assert (await client.call(Code.GET_MAX_OFFSET, fields)).code == 0
        assert (await routes.call(ROUTE, {"topic": "T"})).code == 0


async def test_a_queue_moves_no_more_than_its_order_can_say(tmp_path: Path, dial: Dial) -> None:
    async with standing(tmp_path, dial) as at:
        orders = at.proxy.orders
        assert orders is not None
        order = orders.of("T")
        assert order is not None
        places = [("broker-c", number) for number in range(PARTS_MAX - 1)]
        parts = [Part(*place, 0) for place in ((A, 0), *places)]
        last = Part(*places[-1])
        full = replace(order, moved=(MovedQueue((*parts[:-1], last)),), kept=(*order.kept, *places))
        assert await change_order(orders, "T", order, full)
        with pytest.raises(RefusedByBroker, match="has moved 999 times"):
            await at.move(0, B)
        more = replace(full, moved=(MovedQueue((*parts, Part(B, 2))),), kept=(*full.kept, (B, 2)))
        with pytest.raises(RemoteProtocolError, match="contradict"):
            await change_order(orders, "T", full, more)
        assert orders.of("T") == full


async def test_a_queue_in_which_a_group_has_progress_is_not_taken(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at:
        direct = Client(await dial(at.brokers[B].port))
        fields = {"topic": "T", "queueId": "2", "consumerGroup": "g", "commitOffset": "7"}
        assert (await direct.call(Code.UPDATE_CONSUMER_OFFSET, fields)).code == 0
        with pytest.raises(RefusedByBroker, match="group g has progress of before in queue 2"):
            await at.move(0, B)
        found = await at.move(0, B)
        assert (found.broker_name, found.queue_id) == (B, 3)


async def test_the_destination_gets_the_settings_of_groups(tmp_path: Path, dial: Dial) -> None:
    async with (
        standing(tmp_path, dial) as at,
        open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin,
    ):
        source, target = str(at.brokers[A].address), str(at.brokers[B].address)
        await admin.put_group(source, SubscriptionGroupConfig("g", retry_max_times=3))
        direct = Client(await dial(at.brokers[A].port))
        fields = {"topic": "T", "queueId": "0", "consumerGroup": "g", "commitOffset": "0"}
        assert (await direct.call(Code.UPDATE_CONSUMER_OFFSET, fields)).code == 0
        await at.move(0, B)
        table = (await admin.groups(target)).subscription_group_table
        assert table["g"].retry_max_times == 3


async def test_proxies_without_moves_are_in_the_way(tmp_path: Path, dial: Dial) -> None:
    async with (
        standing(tmp_path, dial) as at,
        open_gateway(at.cluster.config(logical=True, peers=at.address)) as without,
        open_gateway(
            at.cluster.config(logical=True, moves=True, peers=str(without.address))
        ) as other,
    ):
        async with open_admin(name_servers=str(other.address), timeout_s=PATIENT_S) as admin:
            with pytest.raises(RefusedByBroker, match=r"does not answer|without --moves"):
                await moved(admin, 0, B)
            await at.move(0, B)
        orders = without.orders
        assert orders is not None
        await until(lambda: (order := orders.of("T")) is not None and len(order.moved) == 1)
        client = Client(await dial(without.address.port))
        answer = await client.call(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "start this proxy with --moves" in (answer.remark or "")


async def test_a_part_is_not_looked_for_at_another_broker_at_the_old_address(
    tmp_path: Path, dial: Dial
) -> None:
    ports = free_port(-2), free_port(-2)  # nobody else gets one while its broker is down
    async with standing(tmp_path, dial, ports=ports) as at, sending(at) as producer:
        kept, gone = await sides(at)
        await send(producer, range(4))
        await at.move(0 if kept == A else 2, gone)
        port = at.brokers[gone].port
        at.stops[gone].set()
        await at.stopped[gone].wait()
        await until(lambda: BrokerKey(gone, 0) not in at.proxy.brokers.listed)
        async with at.cluster.open_broker("broker-c", port) as other:
            await put(other, 3)
            await until(lambda: BrokerKey("broker-c", 0) in at.proxy.brokers.ports)
            client = await at.client(kept)
            place = {"topic": "T", "queueId": "0", "consumerGroup": "g"}
            commit = {**place, "commitOffset": "1"}
            pull = pull_header("T", 0, 1).to_fields()
            answer = await client.call(Code.UPDATE_CONSUMER_OFFSET, commit)
            assert answer.code == 0
            for code, fields in (
                (Code.UPDATE_CONSUMER_OFFSET, {**commit, "commitOffset": "2"}),
                (Code.QUERY_CONSUMER_OFFSET, place),
                (Code.PULL_MESSAGE, pull),
            ):
                answer = await client.call(code, fields)
                assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, code
            assert (await client.send("T", queue_id=0)).code == ResponseCode.SERVICE_NOT_AVAILABLE
            async with open_admin(name_servers="127.0.0.1:1", timeout_s=PATIENT_S) as admin:
                assert "T@g" not in await admin.offset_table(str(other.address))
            assert other.broker.context.store.bounds("T", 2) == (0, 0)


async def test_offsets_are_those_of_all_parts_together(tmp_path: Path, dial: Dial) -> None:
    async with (
        standing(tmp_path, dial) as at,
        open_producer("p", name_servers=at.address, options=PATIENT_PRODUCER) as producer,
    ):
        queue = MessageQueue("T", A, 0)
        for _ in range(3):
            await producer.send(Message(topic="T", body=b"x"), queue=queue)
        await at.move(0, B)
        for _ in range(2):
            await producer.send(Message(topic="T", body=b"x"), queue=queue)
        client = await at.client(A)
        place = {"topic": "T", "queueId": "0"}

        async def asked(code: Code, **more: str) -> int:
            answer = await client.call(code, {**place, **more})
            assert answer.code == 0, answer.remark
            return int(answer.fields["offset"])

        assert await asked(Code.GET_MAX_OFFSET) == 5
        assert await asked(Code.GET_MIN_OFFSET) == 0
        assert await asked(Code.SEARCH_OFFSET_BY_TIMESTAMP, timestamp="0") == 0
        group = {"consumerGroup": "g"}
        for offset in (4, 2, 3, 5, 0):
            done = await client.call(
                Code.UPDATE_CONSUMER_OFFSET, {**place, **group, "commitOffset": str(offset)}
            )
            assert done.code == 0
            assert await asked(Code.QUERY_CONSUMER_OFFSET, **group) == offset
        for code in (Code.QUERY_CONSUME_QUEUE, Code.GET_EARLIEST_MSG_STORETIME):
            answer = await client.call(code, {**place, "index": "0", "count": "1"})
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert "has moved between several" in (answer.remark or "")


async def test_readers_go_on_behind_what_a_broker_has_lost_once_they_may(
    tmp_path: Path, dial: Dial
) -> None:
    async with (
        standing(tmp_path, dial) as at,
        open_producer("p", name_servers=at.address, options=PATIENT_PRODUCER) as producer,
    ):
        queue = MessageQueue("T", A, 1)

        async def send(body: str) -> int:
            message = Message(topic="T", body=body.encode())
            return (await producer.send(message, queue=queue)).queue_offset

        for number in range(3):
            await send(f"{number}")
        await at.move(1, B)
        orders = at.proxy.orders
        assert orders is not None
        order = orders.of("T")
        assert order is not None
        (moved,) = order.moved
        longer = replace(moved, parts=(Part(A, 1, 5), *moved.parts[1:]))  # as after a crash of A
        assert await change_order(orders, "T", order, order.with_moved(moved, longer))
        assert await send("after") == 5
        async with reading(at.address) as handled:
            await until(lambda: len(handled.bodies) == 3)
            words = ("passLostMessages", "-n", at.address, "-b", A)
            shown = await command(*words)
            assert "T" in shown
            assert "3-4" in shown
            assert "readers wait there" in shown
            assert len(handled.bodies) == 3
            shown = await command(*words, "--apply")
            assert "readers go on behind them" in shown
            await until(lambda: handled.bodies == ["0", "1", "2", "after"])
            assert handled.places[-1] == (queue, 5)
        assert f"{A} has all" in await command(*words)
        assert "broker-a 1: 0-4 (2 lost)" in await command("proxyStatus", "-n", at.address)
        async with reading(at.address) as again:  # its progress is behind
            await send("more")
            await until(lambda: again.bodies == ["more"])
        at.stops[A].set()
        await until(lambda: at.proxy.brokers.address_of(A) is None)
        runner = CliRunner()
        refused = await trio.to_thread.run_sync(lambda: runner.invoke(admin_command, words))
        assert refused.exit_code
        assert "has no master" in refused.output


def test_moves_need_an_order_that_is_kept() -> None:
    with pytest.raises(ConfigError, match="add --logical"):
        GatewayConfig(upstream="127.0.0.1:1", moves=True)
