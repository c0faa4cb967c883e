"""Listeners with a second parameter are told the circumstances of their messages."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    ConsumeHook,
    ListenerContext,
    MessageQueue,
    OrderlyListener,
    Outcome,
    ReceivedMessage,
    Stage,
    StagedConcurrentListener,
    aio,
    blocking,
)
from lanemq.sdk.listeners._listener_context import takes_context
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.testkit.servers import PATIENT_PRODUCER

QUEUE = MessageQueue("T", "broker-a", 0)


class Told:
    """A listener that notes what it is told, and succeeds at the second attempt for b"again"."""

    def __init__(self, wanted: int) -> None:
        self.contexts: dict[bytes, list[ListenerContext]] = {}
        self.done = trio.Event()
        self._wanted = wanted

    async def handle(
        self, messages: Sequence[ReceivedMessage], context: ListenerContext
    ) -> Outcome:
        (message,) = messages
        self.contexts.setdefault(message.body, []).append(context)
        if message.body == b"again" and context.attempt == 1:
            return Outcome.RETRY
        if sum(map(len, self.contexts.values())) >= self._wanted:
            self.done.set()
        return Outcome.SUCCESS


async def consume(cluster: FakeCluster, listener: Any, told: Told, **settings: Any) -> None:  # noqa: ANN401
    async with push_consumer_of(
        cluster, listener, group="g", consume_from=ConsumeFrom.FIRST_OFFSET, **settings
    ):
        with trio.fail_after(100):
            await told.done.wait()


async def test_a_staged_listener_is_told_its_stage_also_after_a_restart(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    for number in range(3):
        cluster.broker.put("T", 0, b"%d" % number)
    told = Told(3)
    listener = StagedConcurrentListener(told.handle, [2, 3])
    await consume(cluster, listener, told)
    for number in range(3, 6):
        cluster.broker.put("T", 0, b"%d" % number)
    again = Told(3)
    await consume(cluster, StagedConcurrentListener(again.handle, [2, 3]), again)
    stages = {body: context[0].stage for body, context in (told.contexts | again.contexts).items()}
    assert stages == {
        b"0": Stage(0, 2, 0),
        b"1": Stage(0, 2, 1),
        b"2": Stage(1, 3, 2),
        b"3": Stage(1, 3, 3),
        b"4": Stage(1, 3, 4),
        b"5": Stage(2, None, 5),
    }


@pytest.mark.parametrize("kind", [ConcurrentListener, OrderlyListener])
async def test_other_listeners_are_told_group_queue_and_attempt(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    kind: Any,  # noqa: ANN401
) -> None:
    cluster.broker.put("T", 0, b"again")
    told, seen = Told(2), []
    hook = ConsumeHook(before=lambda event: seen.append(event.group))
    await consume(cluster, kind(told.handle), told, hooks=(hook,))
    first, second = told.contexts[b"again"]
    assert first == ListenerContext("g", QUEUE, 1, None)
    assert (second.group, second.attempt, second.stage) == ("g", 2, None)
    assert seen == ["g", "g"]  # a hook in between does not take the context away


def test_only_a_second_parameter_that_has_to_be_given_is_a_context() -> None:
    def bare(messages: object) -> None: ...
    def bound(messages: object, repository: object = None) -> None: ...
    def wants(messages: object, context: object) -> None: ...
    def anything(*arguments: object) -> None: ...

    assert [takes_context(f) for f in (bare, bound, wants, anything, print)] == [
        False,
        False,
        True,
        False,
        False,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_the_other_faces_tell_it_too(name_server: str, face: str) -> None:
    import asyncio
    import threading

    contexts: list[ListenerContext] = []
    topic = f"Context-{face}"
    with blocking.open_producer(
        "pg", name_servers=name_server, options=PATIENT_PRODUCER
    ) as producer:
        producer.send(blocking.Message(topic=topic, body=b"x"))
    options: Any = {
        "name_servers": name_server,
        "subscriptions": {topic: "*"},
        "consume_from": ConsumeFrom.FIRST_OFFSET,
    }
    heard = threading.Event()

    def note(messages: Sequence[ReceivedMessage], context: ListenerContext) -> None:
        contexts.append(context)
        heard.set()

    async def on_the_loop() -> None:
        done = asyncio.Event()

        async def handle(messages: Sequence[ReceivedMessage], context: ListenerContext) -> None:
            contexts.append(context)
            done.set()

        async with aio.open_push_consumer(
            topic, listener=aio.StagedConcurrentListener(handle, [5]), **options
        ):
            await asyncio.wait_for(done.wait(), 60)

    if face == "blocking":
        with blocking.open_push_consumer(
            topic, listener=blocking.StagedConcurrentListener(note, [5]), **options
        ):
            assert heard.wait(60)
    else:
        asyncio.run(on_the_loop())
    (context,) = contexts
    assert (context.group, context.attempt, context.stage) == (topic, 1, Stage(0, 5, 0))
