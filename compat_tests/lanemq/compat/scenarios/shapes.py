"""Bodies, properties, keys and tags of every shape come back as they went."""

import random

import msgspec

from .._errors import CommandRefused
from ..cells._cell import Cell
from ..cells._facts import knows_texts_only, trusts_tag_hashes
from ..cells._scenario import expect, expect_equal, scenario
from ..clients._messages import Outgoing, Received

MEBIBYTE = 1 << 20
LIMIT_BYTES = 4 * MEBIBYTE
"""The largest message that brokers take by default (``maxMessageSize``)."""
MESSAGE_ILLEGAL = 13


def _noise(size_bytes: int) -> bytes:
    """Bytes that no compression makes smaller, the same on each run."""
    return random.Random(size_bytes).randbytes(size_bytes)


async def _round_trip(cell: Cell, messages: list[Outgoing]) -> dict[bytes, Received]:
    """Send messages of one topic with different bodies; return what arrives, by body."""
    topic = messages[0].topic
    async with (
        cell.consumer(topic) as consumer,
        # 3.2.6 stops at 128 KiB unless told otherwise.
        cell.producer(max_message_bytes=LIMIT_BYTES) as producer,
    ):
        for message in messages:
            expect_equal("status", (await producer.send(message)).status, "SEND_OK")
        received = {message.body: message for message in await consumer.receive(len(messages))}
    sizes = sorted(len(body) for body in received)
    expect_equal("body sizes", sizes, sorted(len(message.body) for message in messages))
    expect(all(message.body in received for message in messages), "every body byte for byte")
    return received


@scenario("bodies")
async def bodies(cell: Cell) -> None:
    """Bodies of one byte, of all byte values, in UTF-8, around the compression limit."""
    topic = await cell.topic()
    contents = [
        b"\x00",
        bytes(range(256)),
        "Grüße, 消息, 📨".encode(),
        b"{}",
        b"\x01\x02\n\r\t",
        b"a" * 4095,
        b"b" * 4096,
        b"c" * 4097,
        _noise(4096),
        b"compressible " * 10_000,
        _noise(100_000),
    ]
    if knows_texts_only(cell.client):
        contents = [content for content in contents if b"\0" not in content]
    await _round_trip(cell, [Outgoing(topic, content) for content in contents])


@scenario("properties")
async def properties(cell: Cell) -> None:
    """User properties, keys, tags and flag come back, also beyond ASCII."""
    topic = await cell.topic()
    sent = [
        Outgoing(topic, b"plain"),
        Outgoing(topic, b"tag", tags="TagA"),
        Outgoing(topic, b"keys", keys="order-1 order-2"),
        Outgoing(topic, b"flag", flag=7),
        Outgoing(topic, b"user", properties={"a": "1", "b": "two words", "c=d": "e:f;g,h"}),
        Outgoing(topic, b"unicode", properties={"größe": "über", "键": "值", "mail": "📨"}),
        Outgoing(topic, b"long", properties={"long": "x" * 10_000}),
        Outgoing(topic, b"all", "T-1_%|", "k", 1, {f"p{n}": str(n) for n in range(50)}),
    ]
    if knows_texts_only(cell.client):
        sent = [msgspec.structs.replace(message, flag=0) for message in sent]
    received = await _round_trip(cell, sent)
    for message in sent:
        seen = received[message.body]
        what = message.body.decode()
        expect_equal(f"{what}: topic", seen.topic, topic)
        expect_equal(f"{what}: tags", seen.tags, message.tags)
        # The Go client ends its keys with a blank.
        keys = ((seen.keys or "").split(), (message.keys or "").split())
        expect_equal(f"{what}: keys", *keys)
        expect_equal(f"{what}: flag", seen.flag, message.flag)
        user = {key: seen.properties.get(key) for key in message.properties}
        expect_equal(f"{what}: properties", user, message.properties)
        expect_equal(f"{what}: reconsume times", seen.reconsume_times, 0)
        expect(seen.born_timestamp_ms > 0, f"{what}: a birth time")
        expect(seen.store_timestamp_ms > 0, f"{what}: a store time")


@scenario("tags")
async def tags(cell: Cell) -> None:
    """A subscription to two tags gets these, not others, not their hash twins."""
    topic = await cell.topic()
    # "Aa" and "BB" have the same Java hash, so the broker lets "BB" through: the client must not.
    tagged = ["Aa", "BB", "C", "D", None]
    async with (
        cell.consumer(topic, tags="Aa || C") as some,
        cell.consumer(topic) as everything,
        cell.producer() as producer,
    ):
        for round_number in range(4):
            for tag in tagged:
                await producer.send(Outgoing(topic, f"{tag} {round_number}".encode(), tags=tag))
        await everything.receive(20)
        twins = trusts_tag_hashes(cell.client)
        received = await some.receive(12 if twins else 8)
        seen = sorted({str(message.tags) for message in received})
        expect_equal("tags seen", seen, ["Aa", "BB", "C"] if twins else ["Aa", "C"])
        expect_equal("messages seen", len(received), 12 if twins else 8)
        expect_equal("everything", len(set(everything.bodies)), 20)


@scenario("sql92")
async def sql92(cell: Cell) -> None:
    """A subscription by properties gets what its condition says, and none of the rest."""
    topic = await cell.topic()
    described = [
        {"a": str(number), "region": region}
        for number in range(10)
        for region in ("eu", "us", "asia")
    ]
    sent = [*described, {"a": "many", "region": "eu"}, {"region": "eu"}, {"name": "it's"}]
    wanted = [
        one
        for one in sent
        if (one.get("a", "") in ("4", "5", "6") and one["region"] != "asia") or "name" in one
    ]
    sql = "(a > 3 AND a <= 6 AND region IN ('eu', 'us')) OR name = 'it''s'"
    async with (
        cell.consumer(topic, sql=sql) as some,
        cell.consumer(topic) as everything,
        cell.producer() as producer,
    ):
        for number, properties in enumerate(sent):
            await producer.send(Outgoing(topic, b"%d" % number, properties=properties))
        await everything.receive(len(sent))
        received = await some.receive(len(wanted))
        expect_equal(
            "bodies", sorted(some.bodies), sorted(b"%d" % sent.index(one) for one in wanted)
        )
        expect_equal("messages", len(received), len(wanted))


@scenario("large-body")
async def large_body(cell: Cell) -> None:
    """Bodies of a megabyte and more, compressible or not, make the round trip."""
    topic = await cell.topic()
    contents = [_noise(MEBIBYTE), b"text " * 600_000, _noise(3 * MEBIBYTE)]
    await _round_trip(cell, [Outgoing(topic, content) for content in contents])


@scenario("over-large-body")
async def over_large_body(cell: Cell) -> None:
    """A body beyond the server's limit is refused with code 13, and the next send works."""
    topic = await cell.topic()
    async with (
        cell.consumer(topic) as consumer,
        cell.producer(max_message_bytes=2 * LIMIT_BYTES) as producer,
    ):
        try:
            await producer.send(Outgoing(topic, _noise(LIMIT_BYTES + 1)))
        except CommandRefused as refusal:
            expect_equal("response code", refusal.code, MESSAGE_ILLEGAL)
        else:
            expect(False, "a refusal")
        await producer.send(Outgoing(topic, b"small"))
        received = await consumer.receive(1)
        expect_equal("bodies", [message.body for message in received], [b"small"])
