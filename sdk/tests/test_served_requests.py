"""A server that asks as often as it can costs the client a share of its loop, memory and log."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import ConcurrentListener, RemotingClient, open_remoting_client
from lanemq.sdk.consumer import _broker_requests
from lanemq.sdk.net._outbox import HIGH_BYTES
from lanemq.sdk.net._served import SERVED_MAX, TURN_REQUESTS
from lanemq.testkit.logs import one_minute_logged
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, Peer
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import ConsumerRunningInfo
from lanemq.wire.frame import FLAG_ONEWAY, Frame, request

ECHO, ASKED = 900, 901
MANY: Final = 1000
LINES: Final = 20
"""The lines of a kind that are logged in a minute."""


class Steps(trio.abc.Instrument):
    """The calls of ``note`` in the step of a task that has most of them."""

    def __init__(self) -> None:
        self.most = self.total = self._now = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._now = 0

    def note(self) -> None:
        self.total += 1
        self._now += 1
        self.most = max(self.most, self._now)


@pytest.fixture
async def steps() -> AsyncIterator[Steps]:
    instrument = Steps()
    trio.lowlevel.add_instrument(instrument)
    yield instrument
    trio.lowlevel.remove_instrument(instrument)


@asynccontextmanager
async def connected(cluster: FakeCluster) -> AsyncIterator[tuple[RemotingClient, Peer]]:
    """A client with a connection to the broker, and the broker's end of it."""
    broker = cluster.broker
    broker.handlers[ECHO] = lambda frame, _: frame.reply(body=frame.body)
    async with open_remoting_client(dial=cluster.dial) as client:
        await client.call(broker.address, request(ECHO))
        (peer,) = broker.peers
        yield client, peer


def ask(peer: Peer, count: int, *, flag: int = 0) -> None:
    """Send requests whose answers nobody waits for, all at once."""
    for number in range(count):
        peer.post(Frame(ASKED, opaque=1 << 20 | number, flag=flag))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Frame]:
    """The answers that the broker gets, whether it waits for them or not."""
    got = list[Frame]()
    monkeypatch.setattr(Peer, "answered", lambda _, frame: got.append(frame))
    return got


async def test_the_requests_of_one_read_are_served_in_turns(
    cluster: FakeCluster, steps: Steps, answers: list[Frame]
) -> None:
    def serve(frame: Frame, address: str) -> Frame:
        steps.note()
        return frame.reply()

    async with connected(cluster) as (client, peer):
        client.handle(ASKED, serve)
        ask(peer, MANY)
        await wait_all_tasks_blocked()
        assert (await client.call(cluster.broker.address, request(ECHO, body=b"x"))).body == b"x"
    assert steps.total == MANY == len(answers)
    assert steps.most <= TURN_REQUESTS


async def test_a_server_that_asks_and_takes_no_answers_is_not_served(
    cluster: FakeCluster, answers: list[Frame]
) -> None:
    body, served = bytes(64 << 10), 0

    def serve(frame: Frame, address: str) -> Frame:
        nonlocal served
        served += 1
        return frame.reply(body=body)

    async with connected(cluster) as (client, peer):
        client.handle(ASKED, serve)
        cluster.broker.stall()
        ask(peer, MANY)
        await wait_all_tasks_blocked()
        most = HIGH_BYTES // len(body) + 1
        assert 0 < served <= most
        ask(peer, 5, flag=FLAG_ONEWAY)  # they cost no answer
        await wait_all_tasks_blocked()
        assert served <= most + 5
        cluster.broker.go_on()
        await wait_all_tasks_blocked()
        assert sum(len(answer.body) for answer in answers) <= HIGH_BYTES + len(body)
        before = served
        ask(peer, 5)
        await wait_all_tasks_blocked()
        assert served == before + 5


async def test_a_client_with_much_to_send_still_serves_its_server(
    cluster: FakeCluster, answers: list[Frame]
) -> None:
    async with connected(cluster) as (client, peer), trio.open_nursery() as nursery:
        client.handle(ASKED, lambda frame, _: frame.reply())
        cluster.broker.stall()
        for _ in range(6):
            sent = request(ECHO, body=bytes(1 << 20))
            nursery.start_soon(client.call, cluster.broker.address, sent, 60.0)
        await wait_all_tasks_blocked()
        ask(peer, 5)
        await wait_all_tasks_blocked()
        cluster.broker.go_on()
    assert [answer.code for answer in answers] == [ResponseCode.SUCCESS] * 5


async def test_requests_that_are_not_served_take_few_lines_of_the_log(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, answers: list[Frame]
) -> None:
    async def serve(frame: Frame, address: str) -> None:
        await trio.sleep_forever()

    with one_minute_logged():
        async with connected(cluster) as (client, peer):
            client.handle(ASKED, serve)
            ask(peer, MANY)
            await wait_all_tasks_blocked()
    assert len(answers) == MANY - SERVED_MAX
    lines = [one for one in caplog.records if "too many requests at once" in one.getMessage()]
    assert 0 < len(lines) <= LINES


async def test_requests_that_fail_take_few_lines_of_the_log(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, answers: list[Frame]
) -> None:
    def serve(frame: Frame, address: str) -> Frame:
        raise KeyError(frame.opaque)

    with one_minute_logged():
        async with connected(cluster) as (client, peer):
            client.handle(ASKED, serve)
            ask(peer, MANY)
            await wait_all_tasks_blocked()
    assert len(answers) == MANY
    assert 0 < sum(one.levelno >= logging.WARNING for one in caplog.records) <= LINES


async def test_all_tasks_are_dumped_once_a_second(
    cluster: FakeCluster, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps = 0

    def counted() -> str:
        nonlocal dumps
        dumps += 1
        return f"dump {dumps}"

    async def handle(messages: object) -> None:
        raise AssertionError("there are no messages")

    shown = set[str]()

    async def ask_once(client_id: str) -> None:
        fields = {"consumerGroup": "cg", "clientId": client_id, "jstackEnable": "true"}
        asked = request(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
        answer = await cluster.broker.ask(client_id, asked)
        jstack = ConsumerRunningInfo.decode(answer.body).jstack
        assert jstack is not None
        shown.add(jstack)

    monkeypatch.setattr(_broker_requests, "task_dump", counted)
    cluster.create_topic("T", 1)
    async with push_consumer_of(cluster, ConcurrentListener(handle)) as consumer:
        await trio.sleep(1)
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for _ in range(300):
                    nursery.start_soon(ask_once, consumer.client_id)
            await trio.sleep(1)
    assert dumps == 2
    assert shown == {"dump 1", "dump 2"}
