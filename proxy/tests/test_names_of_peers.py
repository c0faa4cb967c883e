"""Names that peers give are short where they are kept, and their bytes are charged."""

import pytest

from lanemq.proxy.broker.context._context import BrokerContext
from lanemq.proxy.net._session import Session
from lanemq.proxy.net.limits._names import NAME_BYTES_MAX, check_name
from lanemq.testkit.proxy.brokers import Client, TestBroker
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import ConsumerData, HeartbeatData, LockBatch, LockBatchResult, MessageQueue
from lanemq.wire.headers import ConsumerSendMsgBack

SUCCESS, REFUSED = ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR
LONGEST, TOO_LONG = "n" * NAME_BYTES_MAX, "n" * (NAME_BYTES_MAX + 1)


@pytest.mark.parametrize(
    ("name", "is_taken"),
    [(LONGEST, True), (TOO_LONG, False), ("é" * 127, True), ("é" * 128, False), ("", True)],
)
def test_a_name_has_so_many_bytes_at_most(name: str, is_taken: bool) -> None:
    if is_taken:
        check_name("group", name)
        return
    with pytest.raises(Refused, match="256 bytes, at most 255"):
        check_name("group", name)


async def lock(client: Client, *queues: MessageQueue, group: str = "g", name: str = "id") -> int:
    body = LockBatch(group, name, queues).encode()
    answer = await client.call(RequestCode.LOCK_BATCH_MQ, body=body)
    if answer.code == SUCCESS:
        assert LockBatchResult.decode(answer.body).lock_ok_mq_set == queues
    return answer.code


async def unlock(client: Client, *queues: MessageQueue) -> None:
    body = LockBatch("g", "id", queues).encode()
    assert (await client.call(RequestCode.UNLOCK_BATCH_MQ, body=body)).code == SUCCESS


async def session_of(client: Client, context: BrokerContext) -> Session:
    """Return the connection of a client, which becomes a producer."""
    assert (await client.heartbeat("probe", producers=("p",))).code == SUCCESS
    session = context.clients.producer_session("probe")
    assert session is not None
    return session


async def test_locks_have_short_names_alone(broker: TestBroker, client: Client) -> None:
    queue = MessageQueue("T", "broker-a", 0)
    assert await lock(client, queue, group=TOO_LONG) == REFUSED
    assert await lock(client, queue, name=TOO_LONG) == REFUSED
    for other in (MessageQueue(TOO_LONG, "broker-a", 0), MessageQueue("T", TOO_LONG, 0)):
        assert await lock(client, queue, other) == REFUSED
    assert not len(broker.context.locks._charges)
    longest = MessageQueue(LONGEST, LONGEST, 0)
    assert await lock(client, queue, longest, group=LONGEST, name=LONGEST) == SUCCESS


async def test_locks_are_charged_to_their_connections(broker: TestBroker, client: Client) -> None:
    session, later = await session_of(client, broker.context), broker.connect()
    before_bytes = session.account.kept_bytes
    queues = [MessageQueue("T" * 200, "broker-a", number) for number in range(100)]
    for _ in range(2):  # a renewal keeps nothing more
        assert await lock(client, *queues) == SUCCESS
    kept_bytes = session.account.kept_bytes - before_bytes
    assert 70_000 < kept_bytes < 150_000
    await unlock(client, *queues[:50])
    assert session.account.kept_bytes - before_bytes == kept_bytes // 2
    assert await lock(later, *queues) == SUCCESS
    assert session.account.kept_bytes == before_bytes, "they are the other connection's now"


async def test_heartbeats_have_short_names_alone(broker: TestBroker, client: Client) -> None:
    answers = [
        await client.heartbeat(TOO_LONG, producers=("g",)),
        await client.heartbeat(producers=(TOO_LONG,)),
        await client.heartbeat(consumers={TOO_LONG: {"T": "*"}}),
    ]
    for consumer in (
        ConsumerData("g", consume_type=TOO_LONG),
        ConsumerData("g", message_model=TOO_LONG),
        ConsumerData("g", consume_from_where=TOO_LONG),
    ):
        body = HeartbeatData("id", (), (consumer,)).encode()
        answers.append(await client.call(RequestCode.HEART_BEAT, body=body))
    assert [answer.code for answer in answers] == [REFUSED] * 6
    assert list(broker.context.clients.producer_groups()) == []
    assert broker.context.clients.consumer_group("g") is None
    answer = await client.heartbeat(LONGEST, consumers={LONGEST: {"T": "*"}}, producers=(LONGEST,))
    assert answer.code == SUCCESS


async def test_client_ids_are_charged_to_their_connections(
    broker: TestBroker, client: Client
) -> None:
    session = await session_of(client, broker.context)
    before_bytes = session.account.kept_bytes
    for name in ("i" * 200, "i" * 100, "i" * 200):
        await client.heartbeat(name, producers=("p",), consumers={"g": {"T": "*"}})
    kept_bytes = session.account.kept_bytes
    await client.heartbeat("i" * 100, producers=("p",), consumers={"g": {"T": "*"}})
    assert session.account.kept_bytes == kept_bytes - 200
    await client.heartbeat("probe", producers=("p",))
    await client.call(RequestCode.UNREGISTER_CLIENT, {"clientID": "probe", "consumerGroup": "g"})
    assert session.account.kept_bytes == before_bytes


async def test_messages_given_back_are_counted_for_topics_that_exist(
    broker: TestBroker, client: Client
) -> None:
    group, retry = "g", "%RETRY%g"
    await client.heartbeat(consumers={group: {"T": "*"}})
    await client.send("T")
    names = ["T", "never seen", "n" * 30_000]
    for name in names:
        assert (await client.send(retry, properties={"RETRY_TOPIC": name})).code == SUCCESS
    for message in await client.all_messages(retry):
        back = ConsumerSendMsgBack(offset=message.log_position, group=group, delay_level=1)
        answer = await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, back.to_fields())
        assert answer.code == SUCCESS
    statistics = broker.context.statistics
    counted = {key: counter.messages for key, counter in statistics._send_backs.items()}
    assert counted == {("T", group): 1, (retry, group): 2}
