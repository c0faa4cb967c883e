"""Bodies are compressed as asked for, where the broker is new enough; receivers get them whole."""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    Compression,
    ConsumeFrom,
    Message,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode, SysFlag, Version

BODY = b"compressible " * 1000
# RocketMQ 5.3.3, MessageSysFlag: bit 0, and the kind in bits 8 to 10.
FLAGS = {Compression.ZLIB: 0x301, Compression.LZ4: 0x101, Compression.ZSTD: 0x201}
MAGIC = {  # RFC 1950; LZ4 Frame Format; RFC 8878
    Compression.ZLIB: b"\x78",
    Compression.LZ4: b"\x04\x22\x4d\x18",
    Compression.ZSTD: b"\x28\xb5\x2f\xfd",
}
KINDS = pytest.mark.parametrize("kind", Compression)


def stored(cluster: FakeCluster) -> list[tuple[int, bytes]]:
    """The flags and the first bytes of every message, by offset."""
    messages = sorted(cluster.broker.messages("T"), key=lambda message: message.queue_offset)
    return [(message.sys_flag, message.body[:4]) for message in messages]


@KINDS
async def test_a_broker_of_5_x_is_sent_what_was_asked_for(
    cluster: FakeCluster, autojump_clock: MockClock, kind: Compression
) -> None:
    cluster.create_topic("T", queues=1)
    cluster.broker.version = Version.V5_0_0
    got, heard = trio.Event(), list[bytes]()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        heard.extend(message.body for message in messages)
        if len(heard) == 3:
            got.set()

    async with open_producer(
        "pg", name_servers=cluster.name_servers, dial=cluster.dial, compression=kind
    ) as producer:
        await producer.send(Message(topic="T", body=BODY))
        await producer.send_oneway(Message(topic="T", body=BODY))
        await producer.send(Message(topic="T", body=b"short"))
    (first, begin), again, short = stored(cluster)
    assert first == FLAGS[kind]
    assert begin.startswith(MAGIC[kind])
    assert again == (first, begin)
    assert short == (0, b"shor")
    async with open_push_consumer(
        "g",
        name_servers=cluster.name_servers,
        subscriptions={"T": "*"},
        listener=handle,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        dial=cluster.dial,
    ):
        await got.wait()
    assert sorted(heard) == [BODY, BODY, b"short"]


@KINDS
async def test_a_broker_before_5_0_is_sent_zlib(
    cluster: FakeCluster, autojump_clock: MockClock, kind: Compression
) -> None:
    cluster.create_topic("T", queues=1)
    cluster.broker.version = Version.V4_9_8
    async with open_producer(
        "pg", name_servers=cluster.name_servers, dial=cluster.dial, compression=kind
    ) as producer:
        await producer.send(Message(topic="T", body=BODY))
        await producer.send_oneway(Message(topic="T", body=BODY))
    for flags, begin in stored(cluster):
        assert flags == FLAGS[Compression.ZLIB]
        assert begin.startswith(MAGIC[Compression.ZLIB])


@KINDS
async def test_an_attempt_at_another_broker_is_sent_what_that_one_knows(
    cluster: FakeCluster, autojump_clock: MockClock, kind: Compression
) -> None:
    old, new = cluster.broker, cluster.add_broker()
    cluster.create_topic("T", queues=1)
    old.version, new.version = Version.V4_9_8, Version.V5_0_0
    for failing, other, expected in ((new, old, Compression.ZLIB), (old, new, kind)):
        failing.refuse(RequestCode.SEND_MESSAGE_V2, 1, 1)
        async with open_producer(
            "pg",
            name_servers=cluster.name_servers,
            dial=cluster.dial,
            compression=kind,
        ) as producer:
            for _ in range(2):  # one of them begins at the broker that fails
                await producer.send(Message(topic="T", body=BODY))
        assert [message.sys_flag for message in other.messages("T")] == [FLAGS[expected]] * 2
        failing._refusals.clear()
        for broker in (old, new):
            broker.queue("T", 0).records.clear()


@KINDS
async def test_what_gets_no_shorter_is_sent_as_it_is(
    cluster: FakeCluster, autojump_clock: MockClock, kind: Compression
) -> None:
    cluster.create_topic("T", queues=1)
    cluster.broker.version = Version.V5_0_0
    async with open_producer(
        "pg",
        name_servers=cluster.name_servers,
        dial=cluster.dial,
        compression=kind,
        compress_from_bytes=1,
    ) as producer:
        await producer.send(Message(topic="T", body=b"x"))
    assert stored(cluster) == [(0, b"x")]
    assert not cluster.broker.messages("T")[0].sys_flag & SysFlag.COMPRESSED
