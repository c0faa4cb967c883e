"""A reply is pushed to the client that asked, and kept in the cluster's reply topic."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker, send_header
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import ReplyMessage
from lanemq.wire.message import decode_offset_id, decode_properties

TOPIC = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = {
    "MSG_TYPE": "reply",
    "CORRELATION_ID": "c-1",
    "REPLY_TO_CLIENT": "asker",
    "TTL": "3000",
}
Take = Callable[[Frame], Awaitable[Frame | None]]


async def take(frame: Frame) -> Frame:
    return frame.reply()


async def refuse(frame: Frame) -> Frame:
    return frame.reply(1, remark="full")


async def ignore(frame: Frame) -> None:
    return None


@asynccontextmanager
async def asker(broker: TestBroker, take: Take) -> AsyncIterator[list[Frame]]:
    """A producer with the client id "asker"; yields what it was pushed."""
    client, pushed = broker.connect(), []
    await client.heartbeat("asker", producers=("askers",))

    async def serve() -> None:
        while True:
            pushed.append(await client.peer.receive())
            answer = await take(pushed[-1])
            if answer is not None:
                await client.peer.send(answer)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        yield pushed
        nursery.cancel_scope.cancel()


async def reply(
    client: Client, body: bytes = b"42", *, long_form: bool = False, **changes: object
) -> Frame:
    values: dict[str, object] = {"properties": PROPERTIES, "queue_id": 0, **changes}
    header = send_header(TOPIC, **values)  # type: ignore[arg-type]
    if long_form:
        return await client.call(RequestCode.SEND_REPLY_MESSAGE, header.to_fields(), body)
    return await client.call(RequestCode.SEND_REPLY_MESSAGE_V2, header.to_letters(), body)


@pytest.mark.parametrize("long_form", [False, True])
async def test_a_reply_reaches_the_client_that_asked_and_is_kept(
    broker: TestBroker, long_form: bool
) -> None:
    async with asker(broker, take) as pushed:
        client = broker.connect("10.7.8.9")
        answer = await reply(client, long_form=long_form, flag=5, sys_flag=1)
        assert (answer.code, answer.remark) == (0, None)
        assert (answer.fields["MSG_REGION"], answer.fields["TRACE_ON"]) == ("DefaultRegion", "true")

        [frame] = pushed
        assert (frame.code, frame.is_oneway, frame.body) == (326, False, b"42")
        header = ReplyMessage.from_fields(frame.fields)
        assert (header.topic, header.producer_group) == (TOPIC, "pg")
        assert (header.flag, header.sys_flag, header.queue_id) == (5, 1, 0)
        assert header.born_timestamp == 1_700_000_000_000
        assert header.born_host.startswith("10.7.8.9:")
        assert header.store_host == "127.0.0.1:10911"
        properties = decode_properties(header.properties or "")
        assert int(properties.pop("PUSH_REPLY_TIME")) == header.store_timestamp
        assert properties == PROPERTIES

        (kept,) = await client.messages(TOPIC)
        assert (kept.body, kept.properties, kept.flag) == (b"42", PROPERTIES, 5)
        assert decode_offset_id(answer.fields["msgId"])[1] == kept.log_position
        assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("0", "0")


async def test_a_reply_is_not_kept_where_the_broker_is_told_not_to(tmp_path: Path) -> None:
    async with (
        open_test_broker(tmp_path, store_reply_message_enable=False) as broker,
        asker(broker, take) as pushed,
    ):
        client = broker.connect()
        answer = await reply(client)
        assert (answer.code, len(pushed)) == (0, 1)
        assert (answer.fields["msgId"], answer.fields["queueOffset"]) == ("0", "0")
        assert await client.messages(TOPIC) == []


async def test_a_reply_to_a_client_that_is_not_there_says_so_and_is_kept(client: Client) -> None:
    answer = await reply(client)
    remark = "push reply message fail, channel of <asker> not found."
    assert (answer.code, answer.remark) == (1, remark)
    assert len(await client.messages(TOPIC)) == 1


async def test_a_consumer_of_that_id_is_no_producer(client: Client) -> None:
    await client.heartbeat("asker", consumers={"g": {"T": "*"}})
    assert (await reply(client)).code == 1


async def test_a_reply_that_names_nobody_says_so(broker: TestBroker) -> None:
    answer = await reply(broker.connect(), properties={"MSG_TYPE": "reply"})
    remark = "reply message properties[REPLY_TO_CLIENT] is null"
    assert (answer.code, answer.remark) == (1, remark)


async def test_a_client_that_refuses_a_reply_makes_it_fail(broker: TestBroker) -> None:
    async with asker(broker, refuse):
        answer = await reply(broker.connect())
        assert (answer.code, answer.remark) == (1, "push reply message to askerfail.")


async def test_a_reply_that_is_too_long_is_not_pushed(tmp_path: Path) -> None:
    """Its length is nobody's but the sender's: the asker has to read it."""
    async with (
        open_test_broker(tmp_path, max_message_size=1000) as broker,
        asker(broker, take) as pushed,
    ):
        client = broker.connect()
        assert (await reply(client, bytes(1000))).code == 0
        answer = await reply(client, bytes(1001))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert answer.remark == "a reply of 1001 bytes, at most 1000 are taken"
        assert len(pushed) == 1


async def test_a_client_that_stays_silent_costs_ten_seconds(
    broker: TestBroker, autojump_clock: MockClock
) -> None:
    async with asker(broker, ignore):
        begin_s = trio.current_time()
        answer = await reply(broker.connect())
        assert (answer.code, answer.remark) == (1, "push reply message to askerfail.")
        assert trio.current_time() - begin_s == 10


async def test_a_reply_to_another_topic_is_checked_as_a_send_is(client: Client) -> None:
    fields = send_header("SCHEDULE_TOPIC_XXXX", PROPERTIES).to_letters()
    answer = await client.call(RequestCode.SEND_REPLY_MESSAGE_V2, fields, b"")
    assert answer.code == 16
