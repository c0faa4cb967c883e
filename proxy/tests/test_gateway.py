"""A proxy in front of brokers and their name server, at real sockets.

The brokers here are lanemq's, which answer as Apache's; the harness has the same with Apache's.
"""

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest
import trio

from lanemq.proxy._settings import ConfigError
from lanemq.proxy.gateway import GatewayConfig, GatewayFamilies, open_gateway
from lanemq.proxy.gateway._numbers import BrokerKey, BrokerNumbers
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.proxy.net.http._exposition import render
from lanemq.sdk import Message, open_producer
from lanemq.sdk.admin import open_admin
from lanemq.testkit.proxy.brokers import Client, pull_header
from lanemq.testkit.proxy.gateways import Cluster, clustered, until, until_seen
from lanemq.testkit.proxy.peers import Dial
from lanemq.testkit.servers import PATIENT_PRODUCER, free_port
from lanemq.wire import HostAddress, RequestCode, ResponseCode, Version
from lanemq.wire.bodies import ClusterInfo, ConsumerIdList, RouteData
from lanemq.wire.frame import request
from lanemq.wire.message import decode_messages, decode_offset_id

PATIENT_S: Final = 60.0
MASTER_A: Final = BrokerKey("broker-a", 0)


async def test_clients_send_and_read_and_see_the_proxy_alone(tmp_path: Path, dial: Dial) -> None:
    async with clustered(tmp_path) as cluster:
        broker = await cluster.broker()
        proxy = await cluster.proxy()
        await until_seen(proxy, "broker-a")
        seen = proxy.brokers.ports[MASTER_A].address
        assert seen != broker.address
        async with open_producer(
            "g", name_servers=str(proxy.address), options=PATIENT_PRODUCER
        ) as producer:
            sent = await producer.send(Message(topic="T", body=b"through"))
            host, position = decode_offset_id(sent.offset_id)
            assert host == seen
        routes, client = Client(await dial(proxy.address.port)), Client(await dial(seen.port))
        answer = await routes.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        assert RouteData.decode(answer.body).broker_datas[0].broker_addrs == {0: str(seen)}
        info = await routes.call(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert ClusterInfo.decode(info.body).broker_addr_table["broker-a"].broker_addrs == {
            0: str(seen)
        }
        (message,) = await client.messages("T", queue_id=sent.queue.queue_id)
        assert (message.body, message.store_host, message.log_position) == (
            b"through",
            seen,
            position,
        )
        found = await client.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
        (viewed,) = decode_messages(found.body)
        assert viewed == message


async def test_members_are_the_brokers_own_and_leave_with_their_connection(
    tmp_path: Path, dial: Dial
) -> None:
    async with clustered(tmp_path) as cluster:
        broker = await cluster.broker()
        proxy = await cluster.proxy()
        await until_seen(proxy, "broker-a")
        at = proxy.brokers.ports[MASTER_A].address.port
        proxied, direct = Client(await dial(at)), Client(await dial(broker.port))
        await direct.heartbeat("direct", consumers={"g": {"T": "*"}})
        await proxied.heartbeat("proxied", consumers={"g": {"T": "*"}})
        notified = await direct.peer.receive()
        assert notified.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED

        async def members(client: Client) -> tuple[str, ...]:
            answer = await client.call(
                RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"}
            )
            return tuple(sorted(ConsumerIdList.decode(answer.body).consumer_id_list))

        assert await members(proxied) == await members(direct) == ("direct", "proxied")
        await proxied.peer.stream.aclose()
        assert (await direct.peer.receive()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert await members(direct) == ("direct",)


async def test_a_broker_that_asks_a_client_gets_its_answer(tmp_path: Path, dial: Dial) -> None:
    async with clustered(tmp_path) as cluster:
        broker = await cluster.broker()
        proxy = await cluster.proxy()
        await until_seen(proxy, "broker-a")
        consumer = Client(await dial(proxy.brokers.ports[MASTER_A].address.port))
        tool = Client(await dial(broker.port))
        await consumer.heartbeat("c", consumers={"g": {"T": "*"}})
        fields = {"consumerGroup": "g", "clientId": "c", "jstackEnable": "false"}
        await tool.peer.send(request(RequestCode.GET_CONSUMER_RUNNING_INFO, fields, opaque=77))
        asked = await consumer.peer.receive()
        assert asked.code == RequestCode.GET_CONSUMER_RUNNING_INFO
        await consumer.peer.send(asked.reply(body=b'{"properties":{}}'))
        answer = await tool.peer.receive()
        assert (answer.opaque, answer.body) == (77, b'{"properties":{}}')


async def test_the_answers_of_one_read_leave_for_the_broker_with_one_send(
    tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with clustered(tmp_path) as cluster:
        broker = await cluster.broker()
        proxy = await cluster.proxy()
        await until_seen(proxy, "broker-a")
        port = proxy.brokers.ports[MASTER_A]
        consumer, tool = Client(await dial(port.address.port)), Client(await dial(broker.port))
        await consumer.heartbeat("c", consumers={"g": {"T": "*"}})
        fields = {"consumerGroup": "g", "clientId": "c", "jstackEnable": "false"}
        await tool.peer.send(request(RequestCode.GET_CONSUMER_RUNNING_INFO, fields))
        asked = await consumer.peer.receive()
        (link,) = port.all_links
        write, writes = os.write, list[int]()

        def counted(fd: int, data: bytes) -> int:
            writes.extend([len(data)] * (fd == link._fd))
            return write(fd, data)

        monkeypatch.setattr("os.write", counted)
        await consumer.peer.send(*(asked.reply(body=b'{"properties":{}}') for _ in range(200)))
        assert (await tool.peer.receive()).code == 0
        assert 0 < len(writes) < 20


async def test_a_broker_that_is_gone_refuses_at_once_and_comes_back(
    tmp_path: Path, dial: Dial
) -> None:
    async with clustered(tmp_path) as cluster:
        proxy = await cluster.proxy()
        port = free_port(-2)
        async with cluster.open_broker(port=port):
            await until_seen(proxy, "broker-a")
            at = proxy.brokers.ports[MASTER_A].address.port
            client, waiting = Client(await dial(at)), Client(await dial(at))
            assert (await client.send("T")).code == 0
            header = pull_header("T", 0, 1, sys_flag=6, suspend_timeout_millis=60_000)
            pull = waiting.frame(RequestCode.PULL_MESSAGE, header.to_fields())
            await waiting.peer.send(pull)
            with trio.fail_after(PATIENT_S):
                while proxy.brokers.ports[MASTER_A].counts.requests < 2:  # noqa: ASYNC110 - others decide when
                    await trio.sleep(0.01)
        answer = await waiting.peer.receive()
        assert (answer.opaque, answer.code) == (pull.opaque, ResponseCode.SERVICE_NOT_AVAILABLE)
        assert await waiting.peer.is_closed()
        refused = await Client(await dial(at)).pull("T")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "broker-a" in (refused.remark or "")
        # Asynchronous sends, and those to a chosen queue, are not tried again on a refusal.
        with pytest.raises(EOFError):
            await Client(await dial(at)).send("T")
        old = Client(await dial(at), version=Version.V4_2_0)  # it would wait for its time-out
        assert (await old.send("T")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        async with cluster.open_broker(port=port):
            client = Client(await dial(at))
            assert (await client.send("T")).code == 0


async def test_a_broker_that_moves_is_found_where_it_is(tmp_path: Path, dial: Dial) -> None:
    async with clustered(tmp_path) as cluster:
        proxy = await cluster.proxy()
        async with cluster.open_broker() as broker:
            await until_seen(proxy, "broker-a")
            at = proxy.brokers.ports[MASTER_A].address
            assert (await Client(await dial(at.port)).send("T")).code == 0
            old = broker.address
        async with cluster.open_broker() as broker:
            assert broker.address != old
            with trio.fail_after(PATIENT_S):
                while proxy.brokers.ports[MASTER_A].upstream != str(broker.address):  # noqa: ASYNC110 - others decide when
                    await trio.sleep(0.01)
            assert proxy.brokers.ports[MASTER_A].address == at
            assert (await Client(await dial(at.port)).send("T")).code == 0


async def test_a_port_does_not_lead_to_another_broker_at_the_old_address(
    tmp_path: Path, dial: Dial
) -> None:
    async with clustered(tmp_path) as cluster:
        proxy = await cluster.proxy()
        port = free_port(-2)
        async with cluster.open_broker(port=port):
            await until_seen(proxy, "broker-a")
        await until(lambda: MASTER_A not in proxy.brokers.listed)
        at = proxy.brokers.ports[MASTER_A].address.port
        async with cluster.open_broker("broker-b", port):
            await until_seen(proxy, "broker-b")
            with pytest.raises(EOFError):
                await Client(await dial(at)).send("T")
            refused = await Client(await dial(at)).pull("T")
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "do not list the broker" in (refused.remark or "")
            seen = proxy.brokers.ports[BrokerKey("broker-b", 0)].address.port
            assert (await Client(await dial(seen)).send("T")).code == 0
        async with cluster.open_broker(port=port):
            await until(lambda: proxy.brokers.ports[MASTER_A].upstream)
            assert (await Client(await dial(at)).send("T")).code == 0


async def test_routes_are_known_while_no_name_server_answers(tmp_path: Path, dial: Dial) -> None:
    stop = trio.Event()

    async def serve(task_status: trio.TaskStatus[str]) -> None:
        config = NameServerConfig(bind_address="127.0.0.1", listen_port=0)
        async with open_nameserver(config) as name_server:
            task_status.started(name_server.address)
            await stop.wait()

    async with trio.open_nursery() as nursery:
        name_server = await nursery.start(serve)
        async with AsyncExitStack() as stack:
            cluster = Cluster(tmp_path, stack, name_server)
            await cluster.broker()
            proxy = await cluster.proxy()
            await until_seen(proxy, "broker-a")
            async with open_producer(
                "g", name_servers=str(proxy.address), options=PATIENT_PRODUCER
            ) as producer:
                await producer.send(Message(topic="T", body=b"x"))
            routes = Client(await dial(proxy.address.port))
            known = await routes.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
            assert known.code == 0
            stop.set()
            with trio.fail_after(PATIENT_S):
                while not proxy.routes.why_unanswered:  # noqa: ASYNC110 - others decide when
                    await trio.sleep(0.01)
            again = await routes.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
            assert (again.code, again.body) == (0, known.body)
            other = await routes.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Other"})
            assert other.code == ResponseCode.SYSTEM_ERROR
            assert name_server in (other.remark or "")


async def test_two_proxies_divide_the_brokers_among_them(tmp_path: Path, dial: Dial) -> None:
    async with clustered(tmp_path) as cluster:
        await cluster.broker("broker-a")
        await cluster.broker("broker-b")
        first = await cluster.proxy()
        await until_seen(first, "broker-a", "broker-b")
        async with open_gateway(
            cluster.config(peers=str(first.address), leave_seconds=0)
        ) as second:
            await until_seen(second, "broker-a", "broker-b")
            with trio.fail_after(PATIENT_S):
                while not second.peers.living:  # noqa: ASYNC110 - others decide when
                    await trio.sleep(0.01)
            told = second.peers.addresses()
            own = second.peers.own_addresses()
            assert len({address in own.values() for address in told.values()}) == 2, (
                "both have some"
            )
            # One that stops is told to nobody, and its clients get the other's addresses.
            second.peers.is_leaving = True
            assert set(second.peers.addresses().values()).isdisjoint(own.values())
            asked = Client(await dial(second.address.port))
            answer = await asked.call(RequestCode.GET_BROKER_CLUSTER_INFO, {"lanemqProxy": "x"})
            assert answer.fields["lanemqProxy"] == ""


async def test_requests_of_brokers_are_refused(tmp_path: Path, dial: Dial) -> None:
    async with clustered(tmp_path) as cluster:
        proxy = await cluster.proxy()
        client = Client(await dial(proxy.address.port))
        for code in (RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER, 322, 904):
            answer = await client.call(code, {"brokerName": "x"})
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert "name servers" in (answer.remark or "")


async def test_tools_change_all_name_servers(tmp_path: Path, dial: Dial) -> None:
    config = NameServerConfig(bind_address="127.0.0.1", listen_port=0)
    async with (
        open_nameserver(config) as one,
        open_nameserver(config) as two,
        AsyncExitStack() as s,
    ):
        cluster = Cluster(tmp_path, s, f"{one.address};{two.address}")
        proxy = await cluster.proxy()
        client = Client(await dial(proxy.address.port))
        fields = {"namespace": "n", "key": "k", "value": "v"}
        assert (await client.call(RequestCode.PUT_KV_CONFIG, fields)).code == 0
        for server in (one, two):
            direct = Client(await dial(server.port))
            answer = await direct.call(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"})
            assert answer.fields["value"] == "v"


async def test_the_admin_client_works_through_it(tmp_path: Path) -> None:
    async with clustered(tmp_path) as cluster:
        await cluster.broker()
        proxy = await cluster.proxy()
        await until_seen(proxy, "broker-a")
        async with open_admin(name_servers=str(proxy.address), timeout_s=PATIENT_S) as admin:
            info = await admin.cluster()
            (address,) = info.broker_addr_table["broker-a"].broker_addrs.values()
            assert address == str(proxy.brokers.ports[MASTER_A].address)


async def test_metrics(tmp_path: Path, dial: Dial) -> None:
    async with clustered(tmp_path) as cluster:
        await cluster.broker()
        proxy = await cluster.proxy()
        await until_seen(proxy, "broker-a")
        port = proxy.brokers.ports[MASTER_A]
        assert (await Client(await dial(port.address.port)).send("T")).code == 0
        text = b"".join(await render(GatewayFamilies(proxy).all())).decode()
        labels = f'{{broker="broker-a/0",address="{port.address}",upstream="{port.upstream}"}}'
        assert f"lanemq_proxy_broker_requests_total{labels} 1.0\n" in text
        assert f"lanemq_proxy_broker_sessions{labels} 1.0\n" in text
        assert "lanemq_proxy_upstream_answers 1.0\n" in text


# Ports


def test_numbers_of_brokers_outlive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "data" / "brokers.json"
    numbers = BrokerNumbers(path)
    b, a, slave = BrokerKey("b", 0), BrokerKey("a", 0), BrokerKey("b", 1)
    numbers.add([b, a])
    numbers.add([slave, b])
    assert [numbers.get(key) for key in (b, a, slave, b)] == [0, 1, 2, 0]
    again = BrokerNumbers(path)
    again.add([BrokerKey("0", 0)])
    assert [again.get(key) for key in (slave, BrokerKey("0", 0), a, b)] == [2, 3, 1, 0]


@pytest.mark.parametrize("text", ["", "[]", '{"a/0": "x"}', '{"a/0": 1, "b/0": 1}', '{"a/0": -1}'])
def test_a_damaged_file_of_numbers_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "brokers.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=str(path)):
        BrokerNumbers(path)


@pytest.mark.parametrize("upstream", ["", " ; ", "host", "host:", "host:0", "host:99999", ":9876"])
def test_name_servers_that_are_no_addresses(upstream: str) -> None:
    with pytest.raises(ConfigError, match="upstream"):
        GatewayConfig(upstream=upstream)


def test_an_advertised_name_becomes_an_address() -> None:
    config = GatewayConfig(upstream="n:1", advertised_address="localhost")
    assert config.advertised_host == "127.0.0.1"
    assert HostAddress(config.advertised_host, 1).packed
