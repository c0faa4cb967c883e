"""Mixed languages: one client reads the messages that another sends."""

from ..cells._cell import Cell
from ..cells._facts import hides_places, knows_texts_only
from ..cells._scenario import expect_equal, scenario
from ..clients._messages import Outgoing

PARTNER = {"python": "java-4.9.7"}
"""The partner of a client; everybody else's is Python."""


async def _cross(sender: Cell, receiver: Cell) -> None:
    topic = await sender.topic()
    limited = knows_texts_only(sender.client) or knows_texts_only(receiver.client)
    flag = 0 if limited else 3
    sent = [
        Outgoing(topic, b"plain"),
        Outgoing(topic, "grüße 消息".encode(), "TagA", "k1 k2", flag, {"a": "1", "größe": "über"}),
        Outgoing(topic, b"compressed " * 2000, properties={"long": "yes"}),
        Outgoing(topic, bytes(range(int(limited), 256)), tags="TagB"),
    ]
    names = {name for message in sent for name in message.properties}
    async with (
        receiver.consumer(topic, properties=sorted(names)) as consumer,
        sender.producer() as producer,
    ):
        answers = [await producer.send(message) for message in sent]
        received = {message.body: message for message in await consumer.receive(len(sent))}
    expect_equal("messages", len(received), len(sent))
    for message, answer in zip(sent, answers, strict=True):
        seen = received[message.body]
        queue_id = seen.queue_id if hides_places(sender.client) else answer.queue_id
        place = (queue_id, answer.queue_offset)
        expect_equal("place", (seen.queue_id, seen.queue_offset), place)
        expect_equal("tags", seen.tags, message.tags)
        expect_equal("keys", (seen.keys or "").split(), (message.keys or "").split())
        expect_equal("flag", seen.flag, message.flag)
        user = {key: seen.properties.get(key) for key in message.properties}
        expect_equal("properties", user, message.properties)


@scenario("sent-here-read-there")
async def sent_here_read_there(cell: Cell) -> None:
    """A client in another language (Python; for Python, Java) reads messages of this one."""
    await _cross(cell, await cell.partner(PARTNER.get(cell.client, "python")))


@scenario("sent-there-read-here")
async def sent_there_read_here(cell: Cell) -> None:
    """This client reads messages of a client in another language (Python; for Python, Java)."""
    await _cross(await cell.partner(PARTNER.get(cell.client, "python")), cell)
