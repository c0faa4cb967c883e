"""A web service on asyncio that takes orders, and works on them in the background.

pip install starlette uvicorn
lanemq serve                                      # in another terminal
NAMESRV_ADDR=127.0.0.1:9876 uvicorn asyncio_web:app --app-dir examples
curl -d '3 umbrellas' localhost:8000/orders; curl localhost:8000/done

Run as a program it tries itself out; that needs httpx. It asks 127.0.0.1:9876, or asyncio_web.py
HOST:PORT of a name server.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from lanemq.sdk.aio import (
    ConcurrentListener,
    ConsumeFrom,
    Message,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)

TOPIC = "WebOrders"


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Clients live as long as the service; they find name servers in ``NAMESRV_ADDR``."""
    app.state.done = []

    async def work(messages: Sequence[ReceivedMessage]) -> None:  # a task of the same event loop
        for message in messages:
            await asyncio.sleep(0.05)
            app.state.done.append(message.body.decode())

    async with open_producer("web-producer") as producer:
        await producer.send(Message(topic=TOPIC, body=b"the first order makes the topic"))
        async with open_push_consumer(
            "web-workers",
            subscriptions={TOPIC: "*"},
            listener=ConcurrentListener(work, concurrency=8),
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ):
            app.state.producer = producer
            yield


async def order(request: Request) -> JSONResponse:
    """Accept an order: it is safe when the answer leaves."""
    message = Message(topic=TOPIC, body=await request.body())
    result = await request.app.state.producer.send(message)
    return JSONResponse({"id": result.message_id}, status_code=202)


async def done(request: Request) -> JSONResponse:
    """The orders worked on so far."""
    return JSONResponse(request.app.state.done)


app = Starlette(
    routes=[Route("/orders", order, methods=["POST"]), Route("/done", done)], lifespan=lifespan
)


async def try_out() -> None:
    """Be the web server and its users."""
    import httpx

    transport = httpx.ASGITransport(app)
    async with (
        lifespan(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as users,
    ):
        orders = [f"{number} umbrellas" for number in range(10)]
        answers = await asyncio.gather(*(users.post("/orders", content=text) for text in orders))
        print(*(answer.status_code for answer in answers))
        async with asyncio.timeout(60):
            finished: list[str] = []
            while not set(orders) <= set(finished):
                await asyncio.sleep(0.1)
                finished = (await users.get("/done")).json()
    print("all ten orders are done")


if __name__ == "__main__":
    os.environ["NAMESRV_ADDR"] = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
    asyncio.run(try_out())
