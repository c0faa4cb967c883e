"""Sends of threads and asyncio tasks need no task of the core, and end as those with one do."""

import asyncio
import re
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
import trio

import lanemq.sdk
from lanemq.sdk import (
    BadAnswer,
    ClientClosed,
    LanemqError,
    Message,
    ProducerOptions,
    RefusedByBroker,
    RequestTimedOut,
    SendHook,
    SendResult,
    aio,
    blocking,
)
from lanemq.sdk.aio._bridge import Opening as AioOpening
from lanemq.sdk.blocking._bridge import Opening
from lanemq.sdk.faces import _portal, _portal_calls
from lanemq.testkit.sdk.cluster import FakeCluster, Peer, small_cluster
from lanemq.wire import RequestCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame

SEND = RequestCode.SEND_MESSAGE_V2
MESSAGE = Message(topic="T", body=b"x")
PATIENCE_S = 60.0
"""Far more than anything here takes: the machine may be busy."""
WAYS = pytest.mark.parametrize("way", ["quick", "by a task"])
"""A producer with a hook has a task of the core for each send: what both promise is the same."""


@dataclass
class World:
    """A cluster in memory, in the core's thread, and a producer of it."""

    way: str = "quick"
    options: ProducerOptions = field(
        default_factory=lambda: ProducerOptions(send_timeout_s=PATIENCE_S, retries=0)
    )
    cluster: FakeCluster = field(init=False)
    core: lanemq.sdk.Producer = field(init=False)
    tasks: int = 0
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    go_on: trio.Event = field(init=False)

    @asynccontextmanager
    async def open(self, bridge: object) -> AsyncIterator[lanemq.sdk.Producer]:
        hooks = (SendHook(),) if self.way == "by a task" else ()
        async with trio.open_nursery() as nursery:
            self.cluster = small_cluster(nursery)
            self.cluster.create_topic("T", 1)
            self.go_on = trio.Event()
            async with lanemq.sdk.open_producer(
                "pg",
                name_servers=self.cluster.name_servers,
                options=replace(self.options, hooks=hooks),
                dial=self.cluster.dial,
            ) as producer:
                self.core = producer
                yield producer
            nursery.cancel_scope.cancel()

    def hold(self) -> None:
        """Keep the answers to sends back until ``go_on``."""
        handler = self.cluster.broker.handlers[SEND]

        async def wait(frame: Frame, peer: Peer) -> Frame | None:
            self.arrived.release()
            await self.go_on.wait()
            return handler(frame, peer)

        self.cluster.broker.waiters[SEND] = wait

    @property
    def pending(self) -> int:
        """The number of requests that wait for the broker's answer."""
        return len(self.core._client.remoting._links[self.cluster.broker.address]._calls)

    def stored(self) -> list[bytes]:
        return [message.body for message in self.cluster.broker.messages("T")]

    def threads(self) -> Opening[blocking.Producer]:
        return Opening(blocking.Producer, self.open)

    def loop(self) -> AioOpening[aio.Producer]:
        return AioOpening(aio.Producer, self.open)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name == "lanemq":
            thread.join(PATIENCE_S)
    assert _portal._current is None


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The calls that had a task of the core."""
    started: list[object] = []
    start = _portal_calls.Call.start

    def counted(call: _portal_calls.Call[object]) -> None:
        started.append(call)
        start(call)

    monkeypatch.setattr(_portal_calls.Call, "start", counted)
    return started


def in_a_thread(function: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Begin ``function`` in a thread; the list gets its result or its error."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def told(error: object) -> str:
    """An error and its notes, without times."""
    assert isinstance(error, LanemqError)
    text = "\n".join([type(error).__name__, str(error), *getattr(error, "__notes__", ())])
    return re.sub(r"\d+\.\d+ s", "… s", text)


def test_sends_of_many_threads_are_stored_once_each_in_their_order(tasks: list[object]) -> None:
    world = World()
    with world.threads() as producer:
        queue = producer.send(MESSAGE).queue
        before = len(tasks)
        ids: list[str] = []

        def send_all(number: int) -> None:
            for count in range(50):
                message = Message(topic="T", body=b"%d %d" % (number, count))
                ids.append(producer.send(message, queue=queue).message_id)

        threads = [in_a_thread(partial(send_all, number)) for number in range(8)]
        for thread, outcome in threads:
            thread.join()
            assert outcome == [None]
        stored = producer._bridge.run(world.stored)
    assert len(tasks) == before  # no task of the core
    assert len(set(ids)) == 400
    by_thread: dict[int, list[int]] = {}
    for number, count in (map(int, body.split()) for body in stored[1:]):
        by_thread.setdefault(number, []).append(count)
    assert by_thread == {number: list(range(50)) for number in range(8)}


def test_sends_of_many_tasks_are_stored_once_each(tasks: list[object]) -> None:
    world = World()

    async def main() -> None:
        async with world.loop() as producer:
            await producer.send(MESSAGE)
            before = len(tasks)
            results: list[SendResult] = await asyncio.gather(
                *(producer.send(Message(topic="T", body=b"%d" % number)) for number in range(200))
            )
            assert len(tasks) == before
            assert len({result.message_id for result in results}) == 200
            stored = producer._bridge.run(world.stored)
            assert sorted(stored[1:]) == sorted(b"%d" % number for number in range(200))

    asyncio.run(main())


@WAYS
def test_a_refusal_is_followed_by_another_attempt(way: str) -> None:
    world = World(way, ProducerOptions(send_timeout_s=PATIENCE_S, retries=1))
    with world.threads() as producer:
        producer.send(MESSAGE)
        producer._bridge.run(world.cluster.broker.refuse, SEND, 2)
        producer.send(Message(topic="T", body=b"again"))
        assert producer._bridge.run(world.stored) == [b"x", b"again"]


def test_errors_are_those_of_sends_with_a_task() -> None:
    told_by: dict[str, list[str]] = {}
    for way in ("quick", "by a task"):
        world = World(way)
        with world.threads() as producer:
            producer.send(MESSAGE)
            broker = world.cluster.broker
            producer._bridge.run(broker.refuse, SEND, 13)
            with pytest.raises(RefusedByBroker) as refused:
                producer.send(MESSAGE)
            producer._bridge.run(broker.mute, SEND)
            with pytest.raises(RequestTimedOut) as late:
                producer.send(MESSAGE, timeout_s=0.5)
            errors: list[BaseException] = [refused.value, late.value]
            for message in (Message(topic="T", body="text"), Message(topic="", body=b"x")):
                with pytest.raises(LanemqError) as wrong:
                    producer.send(message)
                errors.append(wrong.value)
            handler = broker.handlers[SEND]
            broker.handlers[SEND] = lambda frame, peer: frame.reply(0)
            with pytest.raises(BadAnswer) as empty:
                producer.send(MESSAGE)
            broker.handlers[SEND] = handler
            told_by[way] = [told(error) for error in (*errors, empty.value)]
            producer.send(MESSAGE)
    assert told_by["quick"] == told_by["by a task"]


@WAYS
def test_an_interrupted_send_frees_its_place(way: str) -> None:
    world = World(way)
    with world.threads() as producer:
        producer.send(MESSAGE)
        producer._bridge.run(world.hold)
        main = threading.main_thread().ident
        assert main is not None

        def interrupt() -> None:
            world.arrived.acquire()
            signal.pthread_kill(main, signal.SIGINT)

        thread, _ = in_a_thread(interrupt)
        with pytest.raises(KeyboardInterrupt):
            producer.send(MESSAGE)
        thread.join()
        assert producer._bridge.run(lambda: world.pending) == 0
        producer._bridge.run(world.go_on.set)
        producer.send(MESSAGE)


@WAYS
def test_a_cancelled_send_frees_its_place(way: str) -> None:
    world = World(way)

    async def main() -> None:
        async with world.loop() as producer:
            await producer.send(MESSAGE)
            producer._bridge.run(world.hold)
            sends = [asyncio.create_task(producer.send(MESSAGE)) for _ in range(2)]
            for _ in range(2):
                await asyncio.to_thread(world.arrived.acquire)
            sends[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await sends[0]
            assert producer._bridge.run(lambda: world.pending) == 1
            producer._bridge.run(world.go_on.set)
            assert isinstance(await sends[1], SendResult)
            await producer.send(MESSAGE)

    asyncio.run(main())


def test_closing_ends_sends_under_way_as_those_with_a_task() -> None:
    told_by: dict[str, list[str]] = {}
    for way in ("quick", "by a task"):
        world = World(way)
        with world.threads() as producer:
            producer.send(MESSAGE)
            producer._bridge.run(world.hold)
            under_way = [in_a_thread(lambda: producer.send(MESSAGE)) for _ in range(3)]
            for _ in range(3):
                world.arrived.acquire()
            producer.close()
            for thread, outcome in under_way:
                thread.join()
                told_by.setdefault(way, []).extend(map(told, outcome))
            with pytest.raises(ClientClosed):
                producer.send(MESSAGE)
    assert len(told_by["quick"]) == 3
    assert told_by["quick"] == told_by["by a task"]


@WAYS
def test_a_connection_that_breaks_is_followed_by_another_attempt(way: str) -> None:
    world = World(way, ProducerOptions(send_timeout_s=PATIENCE_S, retries=1))
    with world.threads() as producer:
        producer.send(MESSAGE)
        producer._bridge.run(world.hold)
        thread, outcome = in_a_thread(lambda: producer.send(MESSAGE))
        world.arrived.acquire()
        producer._bridge.run(world.go_on.set)
        producer._bridge.run(world.cluster.broker.cut)
        thread.join()
        assert [type(one) for one in outcome] == [SendResult]


def test_a_loop_that_stops_with_sends_under_way_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_portal_calls, "LOOK_S", 0.01)
    lost, other = World(), World()
    loop = asyncio.new_event_loop()

    async def begin() -> tuple[aio.Producer, asyncio.Task[SendResult]]:
        producer = await lost.loop().start()
        await producer.send(MESSAGE)
        producer._bridge.run(lost.hold)
        task = asyncio.create_task(producer.send(MESSAGE))
        await asyncio.to_thread(lost.arrived.acquire)
        return producer, task

    with other.threads() as producer:
        gone, task = loop.run_until_complete(begin())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        gone._bridge.portal.post(lost.go_on.set)  # its answer finds no loop
        for _ in range(3):
            producer.send(MESSAGE)
        assert not task.done()
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # as the point is
        task.get_coro().close()


def test_functions_of_the_application_run_where_they_did() -> None:
    """A selector runs in the core's thread, and sees the context of the call."""
    world = World()
    ran: list[str] = []

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        ran.append(threading.current_thread().name)
        return queues[0]

    with world.threads() as producer:
        producer.send(MESSAGE)
        producer.send(MESSAGE, queue=select)
        producer.send(MESSAGE, queue_key="k")
    assert ran == ["lanemq"]
