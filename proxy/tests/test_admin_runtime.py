"""A broker's report about itself, and its configuration, in the form tools compute with."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from trio.testing import MockClock

from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.testkit.proxy.peers import Recorded
from lanemq.wire import RequestCode, decode_properties_text, encode_properties_text
from lanemq.wire.bodies import KVTable


async def runtime(client: Client) -> dict[str, str]:
    answer = await client.call(RequestCode.GET_BROKER_RUNTIME_INFO)
    assert answer.code == 0
    return dict(KVTable.decode(answer.body).table)


async def test_the_report_has_every_key_that_a_real_broker_sends(
    tmp_path: Path, recorded: Callable[[str], Iterator[Recorded]]
) -> None:
    real: set[str] = set()
    for name in ("tools497", "tools533"):
        asked: set[tuple[int, int]] = set()
        for entry in recorded(name):
            frame, key = entry.frame, (entry.connection, entry.frame.opaque)
            if frame.code == RequestCode.GET_BROKER_RUNTIME_INFO and not frame.is_response:
                asked.add(key)
            elif frame.is_response and key in asked and not entry.from_client:
                asked.remove(key)
                real |= set(KVTable.decode(frame.body).table)
    assert len(real) > 50
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        for level in (1, 2, 3):
            await client.send(properties={"DELAY": str(level)})
        ours = set(await runtime(client))
    path = "commitLogDiskRatio_"
    # lanemq has neither a timer wheel, nor acknowledgements of single messages, nor a pool of
    # off-heap buffers, nor replicas; tools look for none of these keys.
    not_ours = {
        key
        for key in real
        if key.startswith(
            (
                "timer",
                "ackThreadPool",
                "litePull",
                "transientStore",
                "isController",
                "aliveReplicas",
            )
        )
    }
    assert {key for key in real - ours - not_ours if not key.startswith(path)} == set()
    assert any(key.startswith(path) for key in ours)


async def test_rates_are_three_numbers_in_either_spelling(
    client: Client, autojump_clock: MockClock
) -> None:
    table = await runtime(client)
    for key in (
        "putTps",
        "getFoundTps",
        "getMissTps",
        "getTotalTps",
        "getTransferedTps",
        "getTransferredTps",
    ):
        assert [float(part) for part in table[key].split(" ")] == [0.0, 0.0, 0.0]


async def test_the_report_counts_what_happened(client: Client, mock_clock: MockClock) -> None:
    for _ in range(3):
        await client.send()
    await client.pull()
    await client.pull(offset=3, sys_flag=4)
    table = await runtime(client)
    assert table["brokerActive"] == "true"
    assert table["brokerVersionDesc"] == "V4_9_8"
    assert table["putMessageTimesTotal"] == table["msgPutTotalTodayNow"] == "3"
    assert table["msgGetTotalTodayNow"] == "3"
    assert int(table["putMessageSizeTotal"]) == int(table["commitLogMaxOffset"]) > 0
    assert float(table["putMessageAverageSize"]) == int(table["putMessageSizeTotal"]) / 3
    assert int(table["earliestMessageTimeStamp"]) > 0
    assert 0 <= float(table["commitLogDiskRatio"]) <= 1
    assert table["runtime"] == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"
    counts = [int(part.rsplit(":", 1)[1]) for part in table["putMessageDistributeTime"].split()]
    assert sum(counts) == 3


async def test_delayed_messages_show_by_level(client: Client) -> None:
    await client.send(properties={"DELAY": "18"})
    table = await runtime(client)
    assert table["scheduleMessageOffset_18"] == "0,1"
    assert "scheduleMessageOffset_17" not in table


async def test_the_configuration_is_readable_and_says_its_version(broker: TestBroker) -> None:
    answer = await broker.connect().call(RequestCode.GET_BROKER_CONFIG)
    properties = decode_properties_text(answer.body)
    assert properties["brokerName"] == "broker-a"
    assert properties["brokerRole"] == "ASYNC_MASTER"
    assert json.loads(answer.fields["version"])["counter"] == 0


async def test_a_setting_changes_while_the_broker_runs(broker: TestBroker, client: Client) -> None:
    body = encode_properties_text({"autoCreateTopicEnable": "false"})
    assert (await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=body)).code == 0
    assert broker.context.config.auto_create_topic_enable is False
    answer = await client.call(RequestCode.GET_BROKER_CONFIG)
    assert json.loads(answer.fields["version"])["counter"] == 1
    assert (await client.send("not-there")).code == 17


FULL_DISK = {
    "fileReservedTime": "10",
    "deleteWhen": "05;06",
    "diskMaxUsedSpaceRatio": "60",
    "diskSpaceCleanForciblyRatio": "70",
    "diskSpaceWarningLevelRatio": "80",
    "cleanFileForciblyEnable": "false",
    "deleteCommitLogFilesInterval": "5",
}


async def test_the_store_cleans_by_settings_that_change_while_it_is_open(
    broker: TestBroker, client: Client
) -> None:
    answer = await client.call(
        RequestCode.UPDATE_BROKER_CONFIG, body=encode_properties_text(FULL_DISK)
    )
    assert answer.code == 0, answer.remark
    config = broker.context.store.config
    assert (config.file_reserved_hours, config.delete_hours) == (10, (5, 6))
    ratios = config.disk_max_used_ratio, config.disk_clean_forcibly_ratio, config.disk_full_ratio
    assert ratios == (0.6, 0.7, 0.8)
    assert (config.clean_forcibly, config.delete_pause_s) == (False, 0.005)
    answer = await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=b"deleteWhen=25")
    assert answer.code == 1
    assert "hours are 0 to 23" in (answer.remark or "")
    assert config.delete_hours == (5, 6)


async def test_new_topics_have_as_many_queues_as_the_setting_says_now(
    broker: TestBroker, client: Client
) -> None:
    body = b"defaultTopicQueueNums=3"
    assert (await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=body)).code == 0
    assert (await client.send("made-now", default_topic_queue_nums=8)).code == 0
    made = broker.context.topics.get("made-now")
    assert made is not None
    assert (made.read_queue_nums, made.write_queue_nums) == (3, 3)


async def test_the_configuration_has_what_mqadmin_exports(broker: TestBroker) -> None:
    answer = await broker.connect().call(RequestCode.GET_BROKER_CONFIG)
    assert decode_properties_text(answer.body).keys() >= EXPORTED


EXPORTED = {
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "filterServerNums",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
}
"""Source: RocketMQ 4.9.7, ExportConfigsCommand."""


async def test_a_broker_made_read_only_announces_all_its_topics(broker: TestBroker) -> None:
    body = encode_properties_text({"brokerPermission": "4"})
    before = len(broker.announced)
    await broker.connect().call(RequestCode.UPDATE_BROKER_CONFIG, body=body)
    names = {topic.topic_name for topic in broker.announced[before:]}
    assert names == set(broker.context.store.tables.topics.names)


async def test_changes_that_cannot_be_are_refused_as_a_whole(
    broker: TestBroker, client: Client
) -> None:
    async def change(**properties: str) -> tuple[int, str]:
        body = encode_properties_text(properties)
        answer = await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=body)
        return answer.code, answer.remark or ""

    code, remark = await change(brokerPermision="6", autoCreateTopicEnable="false")
    assert code == 1
    assert "brokerPermission" in remark
    assert broker.context.config.auto_create_topic_enable is True
    assert (await change(configBlackList="x"))[0] == 16
    assert (await change(brokerName="other"))[0] == 1
    assert (await change(sendThreadPoolQueueCapacity="9999"))[0] == 0  # Apache's own key
