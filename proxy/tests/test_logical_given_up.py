"""A request at a listener that is refused before it waits leaves nothing behind at its broker."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import trio

from lanemq.proxy.logical.listener.brokers._own import OwnBroker
from lanemq.proxy.logical.listener.brokers._questions import Question
from lanemq.proxy.net._answers import drop
from lanemq.proxy.process._own_broker import own_broker
from lanemq.testkit.logical.cluster import (
    CLIENT_HOST,
    TOPIC,
    LogicalCluster,
)
from lanemq.testkit.proxy.brokers import (
    Client,
    TestBroker,
    open_test_broker,
    pull_header,
    session_of,
)
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.simulation._processes import LOGICAL_PORT
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request

pytestmark = pytest.mark.mapped_cluster("broker1")

FULL = Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "disk full")
WAITS = 6
"""``sysFlag`` of a pull that waits."""


def pull(offset: int, topic: str = "T") -> Frame:
    header = pull_header(topic, 0, offset, sys_flag=WAITS, suspend_timeout_millis=15_000)
    return request(RequestCode.PULL_MESSAGE, header.to_fields())


def own(broker: TestBroker, *, is_full: bool = False) -> OwnBroker:
    async def commit_all() -> None:
        await broker.context.commit_all()
        if is_full:
            raise FULL

    return attrs.evolve(own_broker(broker.broker), commit_all=commit_all)


async def test_a_pull_whose_commit_fails_is_not_left_parked(broker: TestBroker) -> None:
    session = await session_of(broker)
    kept_bytes = session.account.kept_bytes
    with pytest.raises(Refused, match="disk full"):
        await own(broker, is_full=True).ask(pull(1), session, 1.0)
    assert not broker.context.holds.waits_on("T", 0)
    assert session.account.kept_bytes == kept_bytes


async def test_a_question_whose_commit_fails_is_not_begun(tmp_path: Path) -> None:
    async def later() -> str:
        raise AssertionError("it was begun")

    answer = later()
    question: Any = Question(own=lambda *_: answer, encode=None, decode=None)  # type: ignore
    async with open_test_broker(tmp_path) as broker:
        with pytest.raises(Refused, match="disk full"):
            await own(broker, is_full=True).call(question, "?", 1.0)
    assert inspect.getcoroutinestate(answer) == inspect.CORO_CLOSED


async def test_a_pull_that_is_given_up_is_not_left_parked(broker: TestBroker) -> None:
    session = await session_of(broker)
    kept_bytes, holds = session.account.kept_bytes, broker.context.holds
    waiting: Any = own(broker).answer(pull(1), session)
    assert holds.waits_on("T", 0)
    drop(waiting)
    assert not holds.waits_on("T", 0)
    waiting = own(broker).answer(pull(1), session)
    await broker.connect().send("T", b"second")  # answered, and nobody has waited yet
    drop(waiting)
    assert session.account.kept_bytes == kept_bytes


async def test_pulls_beyond_what_a_connection_may_have_waiting_leave_nothing_parked(
    cluster: LogicalCluster,
) -> None:
    broker = cluster.brokers["broker1"]
    server, holds = broker.logical_listener.server, broker.running.context.holds
    peer = Peer(await cluster.network.dialer(CLIENT_HOST)(broker.host, LOGICAL_PORT))
    assert (await Client(peer).pull(TOPIC, 0, 0)).code == ResponseCode.PULL_NOT_FOUND
    held = len(holds)
    server.limits = replace(server.limits, in_flight_per_connection=1)
    await peer.send(
        *(msgspec.structs.replace(pull(0, TOPIC), opaque=number) for number in (1, 2, 3))
    )
    for _ in range(2):
        assert (await peer.receive()).code == ResponseCode.SYSTEM_BUSY
    await trio.testing.wait_all_tasks_blocked()
    assert len(holds) == held + 1
