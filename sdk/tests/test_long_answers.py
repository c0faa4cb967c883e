"""Answers that are longer than any to their request are errors, and nobody reads them.

What is counted are the bytes of JSON that are read: 16 MiB hold a process for half a second, in
whichever thread.
"""

import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import pytest

from lanemq.sdk import BadAnswer, open_remoting_client
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.testkit.sdk.clients import lite_pull_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, Peer
from lanemq.wire import RemoteProtocolError, RequestCode, fastjson
from lanemq.wire.bodies import TopicList
from lanemq.wire.frame import Frame, request
from lanemq.wire.requests import REQUESTS, AnswerSize, RequestSpec, longest_answer

LIMITED: Final = [spec for spec in REQUESTS.values() if spec.answer_size is not AnswerSize.ALL]
HEADER_BYTES: Final = 64 << 10


@pytest.fixture
def read_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of all JSON that is read in the thread of the test."""
    seen, loads, loop = list[int](), fastjson.loads, threading.get_ident()

    def noted(data: bytes, *, max_bytes: int = 16 << 20, max_depth: int = 100) -> object:
        if threading.get_ident() == loop:
            seen.append(len(data))
        return loads(data, max_bytes=max_bytes, max_depth=max_depth)

    monkeypatch.setattr(fastjson, "loads", noted)
    return seen


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of all JSON that is read."""
    seen, loads = list[int](), fastjson.loads

    def noted(data: bytes, *, max_bytes: int = 16 << 20, max_depth: int = 100) -> object:
        seen.append(len(data))
        return loads(data, max_bytes=max_bytes, max_depth=max_depth)

    monkeypatch.setattr(fastjson, "loads", noted)
    return seen


def padded(body: bytes, size_bytes: int) -> bytes:
    """Return JSON that means the same, and takes as long to read as any."""
    numbers = b",".join([b"1"] * ((size_bytes - len(body) - 20) // 2))
    padding = b'{"more":[' + numbers + b"]," + body[1:]
    return padding + b" " * (size_bytes - len(padding))


def test_lists_of_all_are_as_long_as_frames_and_what_one_asks_for_often_is_not() -> None:
    for code in REQUESTS:
        name = RequestCode(code).name
        if name.startswith(("GET_ALL", "KV_", "GET_ROUTEINFO")) or "LIST_FROM" in name:
            assert longest_answer(code) == 16 << 20, name
    often = {
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: 4 << 20,
        RequestCode.LOCK_BATCH_MQ: 4 << 20,
        RequestCode.HEART_BEAT: 1 << 20,
        RequestCode.SEND_MESSAGE_V2: 1 << 20,
    }
    assert {code: longest_answer(code) for code in often} == often
    assert longest_answer(99_999) == 16 << 20


@pytest.mark.parametrize("spec", LIMITED, ids=lambda spec: spec.code.name)
async def test_an_answer_of_more_than_its_request_may_have_is_an_error(
    cluster: FakeCluster, spec: RequestSpec
) -> None:
    most = spec.answer_size.value

    def long(frame: Frame, peer: Peer) -> Frame:
        return frame.reply(body=bytes(most + int(frame.fields["more"])))

    cluster.broker.handlers[spec.code] = long
    async with open_remoting_client(dial=cluster.dial) as client:
        address = cluster.broker.address
        with pytest.raises(BadAnswer) as caught:
            await client.call(address, request(spec.code, {"more": "1"}))
        answer = await client.call(address, request(spec.code, {"more": "0"}))
    assert len(answer.body) == most
    assert str(caught.value) == (
        f"{address}: cannot understand the answer to {spec.code.name} ({spec.code:d}): its body has"
        f" {most + 1} bytes, at most {most} are read"
    )


async def test_what_is_too_long_about_one_topic_is_not_read(
    cluster: FakeCluster, read: list[int]
) -> None:
    code, address = RequestCode.GET_TOPIC_STATS_INFO, cluster.broker.address
    body = padded(b'{"offsetTable":{}}', 5 << 20)
    cluster.broker.handlers[code] = lambda frame, peer: frame.reply(body=body)
    async with open_admin(name_servers=cluster.name_servers, dial=cluster.dial) as admin:
        with pytest.raises(BadAnswer, match=r"GET_TOPIC_STATS_INFO .* 5242880 bytes"):
            await admin.topic_offsets(address, "T")
    assert max(read, default=0) < 1 << 20


async def test_a_route_is_read_however_many_segments_its_queues_have(
    cluster: FakeCluster, read: list[int], read_on_the_loop: list[int]
) -> None:
    cluster.create_topic("T", queues=1)
    handlers = cluster.name_server_nodes[0].handlers
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    route = handlers[code]

    def long(frame: Frame, peer: Peer) -> Frame:
        reply = route(frame, peer)
        assert reply is not None
        return reply.reply(body=b'{"more":"' + bytes([120]) * (5 << 20) + b'",' + reply.body[1:])

    handlers[code] = long
    async with (
        lite_pull_consumer_of(cluster) as consumer,
        open_admin(name_servers=cluster.name_servers, dial=cluster.dial) as admin,
    ):
        assert [queue.queue_id for queue in await consumer.queues_of("T")] == [0]
        assert len((await admin.route("T")).queue_datas) == 1
    assert max(read) > 5 << 20
    assert max(read_on_the_loop, default=0) < 1 << 20


async def test_a_list_of_all_topics_is_read_however_long_it_is(
    cluster: FakeCluster, read: list[int]
) -> None:
    names = tuple(f"a-topic-of-{number:06}-{'x' * 100}" for number in range(50_000))
    body = TopicList(names).encode()
    assert AnswerSize.WIDE.value < len(body) < AnswerSize.ALL.value - HEADER_BYTES
    cluster.name_server_nodes[0].handlers[RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER] = (
        lambda frame, peer: frame.reply(body=body)
    )
    async with open_admin(name_servers=cluster.name_servers, dial=cluster.dial) as admin:
        assert await admin.topics() == list(names)
    assert len(body) in read


Ask = Callable[[AdminClient, str], Awaitable[object]]
WIDE: Final[dict[RequestCode, Ask]] = {
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: lambda admin, _: admin.topics(),
    RequestCode.GET_TOPICS_BY_CLUSTER: lambda admin, _: admin.topics_of_cluster("c"),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: lambda admin, _: admin.route("T"),
    RequestCode.GET_BROKER_CLUSTER_INFO: lambda admin, _: admin.cluster(),
    RequestCode.GET_ALL_TOPIC_CONFIG: lambda admin, at: admin.topic_configs(at),
    RequestCode.GET_TOPIC_STATS_INFO: lambda admin, at: admin.topic_offsets(at, "T"),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: lambda admin, at: admin.groups(at),
    RequestCode.GET_ALL_CONSUMER_OFFSET: lambda admin, at: admin.offset_table(at),
    RequestCode.GET_CONSUME_STATS: lambda admin, at: admin.consume_stats(at, "g"),
}


@pytest.mark.parametrize("code", WIDE, ids=lambda code: code.name)
async def test_an_administrator_reads_wide_answers_beside_the_loop(
    cluster: FakeCluster, read_on_the_loop: list[int], code: RequestCode
) -> None:
    body = padded(b"{}", 256 << 10)
    for node in (cluster.broker, cluster.name_server_nodes[0]):
        node.handlers[code] = lambda frame, peer: frame.reply(body=body)
    async with open_admin(name_servers=cluster.name_servers, dial=cluster.dial) as admin:
        with suppress(RemoteProtocolError):  # a member that is required may be missing
            await WIDE[code](admin, cluster.broker.address)
    assert len(body) not in read_on_the_loop
