"""Properties that brokers write decide nothing when a client writes them.

Each property with a meaning to brokers is in one of the two tables; those of the first are tried
with every way that a message can go.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.wire import RequestCode, SystemTopic
from lanemq.wire.headers import ConsumerSendMsgBack, EndTransaction
from lanemq.wire.message import Property, StoredMessage

FORGED: Final = {
    Property.CLUSTER: "x",
    Property.INNER_MULTI_QUEUE_OFFSET: "7",
    Property.MSG_REGION: "x",
    Property.ORIGIN_MESSAGE_ID: "x",
    Property.REAL_QID: "1",
    Property.REAL_TOPIC: "other",
    Property.RETRY_TOPIC: "other",
    Property.TIMER_DEQUEUE_MS: "1",
    Property.TIMER_ENQUEUE_MS: "1",
    Property.TIMER_ROLL_TIMES: "9223372036854775807",
    Property.TRACE_ON: "x",
    Property.TRANSACTION_CHECK_TIMES: "15",
    Property.TRAN_PREPARED_QUEUE_OFFSET: "0",
}
"""Properties that a broker writes, and a value of a client's own."""

CLIENTS: Final = {
    Property.BORN_HOST: "for proxies of 5.x; this broker does not read it",
    Property.BORN_TIMESTAMP: "for people",
    Property.BUYER_ID: "for applications",
    Property.CHECK_IMMUNITY_TIME_IN_SECONDS: "a producer's wish",
    Property.CONSUME_START_TIME: "between a consumer and itself",
    Property.CORRECTION_FLAG: "for applications",
    Property.CORRELATION_ID: "between who asks and who replies",
    Property.ARRIVE_TIME: "between who asks and who replies",
    Property.CRC32: "of records of 5.x that have it at their end, where it is read",
    Property.DELAY: "a producer's wish",
    Property.DLQ_ATTEMPTS: "a consumer's own account",
    Property.DLQ_ORIGIN_MESSAGE_ID: "a consumer's own account",
    Property.DLQ_ORIGIN_TOPIC: "a consumer's own account",
    Property.DLQ_REASON: "a consumer's own account",
    Property.DUP_INFO: "of replicated logs, which there are not",
    Property.EXTEND_UNIQ_INFO: "for applications",
    Property.FIRST_POP_TIME: "of POP, which is not served",
    Property.FORWARD_QUEUE_ID: "of answers",
    Property.INNER_BASE: "of batches in one record, which are not taken",
    Property.INNER_MULTI_DISPATCH: "a producer's wish, with a right to each",
    Property.INNER_NUM: "of batches in one record, which are not taken",
    Property.INSTANCE_ID: "between client and client",
    Property.KEYS: "a producer's wish",
    Property.MAX_OFFSET: "added by consumers to what they got",
    Property.MAX_RECONSUME_TIMES: "between a consumer and itself",
    Property.MIN_OFFSET: "added by consumers to what they got",
    Property.MQ2_FLAG: "for applications",
    Property.MSG_TYPE: "between who asks and who replies",
    Property.PGROUP: "with a right to the group",
    Property.POP_CK: "of POP, which is not served",
    Property.POP_CK_OFFSET: "of POP, which is not served",
    Property.PUSH_REPLY_TIME: "replaced in what is pushed",
    Property.RECONSUME_TIME: "between a consumer and itself",
    Property.REDIRECT: "of answers",
    Property.REPLY_TO_CLIENT: "with a right to the client's groups",
    Property.SHARDING_KEY: "between client and client",
    Property.TAGS: "a producer's wish",
    Property.TIMER_DELAY_LEVEL: "not read",
    Property.TIMER_DELAY_MS: "a producer's wish",
    Property.TIMER_DELAY_SEC: "a producer's wish",
    Property.TIMER_DELIVER_MS: "a producer's wish",
    Property.TIMER_DEL_UNIQKEY: "a producer's wish, for its topic",
    Property.TIMER_OUT_MS: "a consumer's word that a message which it gives back has had its timer",
    Property.TRACE_CONTEXT: "for applications",
    Property.TRANSACTION_ID: "between client and client",
    Property.TRANSFER_FLAG: "for applications",
    Property.TRANSIENT_PREFIX: "the beginning of names that clients do not send",
    Property.TRAN_MSG: "a producer's wish",
    Property.TTL: "between who asks and who replies",
    Property.UNIQ_KEY: "a producer's name for its message",
    Property.WAIT: "a producer's wish",
}
"""Properties that a client may write, and why."""

WAYS: Final[dict[str, dict[str, str]]] = {
    "at once": {},
    "a delay": {"DELAY": "1"},
    "a timer": {"TIMER_DELAY_MS": "2500"},
    "a transaction": {"TRAN_MSG": "true", "PGROUP": "p"},
    "a light queue": {"INNER_MULTI_DISPATCH": "%LMQ%a"},
}


def test_every_property_of_the_system_is_somebodys() -> None:
    named = {value for name, value in vars(Property).items() if not name.startswith("_")}
    assert named == FORGED.keys() | CLIENTS.keys()
    assert FORGED.keys().isdisjoint(CLIENTS)


class Outcome(NamedTuple):
    """The fate of a message."""

    delivered_ms: int
    """The time from the send to the first look that found it."""
    places: tuple[tuple[int, int], ...]
    """Bounds of the queues in which it may be."""
    asked: int
    """Questions about its transaction."""
    properties: dict[str, str]
    """Of those in ``FORGED``, what consumers see."""
    given_back: dict[str, str]
    """The same, once it was given back."""


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: StandingClock) -> AsyncIterator[TestBroker]:
    async with open_test_broker(
        tmp_path,
        now_ms=clock,
        enable_lmq=True,
        enable_multi_dispatch=True,
        transaction_time_out=0,
        transaction_check_max=3,
    ) as broker:
        yield broker


async def moved(broker: TestBroker, clock: StandingClock, client: Client, ms: int) -> None:
    clock.ms += ms
    await broker.broker.clock_moved()
    client.pushed.clear()
    await client.heartbeat("p", producers=("p",))


async def outcome(broker: TestBroker, clock: StandingClock, properties: dict[str, str]) -> Outcome:
    """Send a message with these properties, and see what becomes of it."""
    client, store = broker.connect(), broker.context.store
    await client.heartbeat("p", producers=("p",))
    sent = await client.send("T", b"x", properties | {"UNIQ_KEY": "k"}, born_timestamp=clock.ms)
    assert sent.code == 0, sent.remark
    begun_ms, asked = clock.ms, 0
    if "TRAN_MSG" in properties:
        await moved(broker, clock, client, 10)
        asked = sum(one.code == RequestCode.CHECK_TRANSACTION_STATE for one in client.pushed)
        halves = await client.all_messages(SystemTopic.TRANSACTION_HALF)
        half = halves[-1]
        end = EndTransaction("p", half.queue_offset, half.log_position, 8, msg_id="k")
        assert (await client.call(RequestCode.END_TRANSACTION, end.to_fields())).code == 0
    while not (found := await client.all_messages("T")):
        assert clock.ms - begun_ms < 20_000, "it does not come"
        await moved(broker, clock, client, 100)
    delivered_ms = clock.ms - begun_ms
    message = found[-1]
    header = ConsumerSendMsgBack(offset=message.log_position, group="g", delay_level=1)
    assert (await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, header.to_fields())).code == 0
    await moved(broker, clock, client, 1500)
    (again,) = await client.all_messages("%RETRY%g")
    return Outcome(
        delivered_ms=delivered_ms,
        places=tuple(store.bounds(topic, 0) for topic in ("T", "%LMQ%a", "%RETRY%g")),
        asked=asked,
        properties=said_of(message, begun_ms),
        given_back=said_of(again, begun_ms, its_id=message.offset_id),
    )


def said_of(message: StoredMessage, begun_ms: int, its_id: str = "") -> dict[str, str]:
    """The properties in ``FORGED``, without what differs from run to run."""
    said = {name: message.properties.get(name, "") for name in FORGED}
    for name in (Property.TIMER_DEQUEUE_MS, Property.TIMER_ENQUEUE_MS):
        if len(said[name]) == len(str(begun_ms)):
            said[name] = str(int(said[name]) - begun_ms)
    if its_id and said[Property.ORIGIN_MESSAGE_ID] == its_id:
        said[Property.ORIGIN_MESSAGE_ID] = "its id"
    return said


HARMLESS: Final = {
    Property.ORIGIN_MESSAGE_ID,
    Property.REAL_QID,
    Property.REAL_TOPIC,
    Property.RETRY_TOPIC,
    Property.TIMER_DEQUEUE_MS,
    Property.TIMER_ENQUEUE_MS,
    Property.TIMER_ROLL_TIMES,
    Property.TRANSACTION_CHECK_TIMES,
    Property.TRAN_PREPARED_QUEUE_OFFSET,
}
"""Properties that a message keeps where this broker writes none: consumers see them, and nobody
believes them."""


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("way", WAYS)
async def test_what_a_client_says_in_the_brokers_place_changes_nothing(
    tmp_path: Path, clock: StandingClock, broker: TestBroker, way: str, name: str
) -> None:
    honest = await outcome(broker, clock, WAYS[way])
    settings = {"enable_lmq": True, "enable_multi_dispatch": True}
    checks = {"transaction_time_out": 0, "transaction_check_max": 3}
    other = StandingClock()
    async with open_test_broker(tmp_path / "2", now_ms=other, **settings, **checks) as second:
        forged = await outcome(second, other, WAYS[way] | {name: FORGED[name]})
    assert forged[:3] == honest[:3]
    for seen, expected in (
        (forged.properties, honest.properties),
        (forged.given_back, honest.given_back),
    ):
        kept = seen[name] == FORGED[name] and not expected[name] and name in HARMLESS
        assert kept or seen[name] == expected[name]
