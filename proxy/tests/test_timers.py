"""A message with a timer is delivered at its time: not before, and not much later."""

import gc
import json
import tracemalloc
from pathlib import Path

import pytest
import trio

from lanemq.proxy.broker.state import _recall_room
from lanemq.proxy.broker.state._stored_again import stored_again
from lanemq.sdk import Message, MessageRejected, RefusedByBroker, open_producer
from lanemq.testing import open_test_server
from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.wire import RequestCode, ResponseCode, SysFlag, SystemTopic
from lanemq.wire.bodies import HeartbeatData
from lanemq.wire.frame import Frame
from lanemq.wire.headers import EndTransaction
from lanemq.wire.message import RecallHandle, decode_offset_id

NOW_MS = 1_700_000_000_400
DAY_MS = 86_400_000


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock(NOW_MS)


async def send(client: Client, body: bytes, **properties: str) -> Frame:
    return await client.send("T", body, {"UNIQ_KEY": body.decode(), **properties})


async def bodies(client: Client, topic: str = "T") -> list[bytes]:
    return [message.body for message in await client.messages(topic, 0)]


async def at(broker: TestBroker, clock: StandingClock, time_ms: int) -> None:
    clock.ms = time_ms
    await broker.broker.clock_moved()


async def recall(client: Client, answer: Frame, topic: str = "T") -> Frame:
    fields = {"topic": topic, "recallHandle": answer.fields["recallHandle"], "producerGroup": "pg"}
    return await client.call(RequestCode.RECALL_MESSAGE, fields)


@pytest.mark.parametrize(
    ("properties", "after_ms"),
    [
        ({"TIMER_DELIVER_MS": str(NOW_MS + 2345)}, 2345),
        ({"TIMER_DELIVER_MS": str(NOW_MS + 1600)}, 1600),  # a whole second
        ({"TIMER_DELIVER_MS": str(NOW_MS + 1)}, 1),
        ({"TIMER_DELAY_SEC": "7"}, 7000),
        ({"TIMER_DELAY_MS": "1250"}, 1250),
        ({"TIMER_DELAY_MS": "700000"}, 700_000),
        # Of several, the first of these counts; and a delay level before all of them.
        ({"TIMER_DELIVER_MS": "1", "TIMER_DELAY_MS": "1", "TIMER_DELAY_SEC": "3"}, 3000),
    ],
)
async def test_a_message_comes_at_its_millisecond(
    broker: TestBroker,
    client: Client,
    clock: StandingClock,
    properties: dict[str, str],
    after_ms: int,
) -> None:
    answer = await send(client, b"m", **properties)
    assert answer.code == 0
    await at(broker, clock, NOW_MS + after_ms - 1)
    assert await bodies(client) == []
    await at(broker, clock, NOW_MS + after_ms)
    assert await bodies(client) == [b"m"]
    await at(broker, clock, NOW_MS + after_ms + DAY_MS)
    assert await bodies(client) == [b"m"]


async def test_the_waiting_message_and_the_delivered_one_have_the_properties_of_5_3_3(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    due_ms = NOW_MS + 5000
    await send(client, b"m", TIMER_DELIVER_MS=str(due_ms), TAGS="A")
    (waiting,) = await client.messages(SystemTopic.TIMER, 0)
    expected = {
        "UNIQ_KEY": "m",
        "TAGS": "A",
        "TIMER_DELIVER_MS": str(due_ms),
        "TIMER_OUT_MS": str(due_ms // 1000 * 1000),
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
    }
    assert expected.items() <= waiting.properties.items()
    await at(broker, clock, due_ms)
    (delivered,) = await client.messages("T", 0)
    expected |= {"TIMER_ENQUEUE_MS": str(NOW_MS // 1000 * 1000), "TIMER_DEQUEUE_MS": str(due_ms)}
    assert expected.items() <= delivered.properties.items()


async def test_messages_come_in_the_order_of_their_times(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    for number in (5, 3, 9, 1, 7):
        await send(client, b"%d" % number, TIMER_DELAY_MS=str(number * 300))
    await at(broker, clock, NOW_MS + 1500)
    assert await bodies(client) == [b"1", b"3", b"5"]
    await at(broker, clock, NOW_MS + 60_000)
    assert await bodies(client) == [b"1", b"3", b"5", b"7", b"9"]


@pytest.mark.parametrize("ago_ms", [0, 1, 10 * DAY_MS])
async def test_a_time_in_the_past_is_now(client: Client, ago_ms: int) -> None:
    answer = await send(client, b"m", TIMER_DELIVER_MS=str(NOW_MS - ago_ms))
    assert (answer.code, "recallHandle" in answer.fields) == (0, False)
    assert await bodies(client) == [b"m"]


ILLEGAL = (
    "timer message illegal, the delay time should not be bigger than the max delay 259200000ms; "
    "or if set del msg, the delay time should be bigger than the current time"
)


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELIVER_MS": str(NOW_MS + 3 * DAY_MS + 1)},
        {"TIMER_DELIVER_MS": str(NOW_MS + 36_525 * DAY_MS)},
        {"TIMER_DELAY_MS": "soon"},
        {"TIMER_DELAY_SEC": "9" * 30},
        {"TIMER_DELIVER_MS": str(NOW_MS), "TIMER_DEL_UNIQKEY": "T+m"},
    ],
)
async def test_a_timer_that_cannot_be_is_refused_in_the_words_of_5_3_3(
    client: Client, properties: dict[str, str]
) -> None:
    answer = await send(client, b"m", **properties)
    assert (answer.code, answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, ILLEGAL)


async def test_a_broker_without_timers_refuses_them(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, timer_wheel_enable=False) as broker:
        answer = await send(broker.connect(), b"m", TIMER_DELAY_SEC="1")
    says = "accurate timer message is not enabled, timerWheelEnable is false"
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, says)


async def test_a_second_with_too_many_takes_no_more(tmp_path: Path, clock: StandingClock) -> None:
    async with open_test_broker(
        tmp_path, now_ms=lambda: clock.ms, timer_congest_num_each_slot=1
    ) as broker:
        client = broker.connect()
        codes = []
        for _ in range(3):
            answer = await send(client, b"m", TIMER_DELAY_SEC="10")
            codes.append(answer.code)
            await broker.broker.clock_moved()  # what came is counted
        assert codes == [0, 0, ResponseCode.SYSTEM_ERROR]
        assert answer.remark == (
            "timer message is under flow control, max num limit is 2 or the current value is "
            "greater than 1 and less than 2, trigger random flow control"
        )
        assert (await send(client, b"m", TIMER_DELAY_SEC="11")).code == 0


async def test_a_delay_level_counts_and_not_the_timer(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    await send(client, b"m", DELAY="1", TIMER_DELAY_SEC="60")
    await at(broker, clock, NOW_MS + 1000)
    (message,) = await client.messages("T", 0)
    assert "TIMER_DELAY_SEC" not in message.properties


async def test_clients_do_not_send_to_the_topic_of_timers(client: Client) -> None:
    answer = await client.send(SystemTopic.TIMER, b"x", {"TIMER_OUT_MS": "1"})
    assert answer.code == ResponseCode.NO_PERMISSION


async def test_a_recalled_message_does_not_come(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    first = await send(client, b"a", TIMER_DELAY_SEC="10")
    await send(client, b"b", TIMER_DELAY_SEC="10")
    handle = RecallHandle.decode(first.fields["recallHandle"])
    assert handle == RecallHandle("T", "broker-a", str((NOW_MS + 9999) // 1000 * 1000 + 1), "a")
    answer = await recall(client, first)
    assert (answer.code, answer.fields["msgId"]) == (0, "a")
    await at(broker, clock, NOW_MS + 60_000)
    assert await bodies(client) == [b"b"]


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"topic": "U"}, ResponseCode.TOPIC_NOT_EXIST, "recall failed, the topic[U] not exist"),
        ({"recallHandle": "???"}, ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid"),
        (
            {"recallHandle": RecallHandle("V", "broker-a", str(NOW_MS + 9000), "a").encode()},
            ResponseCode.ILLEGAL_OPERATION,
            "recall failed, topic not match",
        ),
        (
            {"recallHandle": RecallHandle("T", "broker-b", str(NOW_MS + 9000), "a").encode()},
            ResponseCode.ILLEGAL_OPERATION,
            "recall failed, broker service not available",
        ),
        (
            {"recallHandle": RecallHandle("T", "broker-a", str(NOW_MS), "a").encode()},
            ResponseCode.ILLEGAL_OPERATION,
            "recall failed, timestamp invalid",
        ),
        (
            {"recallHandle": RecallHandle("T", "broker-a", "never", "a").encode()},
            ResponseCode.ILLEGAL_OPERATION,
            "recall failed, timestamp invalid",
        ),
    ],
)
async def test_a_recall_that_cannot_be_is_refused_in_the_words_of_5_3_3(
    client: Client, changes: dict[str, str], code: ResponseCode, says: str
) -> None:
    answer = await send(client, b"a", TIMER_DELAY_SEC="10")
    fields = {"topic": "T", "recallHandle": answer.fields["recallHandle"]} | changes
    refused = await client.call(RequestCode.RECALL_MESSAGE, fields)
    assert (refused.code, refused.remark) == (code, says)


def test_one_recall_forgets_few_of_the_seconds_that_have_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_recall_room, "FORGOTTEN_AT_ONCE", 10)
    monkeypatch.setattr(_recall_room, "asking_host", lambda: "10.0.0.1")
    room = _recall_room.RecallRoom()
    for second in range(25):
        with room.place(second * 1000, 0):
            pass
    kept = []
    for _ in range(4):
        with room.place(DAY_MS, DAY_MS - 1000):
            kept.append(len(room))
    assert kept == [15, 6, 1, 1]


async def test_recalls_of_one_second_leave_some_to_others(
    broker: TestBroker, clock: StandingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_recall_room, "RECALLS_MAX", 22)
    monkeypatch.setattr(_recall_room, "UNCOUNTED", 2)
    busy, other = broker.connect("10.0.0.1"), broker.connect("10.0.0.2")
    soon, later = [
        await send(busy, body, TIMER_DELAY_SEC=seconds)
        for body, seconds in ((b"soon", "10"), (b"later", "20"))
    ]
    answers = [await recall(busy, soon) for _ in range(30)]
    assert [one.code for one in answers] == [0] * 18 + [ResponseCode.SYSTEM_BUSY] * 12
    assert "16 messages of the same second are recalled from 10.0.0.1" in str(answers[-1].remark)
    by_message = {"TIMER_DELAY_SEC": "10", "TIMER_DEL_UNIQKEY": "T+soon"}
    assert (await send(busy, b"x", **by_message)).code == ResponseCode.SYSTEM_BUSY
    assert (await send(busy, b"y", TIMER_DELAY_SEC="10")).code == 0
    assert (await recall(busy, later)).code == 0
    assert (await send(other, b"z", **by_message)).code == 0
    assert (await recall(other, soon)).code == 0
    await at(broker, clock, NOW_MS + 12_000)
    assert await bodies(other) == [b"y"]
    assert len(broker.context.writer.recalls) == 2
    assert (await recall(busy, later)).code == 0
    assert len(broker.context.writer.recalls) == 1  # the second has passed


async def test_recalls_can_be_forbidden(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, recall_message_enable=False) as broker:
        client = broker.connect()
        refused = await recall(client, await send(client, b"a", TIMER_DELAY_SEC="10"))
    says = "recall failed, operation is forbidden"
    assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, says)


async def test_timers_wait_over_restarts(tmp_path: Path, clock: StandingClock) -> None:
    for number in range(3):
        async with open_test_broker(tmp_path, now_ms=lambda: clock.ms) as broker:
            client = broker.connect()
            await send(client, b"%d" % number, TIMER_DELAY_SEC="10")
            if number == 1:
                await recall(client, await send(client, b"gone", TIMER_DELAY_SEC="9"))
            assert await bodies(client) == []
            clock.ms += 4500
    clock.ms += 3 * DAY_MS
    async with open_test_broker(tmp_path, now_ms=lambda: clock.ms) as broker:
        await broker.broker.clock_moved()
        assert await bodies(broker.connect()) == [b"0", b"1", b"2"]


async def test_a_message_that_waits_long_is_stored_anew(
    tmp_path: Path, clock: StandingClock
) -> None:
    settings = {"timer_roll_window_slot": 100}
    async with open_test_broker(tmp_path, now_ms=lambda: clock.ms, **settings) as broker:
        client = broker.connect()
        kept = await send(client, b"m", TIMER_DELAY_SEC="350")
        await recall(client, await send(client, b"gone", TIMER_DELAY_SEC="350"))
        assert kept.code == 0
        for second in range(349):
            await at(broker, clock, NOW_MS + second * 1000)
        assert await bodies(client) == []
        waiting = await client.messages(SystemTopic.TIMER, 0)
        times = [message.properties.get("TIMER_ROLL_TIMES") for message in waiting]
        assert times[:3] == [None] * 3
        assert set(times[3:]) == {"1", "2", "3"}
        await at(broker, clock, NOW_MS + 351_000)
        assert await bodies(client) == [b"m"]


async def test_one_that_cannot_be_delivered_is_put_where_it_is_seen(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    await send(client, b"m", TIMER_DELAY_SEC="5")
    (waiting,) = await client.messages(SystemTopic.TIMER, 0)
    put = broker.context.writer.append
    for properties in (b"", b"TIMER_OUT_MS\x01x\x02", b"TIMER_OUT_MS\x01-1\x02"):
        put(stored_again(waiting, SystemTopic.TIMER, 0, properties=properties))
    broker.context.commit()
    await trio.testing.wait_all_tasks_blocked()
    await at(broker, clock, NOW_MS + 5000)
    assert await bodies(client) == [b"m"]
    assert await bodies(client, SystemTopic.UNDELIVERED) == [b"m"] * 3


async def test_a_committed_message_waits_for_its_time(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    properties = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "U1", "TIMER_DELAY_SEC": "20"}
    half = await client.send("T", b"U1", properties, sys_flag=4)
    end = EndTransaction(
        producer_group="pg",
        tran_state_table_offset=int(half.fields["queueOffset"]),
        commit_log_offset=decode_offset_id(half.fields["msgId"])[1],
        commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
        msg_id="U1",
    )
    assert (await client.call(RequestCode.END_TRANSACTION, end.to_fields())).code == 0
    await at(broker, clock, NOW_MS + 19_999)
    assert await bodies(client) == []
    await at(broker, clock, NOW_MS + 20_000)
    assert await bodies(client) == [b"U1"]


async def test_the_figures_of_5_3_3_say_how_many_wait(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    for _ in range(3):
        await send(client, b"m", TIMER_DELAY_SEC="50")
    await at(broker, clock, NOW_MS + 1)
    answer = await client.call(RequestCode.GET_BROKER_RUNTIME_INFO, {})
    table = json.loads(answer.body)["table"]
    assert (table["timerCongestNum"], table["timerOffsetBehind"]) == ("3", "0")


async def test_a_heartbeat_is_told_whether_the_broker_knows_timers(tmp_path: Path) -> None:
    told = []
    for number, enabled in enumerate((True, False)):
        async with open_test_broker(tmp_path / str(number), timer_wheel_enable=enabled) as broker:
            client = broker.connect()
            data = HeartbeatData(client_id="c").encode()
            for fields in ({"timers": "true"}, {}):
                answer = await client.call(RequestCode.HEART_BEAT, fields, data)
                told.append(answer.fields.get("timers"))
    assert told == ["true", None, None, None]


async def test_the_sdk_sends_at_a_time_and_recalls() -> None:
    async with (
        open_test_server() as server,
        open_producer("pg", name_servers=server.name_servers, send_timeout_s=60) as producer,
    ):
        for body in (b"a", b"b"):
            result = await producer.send(Message(topic="T", body=body, delay_s=3600))
        assert result.recall_handle is not None
        assert await producer.recall("T", result.recall_handle) == result.message_id
        with pytest.raises(MessageRejected, match="recall handle is invalid"):
            await producer.recall("T", "nonsense")
        assert server.messages("T") == []
        server.advance(3602)
        with pytest.raises(RefusedByBroker, match="timestamp invalid"):
            await producer.recall("T", result.recall_handle)
        assert [message.body for message in server.messages("T")] == [b"a"]


async def test_little_is_kept_of_recalls_with_long_keys(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    due = {"TIMER_DELIVER_MS": str(NOW_MS + 1000)}
    await send(client, b"kept", **due)
    long_key = "k" * 30_000
    for number in range(100):
        await send(client, b"r", **due, TIMER_DEL_UNIQKEY=f"T+{number}{long_key}")
    await broker.broker.clock_moved()
    tracemalloc.start()
    try:
        await at(broker, clock, NOW_MS + 601)  # the slot is open, and its message not yet due
        gc.collect()
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 100 * len(long_key) / 10
    await at(broker, clock, NOW_MS + 60_000)
    assert await bodies(client) == [b"kept"]
