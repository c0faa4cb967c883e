"""Requests: messages that are replied to."""

from ..cells._cell import Cell
from ..cells._scenario import expect, expect_equal, scenario
from ..clients._messages import Outgoing
from .mixing import PARTNER

REPLY_S = 50.0


async def _ask(asking: Cell, replying: Cell) -> None:
    topic = await asking.topic()
    async with replying.replier(topic), asking.producer() as producer:
        for body in (b"first", b"second", b"long " * 4000):
            request = Outgoing(topic, body, tags="TagA", properties={"colour": "red"})
            reply = await producer.request(request, timeout_s=REPLY_S)
            expect_equal("reply", reply.body, body.upper())
            for name in ("CORRELATION_ID", "PUSH_REPLY_TIME", "REPLY_TO_CLIENT"):
                expect(bool(reply.properties.get(name)), f"a reply with the property {name}")


@scenario("request-reply")
async def request_reply(cell: Cell) -> None:
    """A request is replied to, and the reply reaches the producer that asked."""
    await _ask(cell, cell)


@scenario("asked-here-replied-there")
async def asked_here_replied_there(cell: Cell) -> None:
    """A client in another language (Python; for Python, Java) replies to requests of this one."""
    await _ask(cell, await cell.partner(PARTNER.get(cell.client, "python")))


@scenario("asked-there-replied-here")
async def asked_there_replied_here(cell: Cell) -> None:
    """This client replies to requests of one in another language (Python; for Python, Java)."""
    await _ask(await cell.partner(PARTNER.get(cell.client, "python")), cell)
