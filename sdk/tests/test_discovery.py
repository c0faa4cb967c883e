"""Name servers are found by what the caller, the environment or an HTTP endpoint says."""

from contextlib import AbstractAsyncContextManager, suppress

import h11
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair

from lanemq.sdk import (
    BadAnswer,
    BrokerUnreachable,
    ClientOptions,
    InvalidName,
    LanemqError,
    LitePullConsumer,
    LitePullOptions,
    RequestTimedOut,
    open_lite_pull_consumer,
)
from lanemq.sdk.net._discovery import (
    Endpoint,
    fetch_name_servers,
    find_name_servers,
    parse_addresses,
    parse_endpoint,
)
from lanemq.testkit.sdk.cluster import FakeCluster, clock_ms


class Web:
    """An HTTP server in memory at ``lists:8080``; everything else is the cluster's network."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.status = 200
        self.body = cluster.name_servers.encode()
        self.silent = False
        self.asked: list[str] = []

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        if host != "lists":
            return await self.cluster.dial(host, port)
        if port != 8080:
            raise ConnectionRefusedError("nobody listens")
        ours, theirs = memory_stream_pair()
        self.cluster.nursery.start_soon(self._serve, theirs)
        return ours

    async def _serve(self, stream: trio.abc.Stream) -> None:
        connection = h11.Connection(h11.SERVER)
        while not isinstance(event := connection.next_event(), h11.Request):
            connection.receive_data(bytes(await stream.receive_some()))
        self.asked.append(event.target.decode())
        assert dict(event.headers)[b"host"] == b"lists:8080"
        if self.silent:
            return
        answer = h11.Response(status_code=self.status, headers=[("Connection", "close")])
        for part in (answer, h11.Data(data=self.body), h11.EndOfMessage()):
            await stream.send_all(connection.send(part) or b"")
        await stream.aclose()


@pytest.fixture
def web(cluster: FakeCluster) -> Web:
    return Web(cluster)


ENDPOINT = Endpoint("lists", 8080, "/rocketmq/nsaddr")


def reader(web: Web, **options: object) -> AbstractAsyncContextManager[LitePullConsumer]:
    return open_lite_pull_consumer(
        "lg",
        name_servers="http://lists:8080",
        options=LitePullOptions(client=ClientOptions(**options)),  # type: ignore[arg-type]
        dial=web.dial,
        clock_ms=clock_ms,
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a:1;b:2", ("a:1", "b:2")),
        (" a:1 , b:2;;a:1", ("a:1", "b:2")),
        (["a:1", " b:2 "], ("a:1", "b:2")),
        ("http://lists:8080", ENDPOINT),
        ("http://lists:8080/", ENDPOINT),
        (" http://lists/here ", Endpoint("lists", 80, "/here")),
        ("http://[::1]:81/x?y=1", Endpoint("::1", 81, "/x?y=1")),
    ],
)
def test_what_the_caller_gives_is_understood(given: str, expected: object) -> None:
    assert find_name_servers(given, environment={}) == expected


def test_the_environment_is_looked_at_where_nothing_is_given() -> None:
    assert find_name_servers(None, environment={"NAMESRV_ADDR": "a:1;b:2"}) == ("a:1", "b:2")
    assert find_name_servers(None, environment={"NAMESRV_ADDR": "http://lists:8080"}) == ENDPOINT
    assert find_name_servers("c:3", environment={"NAMESRV_ADDR": "a:1"}) == ("c:3",)
    for environment in ({}, {"NAMESRV_ADDR": " "}):
        with pytest.raises(InvalidName, match="set NAMESRV_ADDR"):
            find_name_servers(None, environment=environment)


def test_a_unit_has_a_path_of_its_own() -> None:
    endpoint = parse_endpoint("http://lists:8080/ns", "east")
    assert str(endpoint) == "http://lists:8080/ns-east?nofix=1"


@pytest.mark.parametrize(
    "bad", ["", ";", "a", "a:x", ["a:1", "b"], [], "a:99999", "a:" + "9" * 5000]
)
def test_what_is_no_address_is_refused(bad: str | list[str]) -> None:
    with pytest.raises(InvalidName, match=r"name server|is not an address"):
        find_name_servers(bad, environment={})


@pytest.mark.parametrize("bad", ["https://lists", "http://", "http://a:x", "http://a#b", "ftp://a"])
def test_what_is_no_endpoint_is_refused(bad: str) -> None:
    with pytest.raises(InvalidName, match="write http://host:port/path"):
        find_name_servers(bad)


@given(st.text(max_size=30))
def test_any_text_is_understood_or_refused(text: str) -> None:
    with suppress(InvalidName):
        assert find_name_servers(text)


@pytest.mark.parametrize("body", [b"a:1;b:2", b" a:1;b:2 \r\nmore", b"\na:1;b:2\n"])
async def test_the_first_line_of_the_answer_counts(
    web: Web, autojump_clock: MockClock, body: bytes
) -> None:
    web.body = body
    assert await fetch_name_servers(ENDPOINT, web.dial) == ("a:1", "b:2")
    assert web.asked == ["/rocketmq/nsaddr"]


@pytest.mark.parametrize(
    ("status", "body"), [(404, b"a:1"), (200, b""), (200, b"<html>"), (200, b"a" * 70_000)]
)
async def test_an_answer_without_addresses_is_a_bad_one(
    web: Web, autojump_clock: MockClock, status: int, body: bytes
) -> None:
    web.status, web.body = status, body
    with pytest.raises(BadAnswer, match="http://lists:8080/rocketmq/nsaddr"):
        await fetch_name_servers(ENDPOINT, web.dial)


async def test_an_endpoint_that_cannot_be_asked_is_named(
    web: Web, autojump_clock: MockClock
) -> None:
    with pytest.raises(BrokerUnreachable, match="http://lists:81/"):
        await fetch_name_servers(Endpoint("lists", 81, "/"), web.dial)
    web.silent = True
    with pytest.raises(RequestTimedOut, match="http://lists:8080/rocketmq/nsaddr"):
        await fetch_name_servers(ENDPOINT, web.dial)
    assert trio.current_time() == pytest.approx(3)


async def test_a_client_asks_when_it_first_needs_to_and_then_every_two_minutes(
    cluster: FakeCluster, web: Web, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    async with reader(web, unit_name="east") as consumer:
        await trio.sleep(100)
        assert web.asked == []
        await consumer.subscribe("T")
        assert web.asked == ["/rocketmq/nsaddr-east?nofix=1"]
        await trio.sleep(300)
        assert len(web.asked) == 4


async def test_a_client_follows_the_list(
    cluster: FakeCluster, web: Web, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    first = cluster.name_server_nodes[0]
    async with reader(web) as consumer:
        await consumer.subscribe("T")
        second = cluster.add_name_server()
        web.body = second.address.encode()
        await trio.sleep(160)
        asked = len(first.requests)
        assert second.requests
        first.reachable = False
        await trio.sleep(100)
        assert len(first.requests) == asked


async def test_an_endpoint_that_fails_later_changes_nothing(
    cluster: FakeCluster, web: Web, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("T", 1)
    async with reader(web) as consumer:
        await consumer.subscribe("T")
        web.status = 500
        await trio.sleep(130)
        assert await consumer.queues_of("T")
    assert "cannot look for the name servers" in caplog.text


async def test_an_endpoint_that_fails_at_first_is_the_callers_to_hear_of(
    cluster: FakeCluster, web: Web, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    web.status = 500
    async with reader(web) as consumer:
        with pytest.raises(LanemqError, match="status 500"):
            await consumer.queues_of("T")
        web.status = 200
        assert await consumer.queues_of("T")


async def test_the_environment_is_enough(
    cluster: FakeCluster, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("T", 1)
    monkeypatch.setenv("NAMESRV_ADDR", cluster.name_servers)
    async with open_lite_pull_consumer("lg", dial=cluster.dial, clock_ms=clock_ms) as consumer:
        assert await consumer.queues_of("T")


def test_addresses_keep_their_order_and_come_once() -> None:
    assert parse_addresses("b:2;a:1;b:2") == ("b:2", "a:1")
