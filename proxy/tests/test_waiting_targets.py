"""The properties of a message that waits say which queue it is for, or nothing is delivered."""

from msgspec.structs import replace

from lanemq.proxy.sessions.values._waiting import target_of, with_target
from lanemq.testkit.proxy.brokers import TestBroker
from lanemq.wire import SystemTopic
from lanemq.wire.message import decode_message, decode_offset_id


async def test_only_a_whole_target_counts_and_never_the_topic_of_half_messages(
    broker: TestBroker,
) -> None:
    sent = await broker.connect().send(queue_id=3, properties="DELAY\x014\x02")
    record = broker.context.store.record_at(decode_offset_id(sent.fields["msgId"])[1])
    assert record is not None
    waiting = decode_message(record)
    assert waiting.topic == SystemTopic.SCHEDULE
    assert target_of(waiting) == ("T", 3)

    def target(topic: bytes, queue_id: bytes) -> tuple[str, int] | None:
        properties = b"REAL_TOPIC\x01" + topic + b"\x02REAL_QID\x01" + queue_id + b"\x02"
        return target_of(replace(waiting, properties_data=properties))

    assert target(b"Other", b"2147483647") == ("Other", 2147483647)
    for queue_id in (b"", b"-1", b"2147483648", b"1e3", b"\xff"):
        assert target(b"Other", queue_id) is None, queue_id
    assert target(b"", b"0") is None
    assert target(SystemTopic.TRANSACTION_HALF.encode(), b"0") is None
    assert target_of(replace(waiting, properties_data=with_target(b"", "Mine", 7))) == ("Mine", 7)
