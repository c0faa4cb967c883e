"""Clients open without a name server, look topics up side by side, and fail fast if asked to."""

# ruff: noqa: ANN401 - what is not called is of any type

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import lanemq.sdk
from lanemq.sdk import (
    BrokerUnreachable,
    ConcurrentListener,
    ConsumeFrom,
    LanemqError,
    Message,
    NoRoute,
    NotOpened,
    RequestTimedOut,
    WrongUse,
    aio,
    blocking,
    open_producer,
)
from lanemq.sdk.admin import open_admin
from lanemq.sdk.kv import open_kv_store
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode


async def ignore(messages: Any) -> Any: ...


LISTENER = ConcurrentListener(ignore)


async def test_a_push_consumer_opens_without_a_name_server_and_reads_when_it_is_there(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    got = trio.Event()

    async def handle(messages: Any) -> None:
        got.set()

    cluster.broker.put("T", 0, b"x")
    cluster.name_server_nodes[0].reachable = False
    async with push_consumer_of(
        cluster, ConcurrentListener(handle), consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        assert consumer.queues == ()
        await trio.sleep(10)
        cluster.name_server_nodes[0].reachable = True
        with trio.fail_after(60):
            await got.wait()


async def test_a_reader_subscribes_without_a_name_server(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.broker.put("T", 0, b"x")
    cluster.name_server_nodes[0].reachable = False
    async with lite_pull_consumer_of(cluster, consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        await consumer.subscribe("T")
        cluster.name_server_nodes[0].reachable = True
        assert [message.body for message in await consumer.poll(timeout_s=60)] == [b"x"]


async def test_who_wants_to_fail_fast_does(cluster: FakeCluster, autojump_clock: MockClock) -> None:
    subscriptions = {"Missing": "*"}
    with pytest.raises(NoRoute, match="require_route"):
        async with push_consumer_of(
            cluster, LISTENER, subscriptions=subscriptions, require_route=True
        ):
            pass
    async with lite_pull_consumer_of(cluster, require_route=True) as consumer:
        with pytest.raises(NoRoute):
            await consumer.subscribe("Missing")
    with pytest.raises(NoRoute):
        async with open_producer(
            "pg",
            name_servers=cluster.name_servers,
            topics=["Missing"],
            dial=cluster.dial,
            require_route=True,
        ):
            pass
    cluster.create_topic("T", 1)
    async with push_consumer_of(cluster, LISTENER, require_route=True) as push:
        assert push.queues
    cluster.name_server_nodes[0].reachable = False
    with pytest.raises((BrokerUnreachable, RequestTimedOut)):
        async with push_consumer_of(cluster, LISTENER, require_route=True):
            pass


async def test_topics_are_looked_up_side_by_side(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    """A hundred topics, at servers of which each answer takes 50 ms."""
    subscriptions = {f"T-{number}": "*" for number in range(100)}
    for topic in subscriptions:
        cluster.create_topic(topic, 1)
    for code in (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_CONSUMER_LIST_BY_GROUP):
        server = (
            cluster.broker
            if code != RequestCode.GET_ROUTEINFO_BY_TOPIC
            else cluster.name_server_nodes[0]
        )
        handler = server.handlers[code]

        async def late(frame: Any, peer: Any, handler: Any = handler) -> Any:
            await trio.sleep(0.05)
            return handler(frame, peer)

        del server.handlers[code]
        server.waiters[code] = late
    began_s = trio.current_time()
    async with push_consumer_of(cluster, LISTENER, subscriptions=subscriptions) as consumer:
        assert trio.current_time() - began_s < 2
        assert len([queue for queue in consumer.queues if queue.topic in subscriptions]) == 100


@pytest.mark.parametrize("what", ["send", "half", "request", "oneway"])
async def test_a_send_has_one_deadline_with_its_look_up(
    cluster: FakeCluster, autojump_clock: MockClock, what: str
) -> None:
    cluster.create_topic("T", 1)
    name_server = cluster.name_server_nodes[0]
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    handler = name_server.handlers.pop(code)

    async def late(frame: Any, peer: Any) -> Any:
        await trio.sleep(2.6)
        return handler(frame, peer)

    name_server.waiters[code] = late
    cluster.broker.mute(RequestCode.SEND_MESSAGE_V2, 100)
    cluster.broker.mute(RequestCode.HEART_BEAT, 100)
    message = Message(topic="T", body=b"x")
    async with producer_of(cluster, send_timeout_s=3, retries=2) as producer:
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "send": lambda: producer.send(message),
            "half": lambda: producer._send_half(message, None),
            "request": lambda: producer.request(message, timeout_s=3),
        }
        began_s = trio.current_time()
        if what == "oneway":
            await producer.send_oneway(message)
        else:
            with pytest.raises(LanemqError):
                await calls[what]()
        assert trio.current_time() - began_s <= 3.01


async def test_a_client_that_is_not_open_says_how_to_open_it() -> None:
    opened: list[Any] = [
        open_producer("g"),
        lanemq.sdk.open_push_consumer("g", subscriptions={"T": "*"}, listener=ignore),
        lanemq.sdk.open_lite_pull_consumer("g"),
        lanemq.sdk.open_transaction_producer("g", check=ignore),
        open_admin(name_servers="127.0.0.1:1"),
        open_kv_store(),
        aio.open_producer("g"),
        aio.open_lite_pull_consumer("g"),
    ]
    for client in opened:
        with pytest.raises(NotOpened, match="write `async with open_") as refused:
            await client.send(Message(topic="T", body=b"x"))
        assert isinstance(refused.value, WrongUse)
        assert not hasattr(client, "poll")
    client = blocking.open_producer("g")
    with pytest.raises(NotOpened, match=r"write `with open_.*\.start\(\)"):
        client.send(Message(topic="T", body=b"x"))
