"""Hooks see every attempt to send and every call of a listener, and change nothing."""

from collections.abc import Sequence

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    ConsumeHook,
    Consumption,
    Message,
    OrderlyListener,
    Outcome,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    RequestTimedOut,
    SendAttempt,
    SendHook,
    SendKind,
    open_producer,
)
from lanemq.sdk.observe._consume_hooks import hooked
from lanemq.testkit.sdk.clients import producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, clock_ms
from lanemq.wire import RequestCode

SEND = RequestCode.SEND_MESSAGE_V2


class Notes:
    """Keeps what hooks were told, in order."""

    def __init__(self) -> None:
        self.said: list[tuple[str, SendAttempt]] = []

    def before(self, attempt: SendAttempt) -> None:
        attempt.notes["seen"] = True
        self.said.append(("before", attempt))

    async def after(self, attempt: SendAttempt) -> None:
        await trio.sleep(0.001)
        assert attempt.notes["seen"]
        self.said.append(("after", attempt))


async def test_every_attempt_is_told_before_and_after(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 2)
    cluster.broker.refuse(SEND, 1)
    notes = Notes()
    options = ProducerOptions(hooks=(SendHook(before=notes.before, after=notes.after),))
    message = Message(topic="T", body=b"x", delay_level=2)
    async with producer_of(cluster, options) as producer:
        result = await producer.send(message)
        batch = await producer.send_batch([Message(topic="T", body=b"1")] * 3)
        key = await producer.send_oneway(Message(topic="T", body=b"2"))
    assert [when for when, _ in notes.said] == ["before", "after"] * 4
    first, second, third, fourth = (attempt for when, attempt in notes.said if when == "after")
    assert "injected" in str(first.error)
    assert first.result is None
    assert (second.error, second.result, second.kind) == (None, result, SendKind.DELAYED)
    assert second.messages == (message,)
    assert second.message_ids == (result.message_id,)
    assert (second.group, second.queue, second.address) == (
        "pg",
        result.queue,
        cluster.broker.address,
    )
    assert third.message_ids == tuple(batch.message_id.split(","))
    assert (len(third.messages), third.kind) == (3, SendKind.NORMAL)
    assert (fourth.oneway, fourth.result, fourth.message_ids) == (True, None, (key,))


async def test_time_outs_and_cancellations_are_told_too(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    told: list[SendAttempt] = []
    options = ProducerOptions(retries=0, hooks=(SendHook(after=told.append),))
    message = Message(topic="T", body=b"x")
    async with producer_of(cluster, options) as producer:
        cluster.broker.mute(SEND, 2)
        with pytest.raises(RequestTimedOut):
            await producer.send(message, timeout_s=2)
        with trio.move_on_after(1):
            await producer.send(message)
    late, cancelled = told
    assert isinstance(late.error, RequestTimedOut)
    assert late.cost_ms == 2000
    assert isinstance(cancelled.error, trio.Cancelled)


async def test_a_hook_that_fails_is_logged_and_the_message_sent(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(attempt: SendAttempt) -> None:
        raise ValueError("my own mistake")

    options = ProducerOptions(hooks=(SendHook(before=fail, after=fail),))
    async with producer_of(cluster, options) as producer:
        await producer.send(Message(topic="T", body=b"x"))
    assert cluster.bodies("T") == [b"x"]
    assert caplog.text.count("ValueError: my own mistake") == 2


@pytest.mark.parametrize("kind", [ConcurrentListener, OrderlyListener])
async def test_every_call_of_a_listener_is_told(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    kind: type[ConcurrentListener] | type[OrderlyListener],
) -> None:
    cluster.create_topic("T", 1)
    for number in range(3):
        cluster.broker.put("T", 0, str(number).encode())
    told: list[Consumption] = []
    outcomes = iter([None, Outcome.RETRY, ValueError("no"), None, None])

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        await trio.sleep(0.05)
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def before(event: Consumption) -> None:
        await trio.lowlevel.checkpoint()
        event.notes["seen"] = event.messages[0].body

    hook = ConsumeHook(before=before, after=told.append)
    async with push_consumer_of(
        cluster,
        kind(handle, concurrency=1),
        PushOptions(hooks=(hook,), consume_from=ConsumeFrom.FIRST_OFFSET),
    ):
        await trio.sleep(100)
    assert len(told) == 5
    assert [event.succeeded for event in told] == [True, False, False, True, True]
    assert told[1].outcome is Outcome.RETRY
    assert isinstance(told[2].error, ValueError)
    for event in told:
        assert (event.group, event.cost_ms) == ("cg", 50)
        assert event.notes == {"seen": event.messages[0].body}


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
async def test_what_an_attempt_costs_does_not_depend_on_a_clock_that_is_set(
    cluster: FakeCluster, autojump_clock: MockClock, step_ms: int
) -> None:
    cluster.create_topic("T", 1)
    ahead_ms, notes, consumed = [0], Notes(), list[Consumption]()

    def set_clock(attempt: SendAttempt) -> None:
        ahead_ms[0] += step_ms

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        ahead_ms[0] += step_ms
        await trio.sleep(0.05)

    hooks = (SendHook(before=notes.before, after=notes.after), SendHook(before=set_clock))
    async with open_producer(
        "pg",
        name_servers=cluster.name_servers,
        dial=cluster.dial,
        clock_ms=lambda: clock_ms() + ahead_ms[0],
        hooks=hooks,
    ) as producer:
        await producer.send(Message(topic="T", body=b"x"))
    assert 0 <= notes.said[-1][1].cost_ms < 1000
    listener = hooked(
        handle, "g", [ConsumeHook(after=consumed.append)], lambda: clock_ms() + ahead_ms[0]
    )
    await listener([])
    assert consumed[0].cost_ms == 50
