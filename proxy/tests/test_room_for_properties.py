"""Room for properties: what a broker takes, it can store again with all that it adds."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lanemq.proxy.broker.handlers.sends import _replies, _send, _send_special
from lanemq.proxy.broker.values import _own_properties
from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker, send_header
from lanemq.wire import RequestCode, ResponseCode, SystemTopic
from lanemq.wire.frame import Frame
from lanemq.wire.headers import CheckTransactionState, ConsumerSendMsgBack, EndTransaction
from lanemq.wire.message import BatchEntry, decode_offset_id, encode_batch, encode_properties

GROUP = "g" * 248
"""Its retry topic has the longest name that there may be."""
TOPIC = "T" * 127
KEYED = {"UNIQ_KEY": "U1"}
HALF = KEYED | {"TRAN_MSG": "true", "PGROUP": "pg"}
TIMER = {"TIMER_DELAY_SEC": "200000"}
"""Longer than a timer wheel is: it rolls."""
COMMIT = 8


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: StandingClock) -> AsyncIterator[TestBroker]:
    async with open_test_broker(
        tmp_path, now_ms=clock, timer_roll_window_slot=60_000, transaction_check_max=9
    ) as broker:
        yield broker


async def send(client: Client, properties: dict[str, str], size: int, *, batch: bool) -> Frame:
    """Send a message whose properties have so many bytes."""
    named = encode_properties(properties | {"x": "y"})
    text = encode_properties(properties | {"x": "y" * (size - len(named) + 1)})
    if not batch:
        return await client.send(TOPIC, b"body", text.decode(), queue_id=0)
    header = send_header(TOPIC, None, batch=True).to_letters()
    body = encode_batch([BatchEntry(0, b"body", text)])
    return await client.call(RequestCode.SEND_BATCH_MESSAGE, header, body)


async def longest_taken(client: Client, properties: dict[str, str], *, batch: bool) -> int:
    """Find the most bytes of properties that are taken."""
    low, high = 1000, 33_000
    while high - low > 1:
        size = (low + high) // 2
        answer = await send(client, properties, size, batch=batch)
        if answer.code == 0:
            low = size
        else:
            assert answer.code == 13
            assert answer.remark is not None
            assert "properties of" in answer.remark
            high = size
    return low


async def send_back(client: Client, position: int) -> None:
    header = ConsumerSendMsgBack(offset=position, group=GROUP, delay_level=18)
    answer = await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, header.to_fields())
    assert answer.code == 0, answer.remark


async def last(client: Client, topic: str) -> int:
    """Return the position of the last message of queue 0."""
    found = await client.all_messages(topic)
    return found[-1].log_position


async def advance(broker: TestBroker, clock: StandingClock, seconds: int) -> None:
    clock.ms += seconds * 1000
    await broker.broker.clock_moved()


@pytest.mark.parametrize("batch", [False, True])
async def test_the_longest_message_can_be_sent_back(
    broker: TestBroker, client: Client, clock: StandingClock, *, batch: bool
) -> None:
    size = await longest_taken(client, KEYED, batch=batch)
    assert size > 32_000
    assert (await send(client, KEYED, size, batch=batch)).code == 0
    position = await last(client, TOPIC)
    for _ in range(3):
        await send_back(client, position)
        (waiting,) = (await client.all_messages(SystemTopic.SCHEDULE, 17))[-1:]
        await advance(broker, clock, 7300)
        topic = waiting.properties["REAL_TOPIC"]
        (again,) = (await client.all_messages(topic, int(waiting.properties["REAL_QID"])))[-1:]
        position = again.log_position
    assert again.reconsume_times == 3


@pytest.mark.parametrize("waits", [{"DELAY": "1"}, TIMER])
async def test_the_longest_waiting_message_arrives_and_can_be_sent_back(
    broker: TestBroker, client: Client, clock: StandingClock, waits: dict[str, str]
) -> None:
    size = await longest_taken(client, KEYED | waits, batch=False)
    await advance(broker, clock, 300_000)
    before = len(await client.all_messages(TOPIC))
    assert (await send(client, KEYED | waits, size, batch=False)).code == 0
    for _ in range(30):
        await advance(broker, clock, 10_000)
    assert len(await client.all_messages(TOPIC)) == before + 1
    await send_back(client, await last(client, TOPIC))
    assert broker.context.statistics.undelivered == 0


@pytest.mark.parametrize("more", [{}, TIMER, {"DELAY": "2"}])
async def test_the_longest_half_message_is_asked_about_committed_and_can_be_sent_back(
    broker: TestBroker, client: Client, clock: StandingClock, more: dict[str, str]
) -> None:
    assert (await client.heartbeat("p", producers=("pg",))).code == 0
    size = await longest_taken(client, HALF | more, batch=False)
    sent = await send(client, HALF | more, size, batch=False)
    assert sent.code == 0
    offset = int(sent.fields["queueOffset"])
    for _ in range(3):
        client.pushed.clear()
        await advance(broker, clock, 100)
        await client.heartbeat("p", producers=("pg",))
        asked = [CheckTransactionState.from_fields(one.fields) for one in client.pushed]
        (header,) = [one for one in asked if one.offset_msg_id is not None][-1:]
    assert header.tran_state_table_offset is not None
    assert header.tran_state_table_offset > offset
    aside = SystemTopic.TRANSACTION_CHECK_MAX_TIME
    assert await client.all_messages(aside) == []
    end = EndTransaction(
        "pg", header.tran_state_table_offset, header.commit_log_offset, COMMIT, "U1"
    )
    assert (await client.call(RequestCode.END_TRANSACTION, end.to_fields())).code == 0
    for _ in range(30):
        await advance(broker, clock, 10_000)
    await send_back(client, await last(client, TOPIC))
    assert broker.context.statistics.undelivered == 0


async def test_what_comes_to_a_retry_topic_was_taken_before(client: Client) -> None:
    text = encode_properties({"x": "y" * 32_600}).decode()
    assert (await client.send("T", b"", text)).code == 13
    answer = await client.send("%RETRY%g", b"", text, producer_group="g")
    assert answer.code == 0, answer.remark
    assert decode_offset_id(answer.fields["msgId"])[1] >= 0


@pytest.mark.parametrize("more", [{}, {"DELAY": "1"}, TIMER, HALF])
async def test_a_client_gets_no_more_room_for_what_it_says_of_itself(
    client: Client, more: dict[str, str]
) -> None:
    size = await longest_taken(client, KEYED | more, batch=False)
    named = encode_properties(KEYED | more | {"x": "y"})
    for longer, code in ((0, 0), (1, 13)):
        text = encode_properties(KEYED | more | {"x": "y" * (size + longer - len(named) + 1)})
        fields = send_header(TOPIC, text.decode()).to_letters() | {"lanemqHops": "1"}
        answer = await client.call(RequestCode.SEND_MESSAGE_V2, fields, b"body")
        assert answer.code == code, answer.remark


async def test_a_timer_at_a_retry_topic_has_the_room_that_it_needs(
    broker: TestBroker, client: Client, clock: StandingClock
) -> None:
    """A broker adds to it until it is due, whoever had it before."""
    size = 32_700
    while True:
        text = encode_properties(TIMER | {"x": "y" * size}).decode()
        answer = await client.send("%RETRY%g", b"", text, producer_group="g")
        if answer.code == 0:
            break
        assert answer.code == 13, answer.remark
        size -= 5
    for _ in range(30):
        await advance(broker, clock, 10_000)
    assert len(await client.all_messages("%RETRY%g")) == 1
    assert broker.context.statistics.undelivered == 0


async def test_a_message_that_another_broker_delivers_needs_no_room_twice(client: Client) -> None:
    """Properties that the other broker wrote into it are replaced when it is given back."""
    added = {
        "REAL_TOPIC": TOPIC,
        "REAL_QID": "0",
        "TIMER_OUT_MS": "1700000000000",
        "TIMER_ENQUEUE_MS": "1700000000000",
        "TIMER_DEQUEUE_MS": "1700000000000",
    }
    size = await longest_taken(client, KEYED | TIMER, batch=False)
    named = encode_properties(KEYED | TIMER | {"x": "y"})
    text = encode_properties(KEYED | TIMER | {"x": "y" * (size - len(named) + 1)} | added)
    fields = send_header(TOPIC, text.decode()).to_letters() | {"lanemqHops": "1"}
    answer = await client.call(RequestCode.SEND_MESSAGE_V2, fields, b"body")
    assert answer.code == 0, answer.remark


@pytest.mark.parametrize(
    "begin", ["", "TIMER_DELIVER_MS\x0199\x02", "TRAN_MSG\x01true\x02PGROUP\x01g\x02"]
)
@pytest.mark.parametrize(
    "code",
    [
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    ],
)
async def test_properties_without_end_are_refused_before_they_are_read(
    tmp_path: Path, code: RequestCode, begin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look for one among them took a tenth of a second for a megabyte."""

    def unread(*_: object) -> object:
        raise AssertionError("they are looked at")

    async with open_test_broker(tmp_path) as broker:
        for module in (_own_properties, _replies, _send, _send_special):
            monkeypatch.setattr(module, "decode_properties", unread)
        header = send_header("T", begin + "a\x01b\x02" * 50_000)
        is_long = code == RequestCode.SEND_MESSAGE
        fields = header.to_fields() if is_long else header.to_letters()
        answer = await broker.connect().call(code, fields, b"body")
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "at most 32767 bytes fit" in (answer.remark or "")
