"""Names under which a broker keeps offsets alone are no topics and no groups.

The rights to them are those to another topic or group: whoever has these could else make as many
topics and groups as there are names.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from lanemq.storage import NewMessage
from lanemq.testkit.proxy.accounts import ACCOUNTS, CHIEF, KINDS, WEAK, open_guarded_broker
from lanemq.testkit.proxy.brokers import (
    Client,
    TestBroker,
    open_test_broker,
    pull_header,
    send_header,
)
from lanemq.wire import RequestCode as Code
from lanemq.wire import ResponseCode, has_only_offsets
from lanemq.wire.bodies import (
    AclInfo,
    PolicyEntryInfo,
    PolicyInfo,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicConfigList,
)
from lanemq.wire.headers import CreateTopic
from lanemq.wire.logical import progress_topic
from lanemq.wire.message import BatchEntry, encode_batch

SHADOWS = ("%STAGE%mine", "%STAGE%|fast|mine", "%STAGE%|1|mine", "%BROKER_STAGE%mine")
SHADOW_GROUPS = (
    *SHADOWS,
    "%RETRY%%STAGE%|1|mine",
    "%DLQ%%STAGE%mine",
    "%RETRY%%DLQ%%STAGE%|2|mine",
)
NAMES = (
    progress_topic("mine", 0),
    progress_topic("mine", 77),
    progress_topic("%RETRY%mine", 0),
    progress_topic("%DLQ%mine", 0),
    *(prefix + shadow for prefix in ("%RETRY%", "%DLQ%") for shadow in SHADOW_GROUPS),
    "%LQ%x",
    *SHADOWS,
)
REFUSED = {ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION}


@pytest.fixture(params=[*KINDS, "none"])
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TestBroker]:
    """Return a broker with accounts of either kind, or without any."""
    if request.param == "none":
        async with open_test_broker(tmp_path) as broker:
            yield broker
    else:
        async with open_guarded_broker(tmp_path, request.param) as broker:
            yield broker


@pytest.fixture(params=[CHIEF, WEAK])
def client(request: pytest.FixtureRequest, broker: TestBroker) -> Client:
    """Return a client of the administrator, or of who may use the topic and group ``mine``."""
    has_accounts = broker.context.access_control is not None
    return broker.connect(account=request.param if has_accounts else None)


def topics_of(broker: TestBroker) -> set[str]:
    return set(broker.context.store.tables.topics.configs)


def creation_of(topic: str) -> CreateTopic:
    return CreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
    )


async def test_nobody_sends_to_them(broker: TestBroker, client: Client) -> None:
    before = topics_of(broker)
    batch = encode_batch([BatchEntry(flag=0, body=b"x", properties=b"")])
    for topic in NAMES:
        header = send_header(topic, producer_group="mine")
        long, letters = header.to_fields(), header.to_letters()
        half = send_header(topic, {"TRAN_MSG": "true", "PGROUP": "mine"}, sys_flag=4)
        delayed = send_header(topic, {"DELAY": "1"}, producer_group="mine")
        for code, fields, body in (
            (Code.SEND_MESSAGE, long, b"x"),
            (Code.SEND_MESSAGE_V2, letters, b"x"),
            (Code.SEND_MESSAGE_V2, half.to_letters(), b"x"),
            (Code.SEND_MESSAGE_V2, delayed.to_letters(), b"x"),
            (Code.SEND_MESSAGE_V2, given_back(topic), b"x"),
            (Code.SEND_BATCH_MESSAGE, letters | {"m": "true"}, batch),
            (Code.SEND_REPLY_MESSAGE_V2, letters, b"x"),
        ):
            answer = await client.call(code, fields, body)
            assert answer.code in REFUSED, (code, answer)
    assert topics_of(broker) == before
    assert broker.context.store.statistics().max_position == 0


def given_back(topic: str) -> dict[str, str]:
    """Return the fields of a send by which a consumer gives a message back for the last time."""
    return send_header(
        topic, producer_group="mine", reconsume_times=99, max_reconsume_times=1
    ).to_letters()


async def test_nobody_creates_them(broker: TestBroker, client: Client) -> None:
    before = topics_of(broker)
    for topic in NAMES:
        listed = TopicConfigList((TopicConfig("other"), TopicConfig(topic))).encode()
        for code, fields, body in (
            (Code.UPDATE_AND_CREATE_TOPIC, creation_of(topic).to_fields(), b""),
            (Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, listed),
            (Code.DELETE_TOPIC_IN_BROKER, {"topic": topic}, b""),
        ):
            assert (await client.call(code, fields, body)).code in REFUSED, code
    assert topics_of(broker) == before


@pytest.mark.parametrize("group", [*SHADOW_GROUPS, progress_topic("mine", 0)])
async def test_shadow_groups_are_not_made(broker: TestBroker, client: Client, group: str) -> None:
    chief = broker.connect(account=client.account and CHIEF)
    assert (await chief.send("mine")).code == 0
    before = topics_of(broker)
    for roles in ({"consumers": {group: {"mine": "*"}}}, {"producers": ("mine", group)}):
        assert (await client.heartbeat(**roles)).code in REFUSED
    assert not (await chief.call(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})).body
    header = pull_header("mine", 0, 0, consumer_group=group)
    for code in (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE):
        assert (await client.call(code, header.to_fields())).code != 0
    back = {"offset": "0", "group": group, "delayLevel": "0"}
    assert (await client.call(Code.CONSUMER_SEND_MSG_BACK, back)).code != 0
    config = SubscriptionGroupConfig(group_name=group).encode()
    answer = await client.call(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, config)
    assert answer.code in REFUSED
    assert broker.context.groups.get(group) is None
    assert topics_of(broker) == before


@pytest.mark.parametrize("kind", KINDS)
async def test_offsets_under_them_need_the_rights_to_their_topic(tmp_path: Path, kind: str) -> None:
    async with open_guarded_broker(tmp_path, kind) as broker:
        weak = broker.connect(account=WEAK)
        for topic, is_allowed in (("mine", True), ("victim", False)):
            fields = {"topic": progress_topic(topic, 5), "consumerGroup": "mine", "queueId": "0"}
            for code, more in (
                (Code.UPDATE_CONSUMER_OFFSET, {"commitOffset": "7"}),
                (Code.QUERY_CONSUMER_OFFSET, {}),
            ):
                answer = await weak.call(code, fields | more)
                assert ("permission" not in (answer.remark or "")) is is_allowed, answer


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("topic", [NAMES[0], "%RETRY%%STAGE%|1|mine", "%STAGE%mine"])
async def test_those_of_a_store_of_before_are_deleted_by_administrators(
    tmp_path: Path, kind: str, topic: str
) -> None:
    async with open_test_broker(tmp_path / "store") as broker:
        await broker.connect().send("other", b"left")
        other = broker.context.topics.get("other")
        assert other is not None
        broker.context.topics.put(replace(other, topic_name=topic))
        broker.context.commit()
    async with open_guarded_broker(tmp_path, kind) as broker:
        chief, weak = broker.connect(account=CHIEF), broker.connect(account=WEAK)
        assert topic in topics_of(broker)
        assert (await chief.send(topic)).code == ResponseCode.NO_PERMISSION
        for code, fields in (
            (Code.SEND_MESSAGE_V2, send_header(topic, producer_group="mine").to_letters()),
            (Code.DELETE_TOPIC_IN_BROKER, {"topic": topic}),
        ):
            assert (await weak.call(code, fields, b"x")).code in REFUSED
        assert (await chief.pull(topic)).code == ResponseCode.PULL_NOT_FOUND
        deletion = {"topic": topic}
        assert (await chief.call(Code.DELETE_TOPIC_IN_BROKER, deletion)).code == 0
        assert topic not in topics_of(broker)
        assert (await chief.call(Code.DELETE_TOPIC_IN_BROKER, deletion)).code in REFUSED


def test_other_names_are_topics() -> None:
    assert all(map(has_only_offsets, NAMES))
    assert not any(map(has_only_offsets, ("mine", "%RETRY%mine", "%KV%n", "LQ%0%T", "STAGE%T")))


@pytest.mark.parametrize("kind", KINDS)
async def test_those_of_a_store_of_before_are_for_administrators_alone(
    tmp_path: Path, kind: str
) -> None:
    """Whatever right there is to the group behind them: with it come the offsets, no messages."""
    topics = (
        "%RETRY%%STAGE%mine",
        "%RETRY%%STAGE%|1|mine",
        "%RETRY%%DLQ%%BROKER_STAGE%mine",
        "%DLQ%%STAGE%mine",
        progress_topic("mine", 0),
        *SHADOWS,
    )
    accounts = ACCOUNTS.replace(
        "topicPerms: [mine", "defaultTopicPerm: PUB|SUB\n    topicPerms: [mine"
    )
    async with open_guarded_broker(tmp_path, kind, accounts=accounts) as broker:
        chief, weak = broker.connect(account=CHIEF), broker.connect(account=WEAK)
        if kind == "5.x":
            for resource in ("*", "Topic:*", "Group:*", "Group:mine", "Topic:%*"):
                entry = PolicyEntryInfo(resource, ("All",), None, "Allow")
                body = AclInfo(f"User:{WEAK[0]}", (PolicyInfo("Custom", (entry,)),)).encode()
                answer = await chief.call(
                    Code.AUTH_CREATE_ACL, {"subject": f"User:{WEAK[0]}"}, body
                )
                assert answer.code == 0, answer.remark
        for topic in topics:
            broker.context.topics.put(TopicConfig(topic, 1, 1))
            position = left_in(broker, topic)
            query = {"topic": topic, "key": "k", "maxNum": "1"}
            query |= {"beginTimestamp": "0", "endTimestamp": str(2**62)}
            pull = pull_header(topic, 0, 0, consumer_group="mine").to_fields()
            for code, fields in (
                (Code.PULL_MESSAGE, pull),
                (Code.LITE_PULL_MESSAGE, pull),
                (Code.QUERY_MESSAGE, query),
                (Code.VIEW_MESSAGE_BY_ID, {"offset": str(position)}),
                (Code.VIEW_MESSAGE_BY_ID, {"offset": str(position), "topic": topic}),
                (Code.GET_TOPIC_STATS_INFO, {"topic": topic}),
                (Code.DELETE_TOPIC_IN_BROKER, {"topic": topic}),
            ):
                answer = await weak.call(code, fields)
                assert answer.code in REFUSED, (code, topic)
                assert "ermission" in (answer.remark or ""), (code, topic, answer.remark)
            assert [one.body for one in await chief.messages(topic)] == [b"left"]
            view = await chief.call(Code.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
            assert view.code == 0, view.remark
            # The offsets under the name of a retry topic are still the group's; none are in a topic
            # with the bare name of a shadow group.
            asked = {"topic": topic, "consumerGroup": "mine", "queueId": "0"}
            answer = await weak.call(Code.QUERY_CONSUMER_OFFSET, asked)
            assert (answer.code in REFUSED) is (topic in SHADOWS), (topic, answer)


def left_in(broker: TestBroker, topic: str) -> int:
    """Store a message in a topic to which nobody sends; return its place in the log."""
    put = broker.context.writer.append(
        NewMessage(
            topic=topic,
            queue_id=0,
            body=b"left",
            properties=b"KEYS\x01k\x02",
            flag=0,
            sys_flag=0,
            born_timestamp_ms=0,
            born_host=broker.context.store_host,
            store_host=broker.context.store_host,
            reconsume_times=0,
        )
    )
    broker.context.write()
    return put.log_position
