"""A broker on real ports, known to a real name server, and the same again after a restart."""

from pathlib import Path

import pytest
import trio

from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.proxy.process import open_broker
from lanemq.testkit.proxy.brokers import SMALL_STORE, Client, send_header
from lanemq.testkit.proxy.peers import Dial
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import ConsumerIdList, KVTable, RouteData
from lanemq.wire.message import decode_messages, decode_offset_id


def broker_config(root: Path, name_server: str = "", listen_port: int = 0) -> BrokerConfig:
    return BrokerConfig(
        broker_name="broker-a",
        bind_address="127.0.0.1",
        listen_port=listen_port,
        namesrv_addr=name_server,
        store_path_root_dir=root,
        **SMALL_STORE,  # type: ignore[arg-type]
    )


async def route(client: Client, topic: str) -> RouteData | None:
    """The route of a topic, waited for; None where there is none for very long."""
    with trio.move_on_after(60):
        while True:
            answer = await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            if answer.code == 0:
                return RouteData.decode(answer.body)
            await trio.sleep(0.01)
    return None


async def test_a_new_topic_and_a_new_group_get_a_route(tmp_path: Path, dial: Dial) -> None:
    config = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=tmp_path / "kv.json"
    )
    async with (
        open_nameserver(config) as name_server,
        open_broker(broker_config(tmp_path / "store", name_server.address)) as broker,
    ):
        routes = Client(await dial(name_server.port))
        client = Client(await dial(broker.port))
        await client.send("New")
        await client.heartbeat(consumers={"g": {"New": "*"}})
        for topic in ("New", "%RETRY%g", "TBW102", "broker-a", "DefaultCluster"):
            found = await route(routes, topic)
            assert found is not None
            assert found.broker_datas[0].broker_addrs == {0: str(broker.address)}


async def test_both_ports_know_the_same_clients(tmp_path: Path, dial: Dial) -> None:
    async with open_broker(broker_config(tmp_path)) as broker:
        assert broker.vip_port == broker.port - 2
        main, vip = Client(await dial(broker.port)), Client(await dial(broker.vip_port))
        await main.heartbeat("a", consumers={"g": {"T": "*"}})
        fields = {"consumerGroup": "g"}
        answer = await vip.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
        assert ConsumerIdList.decode(answer.body).consumer_id_list == ("a",)
        await vip.send("T", b"by the VIP port")
        (message,) = await main.messages("T")
        assert message.store_host == broker.address, "ids name the main port"


async def test_ids_offsets_and_messages_outlive_a_restart(tmp_path: Path, dial: Dial) -> None:
    async with open_broker(broker_config(tmp_path)) as broker:
        client = Client(await dial(broker.port))
        sent = await client.send("T", b"kept", queue_id=3)
        fields = {"consumerGroup": "g", "topic": "T", "queueId": "3", "commitOffset": "1"}
        await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    async with open_broker(broker_config(tmp_path)) as broker:
        client = Client(await dial(broker.port))
        _, position = decode_offset_id(sent.fields["msgId"])
        answer = await client.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
        assert [message.body for message in decode_messages(answer.body)] == [b"kept"]
        answer = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, fields)
        assert answer.fields == {"offset": "1"}
        header = send_header("T", queue_id=3)
        answer = await client.call(RequestCode.SEND_MESSAGE_V2, header.to_letters(), b"next")
        assert answer.fields["queueOffset"] == "1"


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
async def test_a_damaged_message_is_answered_as_damaged_and_the_rest_is_served(
    closed: bool, tmp_path: Path, dial: Dial
) -> None:
    async with open_broker(broker_config(tmp_path)) as broker:
        client = Client(await dial(broker.port))
        ids = [
            (await client.send("T", b"%d" % n * 100, properties={"KEYS": f"key-{n}"})).fields[
                "msgId"
            ]
            for n in range(9)
        ]
    position = decode_offset_id(ids[4])[1]
    with (tmp_path / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(position + 120)
        log.write(b"\xff")
    if not closed:
        (tmp_path / "abort").touch()
    async with open_broker(broker_config(tmp_path)) as broker:
        client = Client(await dial(broker.port))
        assert [m.queue_offset for m in await client.messages("T")] == [0, 1, 2, 3, 5, 6, 7, 8]
        # Apache's clients continue at the next offset that an answer names, whatever its code.
        answer = await client.pull("T", offset=4, max_msg_nums=1)
        assert int(answer.fields["nextBeginOffset"]) > 4
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
        answer = await client.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
        said = (
            f"the message at {position} of the commit log is damaged: its body fails the checksum"
        )
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, said)
        fields = {"topic": "T", "key": "key-4", "maxNum": "32", "beginTimestamp": "0"}
        fields |= {"endTimestamp": str(2**63 - 1)}
        answer = await client.call(RequestCode.QUERY_MESSAGE, fields)
        assert (answer.code, answer.remark) == (ResponseCode.QUERY_NOT_FOUND, said)
        answer = await client.call(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert KVTable.decode(answer.body).table["commitLogDamagedMessages"] == "1"
        assert (await client.send("T")).fields["queueOffset"] == "9"
