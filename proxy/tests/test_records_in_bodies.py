"""The body of a message may be a record, with all that a request looks at; it is none.

A user who knows where his next message will lie can put bytes into it that state their own
position in the log: a half message of his own group with somebody else's number, say.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from lanemq.testkit.proxy.accounts import CHIEF, KINDS, OWNER, WEAK, open_guarded_broker
from lanemq.testkit.proxy.brokers import Client, TestBroker
from lanemq.wire import RequestCode as Code
from lanemq.wire import SystemTopic
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    ConsumeMessageDirectly,
    ConsumerSendMsgBack,
    EndTransaction,
    ResumeCheckHalfMessage,
    ViewMessage,
)
from lanemq.wire.message import (
    StoredMessage,
    decode_messages,
    decode_offset_id,
    encode_message,
    encode_offset_id,
    encode_properties,
)

HEAD_BYTES = 88
"""Bytes of a record before its body."""
COMMIT, ROLLBACK = 8, 12
SECRET = b"for the owner's eyes"
HALF = {"TRAN_MSG": "true", "PGROUP": "victim-tx", "UNIQ_KEY": "U1"}


@pytest.fixture(params=KINDS)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TestBroker]:
    async with open_guarded_broker(tmp_path, request.param) as broker:
        yield broker


@pytest.fixture
def owner(broker: TestBroker) -> Client:
    return broker.connect(account=OWNER)


@pytest.fixture
def weak(broker: TestBroker) -> Client:
    return broker.connect(account=WEAK)


@pytest.fixture
def chief(broker: TestBroker) -> Client:
    return broker.connect(account=CHIEF)


async def message_of(client: Client, sent: Frame) -> StoredMessage:
    assert sent.code == 0, sent.remark
    position = decode_offset_id(sent.fields["msgId"])[1]
    answer = await client.call(Code.VIEW_MESSAGE_BY_ID, ViewMessage(position).to_fields())
    (message,) = decode_messages(answer.body)
    return message


async def send_record(
    client: Client, topic: str, queue_offset: int, properties: dict[str, str]
) -> StoredMessage:
    """Send a message whose body is a record, and return that as the log would have it."""
    before = await message_of(client, await client.send("mine"))
    position = before.log_position + before.size_bytes + HEAD_BYTES
    forged = replace(
        before,
        topic=topic,
        queue_id=0,
        queue_offset=queue_offset,
        log_position=position,
        properties_data=encode_properties(properties),
    )
    body = encode_message(forged)
    sent = await client.send("mine", body)
    assert decode_offset_id(sent.fields["msgId"])[1] + HEAD_BYTES == position
    return forged


async def end(client: Client, half: StoredMessage, state: int, group: str) -> Frame:
    header = EndTransaction(
        producer_group=group,
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=half.log_position,
        commit_or_rollback=state,
        msg_id="U1",
    )
    return await client.call(Code.END_TRANSACTION, header.to_fields())


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
async def test_no_half_message_in_a_body_ends_somebody_elses_transaction(
    owner: Client, weak: Client, state: int
) -> None:
    half = await message_of(owner, await owner.send("victim", SECRET, HALF, sys_flag=4))
    assert half.topic == SystemTopic.TRANSACTION_HALF
    forged = await send_record(
        weak,
        half.topic,
        half.queue_offset,
        HALF | {"PGROUP": "mine", "REAL_TOPIC": "mine", "REAL_QID": "0"},
    )
    answer = await end(weak, forged, state, "mine")
    assert (answer.code, answer.remark) == (1, "Find prepared transaction message failed")
    assert (await end(owner, half, COMMIT, "victim-tx")).code == 0
    assert [one.body for one in await owner.messages("victim", consumer_group="victim")] == [SECRET]


@pytest.mark.parametrize("place", ["its own", "another's", "behind all", "of no queue"])
async def test_no_request_takes_a_body_for_a_message(
    broker: TestBroker, weak: Client, chief: Client, place: str
) -> None:
    number = {"its own": 1, "another's": 0, "behind all": 1 << 40, "of no queue": 0}[place]
    topic = "nowhere" if place == "of no queue" else "mine"
    store = broker.context.store
    forged = await send_record(weak, topic, number, {"INNER_MULTI_DISPATCH": "%LMQ%victim"})
    assert store.message_at(forged.log_position) is not None, "the record is not well made"
    assert (await weak.heartbeat("w", consumers={"mine": {"mine": "*"}})).code == 0
    name = encode_offset_id(forged.store_host, forged.log_position)
    requests = (
        (Code.VIEW_MESSAGE_BY_ID, ViewMessage(forged.log_position)),
        (
            Code.CONSUMER_SEND_MSG_BACK,
            ConsumerSendMsgBack(offset=forged.log_position, group="mine", delay_level=-1),
        ),
        (
            Code.CONSUME_MESSAGE_DIRECTLY,
            ConsumeMessageDirectly(consumer_group="mine", client_id="w", msg_id=name),
        ),
        (Code.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessage(msg_id=name)),
    )
    end_of_log = store.max_position
    for client in (weak, chief):
        for code, header in requests:
            answer = await client.call(code, header.to_fields())
            assert answer.code == 1, (code, answer)
            assert str(forged.log_position) in (answer.remark or ""), answer.remark
    assert store.max_position == end_of_log


async def test_no_half_message_in_a_body_is_checked_again(weak: Client, chief: Client) -> None:
    properties = HALF | {"PGROUP": "mine", "REAL_TOPIC": "mine", "REAL_QID": "0"}
    forged = await send_record(weak, SystemTopic.TRANSACTION_HALF, 0, properties)
    name = encode_offset_id(forged.store_host, forged.log_position)
    for client in (weak, chief):
        header = ResumeCheckHalfMessage(msg_id=name)
        answer = await client.call(Code.RESUME_CHECK_HALF_MESSAGE, header.to_fields())
        assert answer.code == 1
        assert "No half message lies at" in (answer.remark or "")
