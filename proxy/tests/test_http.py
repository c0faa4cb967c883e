"""The HTTP port: its pages, and what bad input, slow peers and crowds may cost."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from time import thread_time

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from lanemq.proxy.broker.status._families import BrokerFamilies
from lanemq.proxy.broker.status._snapshot import StatusReader
from lanemq.proxy.nameserver import NameServerFamilies, Registration, RouteTable
from lanemq.proxy.net.http._exposition import FAMILY_SAMPLES_MAX, Family, Sample, render
from lanemq.proxy.net.http._pages import FRESH_S, Pages
from lanemq.proxy.net.http._server import (
    CONNECTIONS_MAX,
    READ_S,
    REQUESTS_MAX,
    HttpServer,
    Page,
)
from lanemq.proxy.sessions.state._stages import SHADOW_PREFIX
from lanemq.testkit.calls import calls_of_steps
from lanemq.testkit.proxy.brokers import Client, TestBroker
from lanemq.testkit.proxy.keys import keys_of, result
from lanemq.testkit.proxy.processes import server_process
from lanemq.testkit.reading_time import slowness
from lanemq.wire import RequestCode
from lanemq.wire.bodies import DataVersion, TopicConfig
from lanemq.wire.kv import Action, LeaseTerms, OpType, Step, encode_terms

ONE = Family("lanemq_one_total", "A counter.", ("topic",), [(("T",), 3)])


def pages(reason: str = "") -> HttpServer:
    return HttpServer(Pages(lambda: [ONE], lambda: reason).routes())


@asynccontextmanager
async def connected(server: HttpServer) -> AsyncIterator[trio.abc.Stream]:
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_stream, theirs)
        yield ours
        nursery.cancel_scope.cancel()


async def everything(stream: trio.abc.Stream) -> bytes:
    data = b""
    while part := bytes(await stream.receive_some()):
        data += part
    return data


async def asked(server: HttpServer, request: bytes) -> bytes:
    """Return all that comes until the server closes the connection."""
    async with connected(server) as stream:
        await stream.send_all(request)
        with trio.fail_after(60):
            return await everything(stream)


def get(path: str, *more: str, method: str = "GET") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *more, "", ""]
    return "\r\n".join(lines).encode()


async def test_health_readiness_and_metrics() -> None:
    answer = await asked(pages(), get("/healthz"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nok\n")
    assert (await asked(pages(), get("/readyz"))).endswith(b"ready\n")
    answer = await asked(pages("the disk is full"), get("/readyz"))
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert answer.endswith(b"the disk is full\n")
    answer = await asked(pages(), get("/metrics?name=x"))
    assert b"text/plain; version=0.0.4" in answer
    assert answer.endswith(b'lanemq_one_total{topic="T"} 3.0\n')


async def test_only_get_and_head_are_answered() -> None:
    for method in ("POST", "PUT", "DELETE", "TRACE", "OPTIONS", "x"):
        answer = await asked(pages(), get("/healthz", method=method))
        assert answer.startswith(b"HTTP/1.1 405 ")
        assert b"allow: get, head" in answer.lower()
    answer = await asked(pages(), get("/healthz", method="HEAD"))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"content-length: 3\r\n" in answer.lower()
    assert answer.endswith(b"\r\n\r\n")
    answer = await asked(pages(), get("/nowhere"))
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert answer.endswith(b"there are: /healthz /metrics /readyz\n")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:5557", 200),
        ("10.1.2.3", 200),
        ("[::1]:5557", 200),
        ("localhost:5557", 200),
        ("Metrics.Internal", 200),
        ("metrics.internal.:80", 200),
        ("attacker.example", 421),
        ("127.0.0.1.attacker.example:5557", 421),
        ("internal", 421),
        ("", 421),
    ],
)
async def test_names_that_nobody_gave_the_server_get_no_page(host: str, status: int) -> None:
    """A site in a browser may let its own name lead here: then it could read everything."""
    server = HttpServer(Pages(lambda: [ONE]).routes(), ["metrics.internal"])
    request = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    answer = await asked(server, request.encode())
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert (b"lanemq_one" in answer) == (status == 200)
    assert (b"--http-name NAME" in answer) == (status == 421)


@pytest.mark.parametrize("header", ["Content-Length: 5", "Transfer-Encoding: chunked"])
async def test_a_body_is_refused_and_not_waited_for(header: str) -> None:
    answer = await asked(pages(), get("/healthz", header))
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_several_requests_on_one_connection_and_pipelined() -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = await asked(pages(), request * 3 + get("/readyz"))
    assert answer.count(b"HTTP/1.1 200 OK") == 4


async def test_requests_on_one_connection_are_bounded() -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = await asked(pages(), request * (REQUESTS_MAX + 5))
    assert answer.count(b"HTTP/1.1 200 OK") == REQUESTS_MAX


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",  # without a host
        b"GET /\xff\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /" + b"a" * 100_000,
        b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 50_000,
        b"\r\n" * 50_000,
    ],
)
async def test_garbage_gets_an_error_and_the_end(garbage: bytes) -> None:
    server = pages()
    async with connected(server) as stream, trio.open_nursery() as nursery:

        async def send() -> None:
            with suppress(trio.BrokenResourceError):  # it has closed the connection already
                await stream.send_all(garbage)

        nursery.start_soon(send)
        with trio.fail_after(60):
            answer = await everything(stream)
        nursery.cancel_scope.cancel()
    assert answer[:10] in (b"HTTP/1.1 4", b"HTTP/1.1 5", b"")
    assert (await asked(server, get("/healthz"))).startswith(b"HTTP/1.1 200 ")


@settings(deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_harm_nobody(parts: list[bytes]) -> None:
    async def main() -> None:
        server = pages()
        async with connected(server) as stream:
            for part in parts:
                try:
                    await stream.send_all(part)
                except trio.BrokenResourceError:
                    break
            assert isinstance(stream, trio.StapledStream)
            await stream.send_stream.aclose()
            with trio.fail_after(60):
                await everything(stream)
        assert (await asked(server, get("/healthz"))).startswith(b"HTTP/1.1 200 ")

    trio.run(main)


async def test_a_slow_request_is_given_up(autojump_clock: MockClock) -> None:
    begun = trio.current_time()
    async with connected(pages()) as stream, trio.open_nursery() as nursery:

        async def drip() -> None:
            try:
                while True:
                    await stream.send_all(b"G")
                    await trio.sleep(1)
            except trio.BrokenResourceError:
                pass

        nursery.start_soon(drip)
        assert await everything(stream) == b""
        nursery.cancel_scope.cancel()
    assert trio.current_time() - begun <= READ_S + 1


async def test_connections_are_bounded(autojump_clock: MockClock) -> None:
    server = pages()
    async with trio.open_nursery() as nursery:
        streams = []
        for _ in range(CONNECTIONS_MAX):
            ours, theirs = memory_stream_pair()
            nursery.start_soon(server.serve_stream, theirs)
            streams.append(ours)
        await trio.testing.wait_all_tasks_blocked()
        assert await asked(server, get("/healthz")) == b""
        await trio.sleep(READ_S + 1)  # those that say nothing have gone
        assert (await asked(server, get("/healthz"))).startswith(b"HTTP/1.1 200 ")
        nursery.cancel_scope.cancel()


async def test_one_address_leaves_places_to_others() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(pages().serve, [listener])
        held = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(CONNECTIONS_MAX)]
        ended = [await one.receive_some() for one in held[CONNECTIONS_MAX // 2 :]]
        assert ended == [b""] * (CONNECTIONS_MAX // 2)
        probe = await trio.open_tcp_stream("127.0.0.1", port, local_address="127.0.0.2")
        await probe.send_all(get("/healthz"))
        assert (await everything(probe)).startswith(b"HTTP/1.1 200 ")
        for stream in (probe, *held):
            await stream.aclose()
        nursery.cancel_scope.cancel()


async def test_a_metric_of_very_many_samples_is_cut_and_says_so() -> None:
    taken = 0

    def samples() -> Iterator[Sample]:
        nonlocal taken
        for number in range(10 * FAMILY_SAMPLES_MAX):
            taken += 1
            yield (str(number),), 1

    long = Family("lanemq_long", "H.", ("topic",), samples())
    parts = await render([long, ONE])
    assert taken == FAMILY_SAMPLES_MAX
    assert max(map(len, parts)) < 64 << 10
    text = b"".join(parts)
    assert text.count(b"lanemq_long{") == FAMILY_SAMPLES_MAX
    assert text.endswith(b'lanemq_metrics_left_out{metric="lanemq_long"} 1.0\n')
    assert ONE.name.encode() in text
    assert b"left_out" not in b"".join(await render([ONE]))

    server = HttpServer({"/long": long_page})
    answer = await asked(server, get("/long"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Content-Length: 300000" in head
    assert body == b"a" * 100_000 + b"b" * 200_000
    head, _, body = (await asked(server, get("/long", method="HEAD"))).partition(b"\r\n\r\n")
    assert (b"Content-Length: 300000" in head, body) == (True, b"")


async def long_page() -> Page:
    return Page(HTTPStatus.OK, [b"a" * 100_000, b"b" * 200_000])


async def test_many_scrapes_cost_as_much_as_one(autojump_clock: MockClock) -> None:
    made = 0

    def families() -> list[Family]:
        nonlocal made
        made += 1
        return [ONE]

    server = HttpServer(Pages(families).routes())
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(asked, server, get("/metrics"))
    assert made == 1
    await trio.sleep(FRESH_S)
    await asked(server, get("/metrics"))
    assert made == 2


async def test_hostile_labels_are_escaped() -> None:
    hostile = 'a"b\\c\nlanemq_forged 1\n'
    text = b"".join(
        await render([Family("lanemq_x", "H.", ("topic",), [((hostile,), 1)])])
    ).decode()
    (family,) = text_string_to_metric_families(text)
    assert [sample.labels for sample in family.samples] == [{"topic": hostile}]


def families_of(broker: TestBroker) -> BrokerFamilies:
    context = broker.context
    return BrokerFamilies(broker=context, keys=lambda: (), status=StatusReader.of(context))


async def numbers(broker: TestBroker) -> dict[tuple[str, str], float]:
    """Return (sample's name, its topic and group) -> value."""
    text = b"".join(await render(families_of(broker).all())).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            place = [sample.labels.get(name, "") for name in ("topic", "consumer_group", "group")]
            found[sample.name, " ".join(filter(None, place))] = sample.value
    return found


async def test_a_broker_s_numbers(broker: TestBroker, client: Client) -> None:
    broker.context.topics.put(TopicConfig("T", 1, 1))
    for _ in range(5):
        await client.send()
    await client.heartbeat(consumers={"g": {"T": "*"}}, producers=("p",))
    await client.pull(offset=0, consumer_group="g", max_msg_nums=3)
    await client.pull(offset=3, consumer_group="g", max_msg_nums=1)
    broker.context.store.tables.consumer_offsets.put("g", "T", 0, 1)
    found = await numbers(broker)
    assert found["rocketmq_messages_in_total", "T"] == 5
    assert found["rocketmq_throughput_in_total", "T"] > 5
    assert found["rocketmq_producer_offset", "T"] == 5
    assert found["rocketmq_messages_out_total", "T g"] == 4
    assert found["rocketmq_consumer_lag_messages", "T g"] == 4
    assert found["rocketmq_consumer_inflight_messages", "T g"] == 2
    assert found["rocketmq_consumer_offset", "T g"] == 1
    assert found["rocketmq_consumer_connections", "g"] == 1
    assert found["rocketmq_producer_connections", ""] == 1
    assert found["rocketmq_broker_permission", ""] == 6
    assert found["lanemq_peer_memory_limit_bytes", ""] > 0
    assert ("lanemq_loop_longest_turn_seconds", "") in found
    assert ("lanemq_logical_segments", "") in found


async def test_the_numbers_of_keys(tmp_path: Path) -> None:
    now_ms = 1_000_000
    async with keys_of(tmp_path, now_ms=lambda: now_ms) as (keys, broker):
        await keys.put(b"k", b"v")
        await keys.put(b"short", b"v", 50)
        for lease, ttl_ms in ((1, 50), (2, 60_000)):
            terms = encode_terms(LeaseTerms(lease, ttl_ms))
            assert result(await keys.ask(RequestCode.KV_WRITE, terms, opType=OpType.LEASE)).done
            step = Step(b"of %d" % lease, Action.PUT, b"v", ttl_ms=-lease)
            assert result(await keys.write(OpType.PUT, step)).done
        now_ms += 60
        await broker.broker.clock_moved()
        await wait_all_tasks_blocked()
        requests = broker.broker._kv
        assert requests is not None
        families = BrokerFamilies(
            broker=broker.context,
            keys=requests.statuses,
            status=StatusReader.of(broker.context),
        )
        text = b"".join(await render(families.all())).decode()
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("namespace") == "default"
    }
    assert found == {
        "lanemq_kv_entries": 2,
        "lanemq_kv_bytes": len(b"kv" + b"of 2v"),
        "lanemq_kv_position": 7,
        "lanemq_kv_lag": 0,
        "lanemq_kv_history_changes": 6,
        "lanemq_kv_watchers": 0,
        "lanemq_kv_leases": 1,
        "lanemq_kv_expired_total": 3,
    }


async def test_ten_thousand_topics_are_scraped_in_short_turns(broker: TestBroker) -> None:
    context = broker.context
    for number in range(10_000):
        name = f"topic-{number:05}"
        context.topics.put(TopicConfig(name, 1, 1))
        context.statistics.put(name, 1, 100)
    longest = 0.0
    done = trio.Event()

    async def watch() -> None:
        nonlocal longest
        while not done.is_set():
            begun = thread_time()
            await trio.lowlevel.checkpoint()
            longest = max(longest, thread_time() - begun)

    best = 1e9
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        for _ in range(5):  # the quickest of several: other processes run, too
            longest_before, longest = longest, 0.0
            begun = thread_time()
            text = b"".join(await render(families_of(broker).all()))
            took = thread_time() - begun
            best, longest = (took, longest) if took < best else (best, longest_before)
        done.set()
    assert text.count(b"rocketmq_messages_in_total{") == 10_000
    allowed = slowness()
    assert best <= 0.2 * allowed
    assert longest <= 0.05 * allowed


async def test_a_scrape_takes_short_turns_where_tables_are_long_and_samples_few(
    broker: TestBroker,
) -> None:
    """Entries without a sample, and queues that add up to one, are looked at all the same."""
    context, count = broker.context, 3000
    for number in range(count):
        context.topics.put(TopicConfig(f"topic-{number:05}", 1, 1))
        context.groups.find(f"group-{number}")
    for number in range(4):
        wide = f"wide-{number}"
        context.topics.put(TopicConfig(wide, 1024, 1024))
        for queue in range(1024):
            context.store.tables.consumer_offsets.put("group-1", wide, queue, 0)
            context.store.tables.consumer_offsets.put(f"{SHADOW_PREFIX}group-1", wide, queue, 1)
    with calls_of_steps() as steps:
        text = b"".join(await render(families_of(broker).all()))
    assert text.count(b"rocketmq_consumer_lag_messages{") == 4
    assert b"rocketmq_messages_in_total{" not in text
    assert steps.most <= 20_000  # some milliseconds

    routes = RouteTable()
    said = Registration(
        cluster="c",
        broker_name="b",
        broker_id=0,
        address="h:1",
        data_version=DataVersion(1, 1),
        topics=[TopicConfig(f"T{number}", 1, 1) for number in range(10_000)],
    )
    routes.register(said, now_s=0.0, connection=1)
    with calls_of_steps() as steps:
        text = b"".join(
            await render(NameServerFamilies(budget=broker.context.budget, routes=routes).all())
        )
    assert b"lanemq_nameserver_topic_number 10000.0" in text
    assert b"lanemq_nameserver_broker_number 1.0" in text
    assert steps.most <= 6000


@pytest.mark.parametrize("command", ["serve", "namesrv", "broker"])
async def test_the_commands_open_the_port(command: str, tmp_path: Path) -> None:
    arguments = {
        "serve": ["serve", "--port", "0"],
        "namesrv": ["namesrv", "--port", "0", "--http-port", "0"],
        "broker": ["broker", "-n", "", "--port", "0", "--http-port", "0", "--host", "127.0.0.1"],
    }[command]
    async with server_process(arguments, directory=tmp_path) as server:
        address = server.address("http")
        assert address.host == "127.0.0.1"

        def ask(path: str) -> bytes:
            with socket.create_connection((address.host, address.port), 60) as opened:
                opened.sendall(get(path))
                return opened.makefile("rb").read()

        assert (await trio.to_thread.run_sync(ask, "/readyz")).endswith(b"ready\n")
        text = (await trio.to_thread.run_sync(ask, "/metrics")).decode()
        names = {"serve", "namesrv"} & {command} and {"lanemq_nameserver_topic_number"}
        names = (names or set()) | ({"rocketmq_topic_number"} if command != "namesrv" else set())
        for name in names:
            assert f"\n{name}" in text
        assert await server.stop() == 0


async def test_without_the_option_a_broker_has_no_such_port(tmp_path: Path) -> None:
    arguments = ["broker", "-n", "", "--port", "0", "--host", "127.0.0.1"]
    async with server_process(arguments, directory=tmp_path) as server:
        assert "http" not in server.facts
        assert json.dumps(server.facts)
