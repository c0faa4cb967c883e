"""Questions that pass through the broker to a client and back."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy.net import _long_answer
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.wire import RequestCode
from lanemq.wire.bodies import (
    ConsumerData,
    GetConsumerStatusBody,
    HeartbeatData,
    MessageQueue,
    ResetOffsetBody,
    ResetOffsetListBody,
    SubscriptionData,
    TopicConfig,
)
from lanemq.wire.frame import Frame
from lanemq.wire.message import decode_message

QUEUE = MessageQueue("T", "broker-a", 0)
Answer = Callable[[Frame], Awaitable[Frame | None]]


@asynccontextmanager
async def consumer(
    broker: TestBroker, client_id: str, answer: Answer, **connection: object
) -> AsyncIterator[list[Frame]]:
    """A member of group g that answers what the broker asks it; yields what was asked."""
    client = broker.connect(**connection)  # type: ignore[arg-type]
    asked: list[Frame] = []
    await client.peer.send(
        client.frame(RequestCode.HEART_BEAT, body=await heartbeat_body(client, client_id))
    )
    while (await client.peer.receive()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
        pass

    async def serve() -> None:
        while True:
            frame = await client.peer.receive()
            if frame.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                continue
            asked.append(frame)
            reply = await answer(frame)
            if reply is not None:
                await client.peer.send(reply)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        yield asked
        nursery.cancel_scope.cancel()


async def heartbeat_body(client: Client, client_id: str) -> bytes:
    subscription = SubscriptionData.of_tags("T", "*", sub_version=1)
    data = ConsumerData("g", subscription_data_set=(subscription,))
    return HeartbeatData(client_id=client_id, consumer_data_set=(data,)).encode()


async def echo(frame: Frame) -> Frame:
    return frame.reply(body=b"from the client", fields={"seen": "yes"})


async def silence(frame: Frame) -> None:
    return None


async def test_running_info_passes_through_without_the_operators_signature(
    broker: TestBroker,
) -> None:
    async with consumer(broker, "me", echo) as asked:
        fields = {"consumerGroup": "g", "clientId": "me", "jstackEnable": "false"}
        answer = await broker.connect().call(
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            fields | {"AccessKey": "key", "Signature": "secret"},
        )
        assert (answer.code, answer.body) == (0, b"from the client")
        [frame] = asked
        assert frame.code == RequestCode.GET_CONSUMER_RUNNING_INFO
        assert frame.fields == fields


async def test_a_client_that_is_not_there_is_named(broker: TestBroker) -> None:
    answer = await broker.connect().call(
        RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "g", "clientId": "me"}
    )
    assert (answer.code, answer.remark) == (1, "The Consumer <g> <me> not online")


async def test_a_client_too_old_to_answer_is_not_asked(broker: TestBroker) -> None:
    async with consumer(broker, "me", echo, version=61) as asked:
        answer = await broker.connect().call(
            RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "g", "clientId": "me"}
        )
        assert answer.code == 1
        assert "upgrade it to V3_1_8_SNAPSHOT" in (answer.remark or "")
        assert asked == []


async def test_a_client_that_stays_silent_costs_ten_seconds(
    broker: TestBroker, autojump_clock: MockClock
) -> None:
    async with consumer(broker, "me", silence):
        begin_s = trio.current_time()
        answer = await broker.connect().call(
            RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "g", "clientId": "me"}
        )
        assert answer.code == 207
        assert trio.current_time() - begin_s == 10


async def test_a_message_is_handed_to_one_consumer_with_its_record(broker: TestBroker) -> None:
    async with consumer(broker, "me", echo) as asked:
        client = broker.connect()
        sent = await client.send(body=b"hello")
        fields = {"consumerGroup": "g", "clientId": "me", "msgId": sent.fields["msgId"]}
        answer = await client.call(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
        assert answer.body == b"from the client"
        [frame] = asked
        assert frame.fields == fields | {"brokerName": "broker-a"}
        assert decode_message(frame.body).body == b"hello"
        fields["msgId"] = "nonsense"
        assert (await client.call(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)).code == 1
        fields["msgId"] = "7F00000100002A9F00000000FFFFFFFF"
        assert (await client.call(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)).code == 1


async def committed(broker: TestBroker, *, offset: int, messages: int = 3) -> Client:
    client = broker.connect()
    broker.context.topics.put(TopicConfig("T", 1, 1))
    for _ in range(messages):
        await client.send()
    broker.context.store.tables.consumer_offsets.put("g", "T", 0, offset)
    return client


RESET = {"topic": "T", "group": "g", "timestamp": "-1", "isForce": "true"}


async def test_a_reset_tells_the_members_where_to_go(broker: TestBroker) -> None:
    async with consumer(broker, "me", silence) as asked:
        client = await committed(broker, offset=1)
        answer = await client.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RESET)
        assert answer.code == 0
        assert ResetOffsetBody.decode(answer.body).offset_table == {QUEUE: 3}
        while not asked:
            await wait_all_tasks_blocked()
        [frame] = asked
        assert frame.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        assert frame.is_oneway
        assert frame.fields == RESET | {"isForce": "false"}
        assert ResetOffsetBody.decode(frame.body).offset_table == {QUEUE: 3}
        # The members commit by themselves; the broker changes nothing behind their back.
        assert broker.context.store.tables.consumer_offsets.get("g", "T", 0) == 1


async def test_without_force_no_queue_goes_forward(broker: TestBroker) -> None:
    async with consumer(broker, "me", silence):
        client = await committed(broker, offset=1)
        fields = RESET | {"isForce": "false"}
        answer = await client.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        assert ResetOffsetBody.decode(answer.body).offset_table == {QUEUE: 1}
        fields["timestamp"] = "0"
        answer = await client.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        assert ResetOffsetBody.decode(answer.body).offset_table == {QUEUE: 0}


async def test_a_tool_in_c_gets_its_consumers_a_list(broker: TestBroker) -> None:
    async with consumer(broker, "me", silence) as asked:
        await committed(broker, offset=1)
        answer = await broker.connect(language="CPP").call(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RESET
        )
        assert ResetOffsetBody.decode(answer.body).offset_table == {QUEUE: 3}
        while not asked:
            await wait_all_tasks_blocked()
        [line] = ResetOffsetListBody.decode(asked[0].body).offset_table
        assert (line.topic, line.broker_name, line.queue_id, line.offset) == ("T", "broker-a", 0, 3)


async def test_a_reset_of_nobody_has_the_codes_mqadmin_goes_by(broker: TestBroker) -> None:
    client = await committed(broker, offset=1)
    code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    broker.context.config.use_server_side_reset_offset = False
    assert (await client.call(code, RESET)).code == 206
    broker.context.config.use_server_side_reset_offset = True
    answer = await client.call(code, RESET | {"group": "never"})
    assert (answer.code, answer.remark) == (1, "THe consumer group <never> not exist")
    assert (await client.call(code, RESET | {"topic": "absent"})).code == 1


@pytest.mark.parametrize(
    ("timestamp", "is_force", "offset"),
    [("0", "false", 0), ("-1", "true", 3), ("-1", "false", 1), ("99999999999999", "true", 2)],
)
async def test_a_group_without_members_is_reset_here(
    broker: TestBroker, timestamp: str, is_force: str, offset: int
) -> None:
    client = await committed(broker, offset=1)
    fields = RESET | {"timestamp": timestamp, "isForce": is_force}
    answer = await client.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    assert answer.code == 0, answer.remark
    assert ResetOffsetBody.decode(answer.body).offset_table == {QUEUE: offset}
    assert broker.context.store.tables.consumer_offsets.get("g", "T", 0) == offset


@pytest.mark.parametrize("offset", [4, 5000, 2**62])
async def test_no_queue_is_reset_to_what_it_has_not(broker: TestBroker, offset: int) -> None:
    client = await committed(broker, offset=1)
    fields = RESET | {"queueId": "0", "offset": str(offset)}
    answer = await client.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    assert answer.code == 1
    assert answer.remark == f"Target offset {offset} not in consume queue range [0-3]"
    assert broker.context.store.tables.consumer_offsets.get("g", "T", 0) == 1


async def test_one_queue_can_be_reset_while_nobody_is_connected(broker: TestBroker) -> None:
    client = await committed(broker, offset=1)
    fields = RESET | {"queueId": "0", "offset": "2"}
    answer = await client.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    assert ResetOffsetBody.decode(answer.body).offset_table == {QUEUE: 2}
    assert broker.context.store.tables.consumer_offsets.get("g", "T", 0) == 2
    fields["queueId"] = "9"
    answer = await client.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    assert (answer.code, answer.remark) == (1, "queue 9@T is not exist!")


async def test_the_state_of_all_members_is_gathered(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    def holding(offset: int) -> Answer:
        async def answer(frame: Frame) -> Frame:
            return frame.reply(body=GetConsumerStatusBody({QUEUE: offset}).encode())

        return answer

    async with (
        open_test_broker(tmp_path) as broker,
        consumer(broker, "one", holding(1)),
        consumer(broker, "two", holding(2)),
        consumer(broker, "silent", silence),
    ):
        client, code = broker.connect(), RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        answer = await client.call(code, {"topic": "T", "group": "g"})
        table = GetConsumerStatusBody.decode(answer.body).consumer_table
        assert table == {"one": {QUEUE: 1}, "two": {QUEUE: 2}}
        answer = await client.call(code, {"topic": "T", "group": "g", "clientAddr": "two"})
        assert set(GetConsumerStatusBody.decode(answer.body).consumer_table) == {"two"}
        assert (await client.call(code, {"topic": "T", "group": "nobody"})).code == 1


STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
ASKED = {"topic": "T", "group": "g"}


def holding(queues: dict[MessageQueue, int]) -> Answer:
    async def answer(frame: Frame) -> Frame:
        return frame.reply(body=GetConsumerStatusBody(queues).encode())

    return answer


@asynccontextmanager
async def consumers(
    broker: TestBroker, number: int, answer: Answer
) -> AsyncIterator[list[list[Frame]]]:
    """So many members of group g; yields what each was asked."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(consumer(broker, f"id{n}", answer))
            for n in range(number)
        ]


async def test_few_members_are_asked_at_once_for_one_question_of_a_connection(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with (
        open_test_broker(tmp_path) as broker,
        consumers(broker, 50, silence) as asked,
    ):
        operator = broker.connect()
        assert (await operator.heartbeat("operator", producers=("p",))).code == 0
        session = broker.context.clients.producer_session("operator")
        assert session is not None
        before_bytes = session.account.kept_bytes
        await operator.peer.send(*[operator.frame(STATUS, ASKED) for _ in range(10)])
        with trio.move_on_after(1):
            await trio.sleep_forever()
        assert sum(map(len, asked)) == 32, "the others of its questions wait"
        assert session.account.kept_bytes - before_bytes > 32 * 4096
        for _ in range(10):
            answer = await operator.peer.receive()
            assert GetConsumerStatusBody.decode(answer.body).consumer_table == {}
        await wait_all_tasks_blocked()
        assert session.account.kept_bytes == before_bytes


async def test_statuses_are_read_beside_the_loop_and_written_as_ever(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, decode = set(), GetConsumerStatusBody.decode

    def spy(body: bytes) -> GetConsumerStatusBody:
        threads.add(threading.get_ident())
        return decode(body)

    queues = {MessageQueue("T", "broker-a", number): number for number in range(100)}
    async with consumers(broker, 3, holding(queues)):
        monkeypatch.setattr(GetConsumerStatusBody, "decode", spy)
        answer = await broker.connect().call(STATUS, ASKED)
        monkeypatch.undo()
    assert threads
    assert threading.get_ident() not in threads
    table = GetConsumerStatusBody.decode(answer.body).consumer_table
    assert table == {f"id{n}": queues for n in range(3)}
    assert answer.body == GetConsumerStatusBody(consumer_table=table).encode()


async def test_a_status_that_is_too_long_is_left_out(broker: TestBroker) -> None:
    queues = {MessageQueue("T" * 200, "broker-a", number): 0 for number in range(5000)}
    async with (
        consumer(broker, "one", holding({QUEUE: 1})),
        consumer(broker, "long", holding(queues)),
    ):
        answer = await broker.connect().call(STATUS, ASKED)
    assert GetConsumerStatusBody.decode(answer.body).consumer_table == {"one": {QUEUE: 1}}


async def test_statuses_that_no_frame_holds_are_refused(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_long_answer, "ANSWER_BYTES_MAX", 10_000)
    queues = {MessageQueue("T", "broker-a", number): number for number in range(50)}
    async with consumers(broker, 8, holding(queues)):
        client = broker.connect()
        answer = await client.call(STATUS, ASKED)
        assert answer.code == 1
        assert "a frame holds 10000" in (answer.remark or "")
        assert (await client.call(STATUS, ASKED | {"clientAddr": "id1"})).code == 0
