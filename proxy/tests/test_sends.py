"""A send is stored as it was sent, in the queue it names, and answered with where it lies."""

from pathlib import Path

import pytest

from lanemq.testkit.proxy.brokers import ADDRESS, Client, TestBroker, open_test_broker, send_header
from lanemq.wire import HostAddress, RequestCode, ResponseCode
from lanemq.wire.frame import SerializeType
from lanemq.wire.message import BatchEntry, decode_offset_id, decode_properties, encode_batch

ALWAYS = {"msgId", "queueId", "queueOffset", "MSG_REGION", "TRACE_ON"}
TRANSACTION = {"TRAN_MSG": "true", "PGROUP": "pg"}
KEPT = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}


async def test_a_message_comes_out_as_it_went_in(client: Client) -> None:
    properties = {"TAGS": "A", "KEYS": "k1 k2", "colour": "grün", "UNIQ_KEY": "U1"}
    answer = await client.send(
        "T", b"\x00body\xff", properties, queue_id=2, flag=7, born_timestamp=123, sys_flag=1
    )
    assert answer.code == 0
    assert set(answer.fields) == ALWAYS | {"transactionId"}
    assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("2", "0")

    (message,) = await client.messages("T", 2)
    assert (message.body, message.flag, message.born_timestamp_ms) == (b"\x00body\xff", 7, 123)
    assert message.properties == properties | KEPT
    assert list(message.properties)[:4] == list(properties), "the sender's order is kept"
    assert message.sys_flag == 1
    assert (message.queue_id, message.queue_offset) == (2, 0)
    assert (message.born_host.host, message.store_host) == ("127.0.0.1", ADDRESS)
    assert decode_offset_id(answer.fields["msgId"]) == (ADDRESS, message.log_position)
    assert message.offset_id == answer.fields["msgId"]


async def test_the_long_form_of_the_header_does_the_same(client: Client) -> None:
    answer = await client.call(
        RequestCode.SEND_MESSAGE, send_header("T", {"TAGS": "A"}, queue_id=1).to_fields(), b"b"
    )
    assert set(answer.fields) == ALWAYS
    (message,) = await client.messages("T", 1)
    assert message.tags == "A"


async def test_a_binary_request_gets_a_binary_answer(client: Client) -> None:
    answer = await client.call(
        RequestCode.SEND_MESSAGE_V2,
        send_header("T").to_letters(),
        b"b",
        serialize=SerializeType.ROCKETMQ,
    )
    assert answer.serialize is SerializeType.ROCKETMQ
    assert set(answer.fields) == ALWAYS


@pytest.mark.parametrize("serialize", list(SerializeType))
@pytest.mark.parametrize("more", [{}, {"DELAY": "1"}, {"TIMER_DELAY_SEC": "9"}, TRANSACTION])
@pytest.mark.parametrize("key", ["0A000001000718B4AAC2", 'a"\\b', "schlüssel", "%s", ""])
async def test_an_answer_has_the_unique_key_as_the_transactions_id(
    client: Client, key: str, more: dict[str, str], serialize: SerializeType
) -> None:
    """As in 5.3.3: its gRPC proxy ends transactions by it."""
    header = send_header("T", {"XUNIQ_KEY": "no"} | more | {"UNIQ_KEY": key, "TAGS": "A"})
    for code, fields in (
        (RequestCode.SEND_MESSAGE, header.to_fields()),
        (RequestCode.SEND_MESSAGE_V2, header.to_letters()),
    ):
        answer = await client.call(code, fields, b"b", serialize=serialize)
        assert answer.code == 0, answer.remark
        assert answer.fields.get("transactionId") == (key or None)


async def test_queue_offsets_count_up_in_each_queue(client: Client) -> None:
    offsets = [
        (await client.send(queue_id=queue_id)).fields["queueOffset"] for queue_id in (0, 1, 0, 0, 1)
    ]
    assert offsets == ["0", "0", "1", "2", "1"]


async def test_a_negative_queue_leaves_the_choice_to_the_broker(client: Client) -> None:
    chosen = {int((await client.send(queue_id=-1)).fields["queueId"]) for _ in range(60)}
    assert chosen == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x011\x02WAIT\x01true\x02b\x012", {"a": "1", "b": "2"}),
        ("a\x011\x02WAIT\x01true\x02b\x012\x02", {"a": "1", "b": "2"}),
        ("a\x011\x02WAIT\x01true", {"a": "1"}),
        ("a\x011\x02WAIT\x01true\x02", {"a": "1"}),
        ("WAIT\x01true\x02a\x011", {"a": "1"}),
        ("WAIT\x01true", {}),
        ("a\x011", {"a": "1"}),
        ("", {}),
        ("XWAIT\x01true\x02a\x011", {"XWAIT": "true", "a": "1"}),
        ("CLUSTER\x01other\x02a\x011\x02MSG_REGION\x01r\x02", {"a": "1"}),
        ("a\x011\x02TRACE_ON\x01false", {"a": "1"}),
        ("a\x011\x02XCLUSTER\x01x\x02WAIT\x01false", {"a": "1", "XCLUSTER": "x"}),
        ("no pair at all", {}),
    ],
)
async def test_what_the_broker_adds_and_takes_away_leaves_the_rest_alone(
    client: Client, text: str, expected: dict[str, str]
) -> None:
    for _ in range(2):  # the first one makes the topic
        assert (await client.send(properties=text)).code == 0
    for message in await client.messages():
        assert message.properties == expected | KEPT


async def test_a_oneway_send_is_stored_and_not_answered(client: Client) -> None:
    await client.peer.send(
        client.frame(RequestCode.SEND_MESSAGE_V2, send_header("T").to_letters(), b"1", oneway=True)
    )
    answer = await client.send(body=b"2")
    assert answer.fields["queueOffset"] == "1"


class TestTopics:
    async def test_an_unknown_topic_is_made_after_the_default_one_and_announced(
        self, broker: TestBroker, client: Client
    ) -> None:
        assert (await client.send("New", default_topic_queue_nums=3)).code == 0
        config = broker.context.topics.get("New")
        assert config is not None
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (3, 3, 6)
        assert [topic.topic_name for topic in broker.announced] == ["New"]

    async def test_the_default_topic_limits_the_queues(
        self, broker: TestBroker, client: Client
    ) -> None:
        await client.send("New", default_topic_queue_nums=100)
        config = broker.context.topics.get("New")
        assert config is not None
        assert config.write_queue_nums == 8

    @pytest.mark.parametrize("default_topic", ["nowhere", "BenchmarkTest"])
    async def test_without_a_topic_to_inherit_from_it_does_not_exist(
        self, client: Client, default_topic: str
    ) -> None:
        answer = await client.send("New", default_topic=default_topic)
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST

    async def test_without_automatic_creation_it_does_not_exist(self, tmp_path: Path) -> None:
        async with open_test_broker(tmp_path, auto_create_topic_enable=False) as broker:
            assert (await broker.connect().send()).code == ResponseCode.TOPIC_NOT_EXIST

    @pytest.mark.parametrize(
        ("topic", "code"),
        [
            ("", ResponseCode.SYSTEM_ERROR),
            ("a b", ResponseCode.SYSTEM_ERROR),
            ("a/b", ResponseCode.SYSTEM_ERROR),
            ("x" * 128, ResponseCode.SYSTEM_ERROR),
            ("SCHEDULE_TOPIC_XXXX", ResponseCode.NO_PERMISSION),
            ("RMQ_SYS_TRANS_HALF_TOPIC", ResponseCode.NO_PERMISSION),
            ("SELF_TEST_TOPIC", ResponseCode.NO_PERMISSION),
        ],
    )
    async def test_bad_and_forbidden_topics_are_refused(
        self, client: Client, topic: str, code: ResponseCode
    ) -> None:
        for _ in range(2):
            assert (await client.send(topic)).code == code

    async def test_the_topics_named_like_broker_and_cluster_take_messages(
        self, client: Client
    ) -> None:
        assert (await client.send("broker-a")).code == 0
        assert (await client.send("DefaultCluster", queue_id=15)).code == 0

    async def test_a_queue_that_is_not_there_is_named_in_the_refusal(self, client: Client) -> None:
        await client.send()
        answer = await client.send(queue_id=4)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark is not None
        assert "queueId[4]" in answer.remark


class TestBatch:
    async def test_the_entries_lie_next_to_each_other(self, client: Client) -> None:
        await client.send(body=b"before")
        entries = [
            BatchEntry(n, b"%d" % n, b"UNIQ_KEY\x01U%d\x02WAIT\x01true" % n) for n in range(3)
        ]
        header = send_header("T", "WAIT\x01true\x02x\x01y", batch=True)
        answer = await client.call(
            RequestCode.SEND_BATCH_MESSAGE, header.to_letters(), encode_batch(entries)
        )
        assert answer.fields["queueOffset"] == "1"
        messages = (await client.messages())[1:]
        assert [message.queue_offset for message in messages] == [1, 2, 3]
        assert [message.body for message in messages] == [b"0", b"1", b"2"]
        assert [message.flag for message in messages] == [0, 1, 2]
        assert [message.unique_key for message in messages] == ["U0", "U1", "U2"]
        assert all(message.properties["x"] == "y" for message in messages)
        assert all(KEPT.items() <= message.properties.items() for message in messages)
        assert answer.fields["msgId"] == ",".join(message.offset_id for message in messages)

    async def test_the_flag_counts_and_not_the_code(self, client: Client) -> None:
        header = send_header("T", None, batch=True)
        body = encode_batch([BatchEntry(0, b"x", b""), BatchEntry(0, b"y", b"")])
        await client.call(RequestCode.SEND_MESSAGE_V2, header.to_letters(), body)
        await client.call(RequestCode.SEND_MESSAGE, header.to_fields(), body)
        assert [message.body for message in await client.messages()] == [b"x", b"y"] * 2

    async def test_a_broken_body_is_refused_and_nothing_of_it_stored(self, client: Client) -> None:
        body = encode_batch([BatchEntry(0, b"x", b"")])[:-1] + b"\xff\xff"
        header = send_header("T", None, batch=True)
        answer = await client.call(RequestCode.SEND_BATCH_MESSAGE, header.to_letters(), body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert await client.messages() == []

    async def test_an_empty_batch_is_illegal(self, client: Client) -> None:
        header = send_header("T", None, batch=True)
        answer = await client.call(RequestCode.SEND_BATCH_MESSAGE, header.to_letters(), b"")
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL


class TestLimits:
    async def test_a_body_beyond_the_limit_is_illegal(self, tmp_path: Path) -> None:
        async with open_test_broker(tmp_path, max_message_size=1000) as broker:
            client = broker.connect()
            assert (await client.send(body=bytes(1000))).code == 0
            assert (await client.send(body=bytes(1001))).code == ResponseCode.MESSAGE_ILLEGAL
            header = send_header("T", None, batch=True)
            body = encode_batch([BatchEntry(0, bytes(490), b"")] * 2)
            answer = await client.call(RequestCode.SEND_BATCH_MESSAGE, header.to_letters(), body)
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL

    async def test_properties_beyond_the_limit_are_illegal(self, client: Client) -> None:
        answer = await client.send(properties={"x": "y" * 32_767})
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert (await client.send(properties={"x": "y" * 32_000})).code == 0

    async def test_a_missing_field_and_one_that_is_no_number_are_named(
        self, client: Client
    ) -> None:
        await client.send()
        fields = send_header("T").to_letters()
        for broken, name in (
            ({k: v for k, v in fields.items() if k != "e"}, "e"),
            (fields | {"g": "soon"}, "g"),
        ):
            answer = await client.call(RequestCode.SEND_MESSAGE_V2, broken, b"b")
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert answer.remark is not None
            assert name in answer.remark

    async def test_a_broker_that_does_not_accept_yet_says_so(self, tmp_path: Path) -> None:
        now = 1_700_000_000_000
        async with open_test_broker(
            tmp_path, now_ms=lambda: now, start_accept_send_request_time_stamp=now + 1
        ) as broker:
            assert (await broker.connect().send()).code == ResponseCode.SYSTEM_ERROR


class TestOldReaders:
    """Clients before 4.6 read four bytes of every host."""

    async def test_an_ipv6_sender_is_hidden_from_them(self, broker: TestBroker) -> None:
        await broker.connect("2001:db8::1").send(body=b"6")
        await broker.connect("10.0.0.1").send(body=b"4")
        six, four = await broker.connect(version=407).messages()
        assert six.born_host.host == "2001:db8::1"
        old_six, old_four = await broker.connect(version=78).messages()
        assert old_six.born_host == HostAddress("0.0.0.0", six.born_host.port)
        assert (old_six.body, old_six.sys_flag) == (b"6", 0)
        assert old_six.properties == six.properties
        assert old_four == four

    async def test_so_it_is_when_they_ask_for_one_message(self, broker: TestBroker) -> None:
        answer = await broker.connect("2001:db8::1").send(properties={"KEYS": "k"})
        _, position = decode_offset_id(answer.fields["msgId"])
        new, old = broker.connect(version=407), broker.connect(version=121)
        for code, fields in (
            (RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(position)}),
            (
                RequestCode.QUERY_MESSAGE,
                {
                    "topic": "T",
                    "key": "k",
                    "maxNum": "32",
                    "beginTimestamp": "0",
                    "endTimestamp": str(2**63 - 1),
                },
            ),
        ):
            whole = (await new.call(code, fields)).body
            assert len((await old.call(code, fields)).body) == len(whole) - 12


async def test_a_delay_goes_round_by_the_schedule_topic(client: Client) -> None:
    answer = await client.send("T", properties={"DELAY": "3", "TAGS": "A"}, queue_id=1)
    assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("1", "0")
    assert await client.messages("T", 1) == []
    (message,) = await client.messages("SCHEDULE_TOPIC_XXXX", 2)
    assert (
        decode_properties(message.properties_data).items()
        >= {
            "REAL_TOPIC": "T",
            "REAL_QID": "1",
            "DELAY": "3",
            "TAGS": "A",
        }.items()
    )


async def test_a_level_beyond_the_last_is_cut_to_the_last(client: Client) -> None:
    await client.send(properties={"DELAY": "99"})
    (message,) = await client.messages("SCHEDULE_TOPIC_XXXX", 17)
    assert message.properties["DELAY"] == "18"


async def test_a_delay_that_is_no_number_is_refused(client: Client) -> None:
    answer = await client.send(properties={"DELAY": "soon"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
