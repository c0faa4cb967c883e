"""Attributes of topics and groups are kept without their sign, checked, and served."""

from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.broker.values._attributes import TOPIC_ATTRIBUTES, altered, parse_attributes
from lanemq.sdk.admin import open_admin
from lanemq.sdk.admin.cli import admin
from lanemq.testing import open_test_server
from lanemq.testkit.proxy.brokers import Client, open_test_broker
from lanemq.testkit.servers import PATIENT_S
from lanemq.wire import RequestCode
from lanemq.wire.bodies import SubscriptionGroupConfig, TopicConfig, TopicConfigWrapper
from lanemq.wire.frame import Frame
from lanemq.wire.headers import CreateTopic, GetSubscriptionGroupConfig

TYPES = "value is not in set: [UNSPECIFIED, TRANSACTION, FIFO, MIXED, DELAY, NORMAL]"


async def put(client: Client, attributes: str | None, topic: str = "T") -> Frame:
    header = CreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        attributes=attributes,
    )
    return await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_fields())


async def attributes_of(client: Client, topic: str = "T") -> dict[str, str] | None:
    answer = await client.call(RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
    found = TopicConfig.decode(answer.body).attributes
    everything = await client.call(RequestCode.GET_ALL_TOPIC_CONFIG)
    table = TopicConfigWrapper.decode(everything.body).topic_config_table
    assert table[topic].attributes == found
    return None if found is None else dict(found)


async def test_attributes_are_set_changed_kept_and_removed(client: Client) -> None:
    assert (await put(client, "+message.type=FIFO,+queue.type=SimpleCQ")).code == 0
    assert await attributes_of(client) == {"message.type": "FIFO", "queue.type": "SimpleCQ"}
    assert (await put(client, None)).code == 0
    assert (await put(client, "")).code == 0
    assert (await attributes_of(client) or {})["message.type"] == "FIFO"
    assert (await put(client, "+message.type=DELAY,+reserve.time=-1")).code == 0
    assert (await put(client, "-reserve.time")).code == 0
    assert await attributes_of(client) == {"message.type": "DELAY", "queue.type": "SimpleCQ"}


@pytest.mark.parametrize("index", ["file", "rocksdb"])
async def test_attributes_outlive_a_restart(tmp_path: Path, index: str) -> None:
    settings: dict[str, Any] = {} if index == "file" else {"store_type": "defaultRocksDB"}
    async with open_test_broker(tmp_path, **settings) as broker:
        assert (await put(broker.connect(), "+message.type=TRANSACTION")).code == 0
        (announced,) = [one for one in broker.announced if one.topic_name == "T"]
        assert announced.attributes == {"message.type": "TRANSACTION"}
    async with open_test_broker(tmp_path, **settings) as broker:
        assert await attributes_of(broker.connect()) == {"message.type": "TRANSACTION"}


@pytest.mark.parametrize(
    ("attributes", "remark"),
    [
        ("+colour=red", "unsupported key: colour"),
        ("+message.type=PINK", TYPES),
        ("+message.type=fifo", TYPES),
        ("+queue.type=Other", "value is not in set: [SimpleCQ, BatchCQ]"),
        ("+cleanup.policy=X", "value is not in set: [DELETE, COMPACTION]"),
        ("+reserve.time=x", 'For input string: "x"'),
        ("+reserve.time=-2", "value is not in range(-1, 9223372036854775807)"),
        ("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        ("message.type", "delete attribute format is wrong: message.type"),
        ("-message.type", "only add attribute is supported while creating topic. key: "),
        ("+message.type=FIFO,+message.type=FIFO", "key duplication: +message.type"),
        ("+a+b=c", "kv string format wrong."),
        ("+=c", "kv string format wrong."),
        ("+message.type=MIXED", "MIXED message type is not supported."),
        ("+queue.type=BatchCQ", "queue.type=BatchCQ is not supported"),
        ("+cleanup.policy=COMPACTION", "cleanup.policy=COMPACTION is not supported"),
    ],
)
async def test_what_is_refused_changes_nothing(
    client: Client, attributes: str, remark: str
) -> None:
    answer = await put(client, attributes)
    assert answer.code in (1, 29)
    assert (answer.remark or "").startswith(remark)
    missing = await client.call(RequestCode.GET_TOPIC_CONFIG, {"topic": "T"})
    assert missing.code == 17


@pytest.mark.parametrize(
    ("attributes", "remark"),
    [
        ("-reserve.time", "attempt to delete a nonexistent key: reserve.time"),
        ("+queue.type=SimpleCQ", "attempt to update an unchangeable attribute. key: queue.type"),
        ("+message.type=DELAY,-message.type", "alter duplication key. key: message.type"),
    ],
)
async def test_changes_that_are_refused_leave_a_topic_as_it_was(
    client: Client, attributes: str, remark: str
) -> None:
    assert (await put(client, "+message.type=FIFO")).code == 0
    answer = await put(client, attributes)
    assert (answer.code, answer.remark) == (1, remark)
    assert await attributes_of(client) == {"message.type": "FIFO"}


async def test_groups_have_no_attributes_that_are_known(client: Client) -> None:
    async def put_group(**extra: object) -> Frame:
        body = SubscriptionGroupConfig("g", extra=extra).encode()
        return await client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    answer = await put_group(attributes={"+colour": "red"})
    assert (answer.code, answer.remark) == (1, "unsupported key: colour")
    assert (await put_group(attributes={}, consumeMessageOrderly=True)).code == 0
    asked = GetSubscriptionGroupConfig("g").to_fields()
    found = await client.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, asked)
    extra = SubscriptionGroupConfig.decode(found.body).extra
    assert extra.get("attributes", {}) == {}
    assert extra["consumeMessageOrderly"] is True


NAMES = st.sampled_from([*TOPIC_ATTRIBUTES, "other", ""])
VALUES = st.sampled_from(["FIFO", "SimpleCQ", "DELETE", "7", "", "x=y"])
CHANGES = st.lists(st.tuples(st.sampled_from("+-*"), NAMES, VALUES), max_size=3)


@given(CHANGES, CHANGES)
def test_whatever_is_taken_is_known_and_right(
    first: list[tuple[str, str, str]], second: list[tuple[str, str, str]]
) -> None:
    current: dict[str, str] | None = None
    for changes in (first, second):
        text = ",".join(
            f"{sign}{name}" + (f"={value}" * bool(value)) for sign, name, value in changes
        )
        try:
            current = altered(TOPIC_ATTRIBUTES, current, parse_attributes(text))
        except ValueError:
            continue
        for name, value in (current or {}).items():
            assert TOPIC_ATTRIBUTES[name].problem(value) is None


async def test_static_topics_are_refused_with_the_way_to_logical_queues(client: Client) -> None:
    header = CreateTopic("T", "TBW102", 4, 4, 6, "SINGLE_TAG", force=True)
    code = RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC
    answer = await client.call(code, header.to_fields(), b'{"topic":"T","totalQueues":4}')
    assert answer.code == 3
    assert "logical queues" in (answer.remark or "")
    assert (await client.call(RequestCode.GET_TOPIC_CONFIG, {"topic": "T"})).code == 17


async def test_the_tool_and_the_sdk_send_attributes_and_show_refusals() -> None:
    async with open_test_server() as server:
        named = ["-n", server.name_servers, "-c", "DefaultCluster", "-t", "T", "-r", "1", "-w", "1"]

        async def update(attributes: str) -> Result:
            arguments = ["updateTopic", *named, "-a", attributes]
            return await trio.to_thread.run_sync(CliRunner().invoke, admin, arguments)

        made = await update("+message.type=FIFO")
        assert made.exit_code == 0, made.output
        refused = await update("+message.type=PINK")
        assert refused.exit_code != 0
        assert TYPES in refused.output
        async with open_admin(name_servers=server.name_servers, timeout_s=PATIENT_S) as client:
            (address,) = await client.masters("DefaultCluster")
            config = await client.topic_config(address, "T")
            assert config.attributes == {"message.type": "FIFO"}
            await client.put_topic(address, config)
            await client.put_topic(address, config, attributes="+message.type=DELAY")
            changed = await client.topic_config(address, "T")
            assert changed.attributes == {"message.type": "DELAY"}
