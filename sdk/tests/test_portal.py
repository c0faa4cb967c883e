"""The thread behind the blocking and asyncio clients: when it is there, and how calls end."""

import asyncio
import contextvars
import itertools
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import pytest
import trio

import lanemq.sdk
from lanemq.sdk import (
    ClientClosed,
    ConsumeFrom,
    LanemqError,
    LitePullOptions,
    Message,
    NoRoute,
    Outcome,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    SendAttempt,
    SendHook,
    SendResult,
    TransactionState,
    WrongUse,
    aio,
    blocking,
)
from lanemq.sdk.aio._bridge import Opening as AioOpening
from lanemq.sdk.aio._loop import running_loop
from lanemq.sdk.aio._waiter import Waiter
from lanemq.sdk.aio.kv import open_kv_store
from lanemq.sdk.blocking._bridge import Opening
from lanemq.sdk.faces import _portal, _portal_calls
from lanemq.sdk.faces._portal_calls import Callback
from lanemq.testkit.reading_time import slowness
from lanemq.testkit.sdk.cluster import clock_ms, small_cluster
from lanemq.testkit.sdk.producers import FakeProducers, FakeTransactions
from lanemq.testkit.servers import PATIENT_CLIENT, PATIENT_PRODUCER

pytestmark = [
    pytest.mark.slow,  # threads wait for one another by the real clock
    pytest.mark.usefixtures("patient_ends"),
]
FIRST = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=PATIENT_CLIENT)
MESSAGE = Message(topic="PortalTopic", body=b"x")
PATIENCE_S = 60.0
"""Far more than anything here takes: the machine may be busy."""
NUMBERS = itertools.count()


def core_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lanemq"]


def run(script: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        env={"HOME": str(home), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
    )


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread does; what is tested is that it happens at all."""
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s, f"it did not happen within {PATIENCE_S} s"
        time.sleep(0.01)


# The thread


def test_the_thread_lives_from_the_first_client_to_the_last(name_server: str) -> None:
    assert not core_threads()
    with blocking.open_producer("pg", name_servers=name_server, options=PATIENT_PRODUCER) as first:
        (thread,) = core_threads()
        assert thread.daemon
        with blocking.open_producer("pg2", name_servers=name_server, options=PATIENT_PRODUCER):
            assert core_threads() == [thread]
        assert core_threads() == [thread]
        first.send(MESSAGE)
    assert not core_threads()


def test_blocking_and_asyncio_clients_share_it(name_server: str) -> None:
    async def main() -> None:
        async with aio.open_producer(
            "pg", name_servers=name_server, options=PATIENT_PRODUCER
        ) as theirs:
            await theirs.send(MESSAGE)
            with blocking.open_producer(
                "pg2", name_servers=name_server, options=PATIENT_PRODUCER
            ) as ours:
                assert len(core_threads()) == 1
                ours.send(MESSAGE)

    asyncio.run(main())
    assert not core_threads()


def test_a_client_that_cannot_be_opened_leaves_no_thread() -> None:
    with (
        pytest.raises(ValueError, match="group"),
        blocking.open_producer("bad group", name_servers="127.0.0.1:1"),
    ):
        raise AssertionError
    assert not core_threads()


def test_a_client_opens_and_closes_without_a_block(name_server: str) -> None:
    opening = blocking.open_producer("pg", name_servers=name_server, options=PATIENT_PRODUCER)
    producer = opening.start()
    producer.send(MESSAGE)
    producer.close()
    assert not core_threads()
    producer.close()  # as the start-up hooks of frameworks do when they are called twice
    opening.close()
    with pytest.raises(ClientClosed):
        producer.send(MESSAGE)
    with blocking.open_producer("pg", name_servers=name_server, options=PATIENT_PRODUCER) as inside:
        inside.close()  # and the end of the block finds nothing to do
    blocking.open_producer(
        "pg", name_servers=name_server, options=PATIENT_PRODUCER
    ).close()  # never opened

    async def main() -> None:
        opening = aio.open_producer("pg", name_servers=name_server, options=PATIENT_PRODUCER)
        producer = await opening.start()
        await producer.send(MESSAGE)
        await asyncio.gather(producer.close(), producer.close(), opening.close())
        with pytest.raises(ClientClosed):
            await producer.send(MESSAGE)

    asyncio.run(main())
    assert not core_threads()


def test_two_threads_may_close_a_client_at_the_same_time(name_server: str) -> None:
    consumer = blocking.open_lite_pull_consumer(
        "readers", name_servers=name_server, client=PATIENT_CLIENT
    ).start()
    threads = [threading.Thread(target=consumer.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)
    assert not core_threads()


@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_a_client_that_is_closed_after_its_core_waits_for_the_thread(
    name_server: str, monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    joining = threading.Event()
    join = _portal.Portal.join

    def joined(portal: _portal.Portal) -> None:
        joining.set()
        join(portal)

    monkeypatch.setattr(_portal.Portal, "join", joined)

    def core_ends_first() -> threading.Thread:
        portal, (thread,) = _portal.find_portal(), core_threads()
        portal.at_end(lambda: joining.wait(PATIENCE_S))  # nothing runs, but the thread is there
        portal.post(portal._leaving.set)
        until(lambda: portal.over)
        return thread

    async def close_in_asyncio() -> threading.Thread:
        opening = aio.open_producer("pg", name_servers=name_server, options=PATIENT_PRODUCER)
        producer = await opening.start()
        thread = core_ends_first()
        with suppress(ClientClosed):
            await producer.close()
        return thread

    def close() -> threading.Thread:
        opening = blocking.open_producer("pg", name_servers=name_server, options=PATIENT_PRODUCER)
        producer = opening.start()
        thread = core_ends_first()
        with suppress(ClientClosed):
            producer.close()
        return thread

    thread = asyncio.run(close_in_asyncio()) if face == "asyncio" else close()
    assert not thread.is_alive()


def test_what_never_changes_is_there_without_asking_the_core(name_server: str) -> None:
    with blocking.open_producer(
        "pg", name_servers=name_server, options=PATIENT_PRODUCER
    ) as producer:
        known = producer.client_id, producer.group
    assert (producer.client_id, producer.group) == known  # nobody is left who could be asked
    assert known[1] == "pg"


def test_a_client_opens_once(name_server: str) -> None:
    opening = blocking.open_producer("pg", name_servers=name_server, options=PATIENT_PRODUCER)
    with opening, pytest.raises(WrongUse, match="once"):
        opening.__enter__()


def test_a_program_that_closes_nothing_ends_and_its_progress_is_kept(
    name_server: str, tmp_path: Path
) -> None:
    script = """
        import sys, threading
        from lanemq.sdk import blocking
        from lanemq.sdk.blocking import ConcurrentListener, ConsumeFrom, Message, PushOptions
        opening = blocking.open_producer("pg", name_servers=sys.argv[1], send_timeout_s=60)
        producer = opening.__enter__()
        producer.send(Message(topic="ExitTopic", body=b"x"))
        settled = threading.Event()
        opening = blocking.open_push_consumer(
            "ExitGroup", name_servers=sys.argv[1], subscriptions={"ExitTopic": "*"},
            listener=ConcurrentListener(lambda messages: settled.set()),
            options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET))
        consumer = opening.__enter__()
        assert settled.wait(60)
        import time
        while not any(consumer.committed_offset(queue) for queue in consumer.queues):
            time.sleep(0.01)
        print("ends", time.monotonic())
        """
    done = run(script, name_server, home=tmp_path)
    ended_s = time.monotonic()
    assert done.returncode == 0, done.stderr
    said, began_to_end_s = done.stdout.split()
    assert (said, done.stderr) == ("ends", "")
    assert ended_s - float(began_to_end_s) < 15 * slowness()
    with blocking.open_lite_pull_consumer(
        "ExitGroup", name_servers=name_server, client=PATIENT_CLIENT
    ) as consumer:
        queues = consumer.queues_of("ExitTopic")
        assert sum(consumer.committed(queue) or 0 for queue in queues) == 1


def test_a_program_ends_beside_a_listener_that_does_not(name_server: str, tmp_path: Path) -> None:
    script = """
        import sys, threading
        from lanemq.sdk import blocking
        from lanemq.sdk.blocking import ConsumeFrom, Message, OrderlyListener, PushOptions
        begun = threading.Event()
        def handle(messages):
            begun.set()
            threading.Event().wait()
        blocking.open_push_consumer(
            "StuckGroup", name_servers=sys.argv[1], subscriptions={"StuckTopic": "*"},
            listener=OrderlyListener(handle),
            options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)).__enter__()
        with blocking.open_producer("pg", name_servers=sys.argv[1], send_timeout_s=60) as producer:
            producer.send(Message(topic="StuckTopic", body=b"x"))
        assert begun.wait(60)
        print("ends")
        """
    with blocking.open_producer(
        "pg", name_servers=name_server, options=PATIENT_PRODUCER
    ) as producer:
        producer.send(Message(topic="StuckTopic", body=b"makes the topic"))
    done = run(script, name_server, home=tmp_path)
    assert (done.stdout, done.returncode) == ("ends\n", 0), done.stderr


def test_a_forked_process_has_no_client_and_opens_its_own(name_server: str, tmp_path: Path) -> None:
    script = """
        import os, sys, warnings
        from lanemq.sdk import ClientClosed, Message, blocking
        warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads is the point
        with blocking.open_producer("pg", name_servers=sys.argv[1], send_timeout_s=60) as producer:
            producer.send(Message(topic="ForkTopic", body=b"parent"))
            child = os.fork()
            if child == 0:
                try:
                    producer.send(Message(topic="ForkTopic", body=b"x"))
                except ClientClosed:
                    print("not the child's", flush=True)
            else:
                assert os.waitpid(child, 0)[1] == 0
                producer.send(Message(topic="ForkTopic", body=b"parent again"))
        if child == 0:
            with blocking.open_producer("pg", name_servers=sys.argv[1], send_timeout_s=60) as own:
                own.send(Message(topic="ForkTopic", body=b"child"))
            print("the child's own", flush=True)
            sys.exit(0)
        print("the parent's still")
        """
    done = run(script, name_server, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == [
        "not the child's",
        "the child's own",
        "the parent's still",
    ]


def test_what_is_left_for_the_end_of_a_turn_is_done_though_one_job_fails() -> None:
    portal, done = _portal.find_portal(), threading.Event()

    def leave_two() -> None:
        portal.after_turn(lambda: 1 / 0)
        portal.after_turn(done.set)

    for _ in range(2):
        done.clear()
        portal.post(leave_two)
        assert done.wait(PATIENCE_S)


def test_the_core_is_woken_once_for_jobs_that_come_before_it_looks() -> None:
    portal, go_on, done = _portal.find_portal(), threading.Event(), threading.Event()
    begun, token = threading.Event(), portal._token
    assert token is not None
    woken: list[str] = []

    def hold() -> None:
        begun.set()
        go_on.wait(PATIENCE_S)

    def wake(function: Callable[..., object], *, idempotent: bool) -> None:
        woken.append("woken")
        token.run_sync_soon(function, idempotent=idempotent)

    portal._token = SimpleNamespace(run_sync_soon=wake)  # type: ignore[assignment]
    for _ in range(3):
        go_on.clear()
        begun.clear()
        done.clear()
        woken.clear()
        portal.post(hold)
        assert begun.wait(PATIENCE_S)
        for _ in range(50):
            portal.post(lambda: None)
        portal.post(done.set)
        go_on.set()
        assert done.wait(PATIENCE_S)
        assert len(woken) == 2


# Errors and interruptions


def test_an_error_shows_the_callers_lines_and_the_cores(name_server: str) -> None:
    async def nowhere() -> None:
        async with aio.open_lite_pull_consumer(
            "rg", name_servers=name_server, client=PATIENT_CLIENT
        ) as consumer:
            await consumer.queues_of("NoSuchTopic")

    with pytest.raises(NoRoute) as caught:
        asyncio.run(nowhere())
    lines = [entry.name for entry in caught.traceback]
    assert lines.index("nowhere") < lines.index("queues_of") < len(lines) - 1
    assert Path(caught.traceback[-1].path).name == "_lite_pull.py"
    assert caught.value.__context__ is None


def is_in(function: CodeType, thread: int) -> bool:
    """Return whether a thread is in that function, or in one called by it."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not function:
        frame = frame.f_back
    return frame is not None


def interrupted(call: Callable[[], object], *, within: CodeType) -> float:
    """Seconds until ``call`` was left after an interruption.

    It comes a moment after ``call`` has got to the function ``within``.
    """
    main = threading.main_thread().ident
    assert main is not None
    sent_s = []

    def interrupt() -> None:
        until(lambda: is_in(within, main))
        time.sleep(0.1)
        sent_s.append(time.monotonic())
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    thread.join()
    return time.monotonic() - sent_s[0]


def test_an_interruption_cancels_the_call_and_leaves_the_client_usable(name_server: str) -> None:
    with blocking.open_lite_pull_consumer(
        "ig", name_servers=name_server, client=PATIENT_CLIENT
    ) as consumer:
        consumer.assign([])
        poll = type(consumer).poll.__code__
        assert interrupted(lambda: consumer.poll(timeout_s=60), within=poll) < 30
        assert consumer.poll(timeout_s=0.01) == []


def iterated(name_server: str, topic: str, group: str) -> AbstractContextManager[Any]:
    """A consumer of 100 messages in one queue."""
    with blocking.open_producer(
        "pg", name_servers=name_server, send_timeout_s=PATIENCE_S
    ) as producer:
        first = producer.send(Message(topic=topic, body=b"000"))
        for number in range(1, 100):
            producer.send(Message(topic=topic, body=b"%03d" % number), queue=first.queue)
    return blocking.open_lite_pull_consumer(
        group, name_servers=name_server, consume_from=ConsumeFrom.FIRST_OFFSET
    )


def test_iteration_in_a_thread_asks_the_core_once_for_many_messages(name_server: str) -> None:
    with iterated(name_server, "IterTopic", "it") as consumer:
        consumer.subscribe("IterTopic")
        asked = 0
        lend = consumer._core._lend

        async def counted() -> object:
            nonlocal asked
            asked += 1
            return await lend()

        consumer._core._lend = counted
        bodies = [message.body for _, message in zip(range(100), consumer, strict=False)]
        assert bodies == [b"%03d" % number for number in range(100)]
        assert asked < 30  # one for each batch; one more for each message that came alone
        (queue,) = {m.queue for m in [*consumer._core._buffer.lent.messages]}
        consumer.seek(queue, 10)  # what was lent before no longer comes
        assert next(consumer).body == b"010"
        assert next(consumer).body == b"011"
        consumer.commit()
        assert consumer.committed(queue) == 12
        assert [message.body for message in consumer.poll()][:2] == [b"012", b"013"]


def test_iteration_in_a_thread_left_by_an_error_commits_what_was_handled(name_server: str) -> None:
    read: list[ReceivedMessage] = []

    def handle_forty() -> None:
        with iterated(name_server, "LeftTopic", "left") as consumer:
            consumer.subscribe("LeftTopic")
            for message in consumer:
                read.append(message)
                if message.body == b"040":
                    raise LookupError

    with pytest.raises(LookupError):
        handle_forty()
    queue = read[0].queue
    with blocking.open_lite_pull_consumer(
        "left", name_servers=name_server, client=PATIENT_CLIENT
    ) as consumer:
        consumer.assign([queue])
        assert consumer.committed(queue) == 40
        assert next(consumer).body == b"040"


def test_an_interruption_ends_a_block_that_waits_for_its_listeners(name_server: str) -> None:
    with blocking.open_producer(
        "pg", name_servers=name_server, options=PATIENT_PRODUCER
    ) as producer:
        producer.send(MESSAGE)
    begun, go_on = threading.Event(), threading.Event()

    def handle(messages: Sequence[ReceivedMessage]) -> None:
        begun.set()
        go_on.wait()

    def consume() -> None:
        with blocking.open_push_consumer(
            "interrupted-at-close",
            name_servers=name_server,
            subscriptions={MESSAGE.topic: "*"},
            listener=blocking.ConcurrentListener(handle),
            options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, shutdown_grace_s=600),
        ):
            assert begun.wait(PATIENCE_S)

    try:
        assert interrupted(consume, within=Opening.__exit__.__code__) < 60
    finally:
        go_on.set()
    assert not core_threads()


def test_interruptions_at_any_moment_leave_the_core_awake(name_server: str, tmp_path: Path) -> None:
    script = """
        import random, signal, sys, threading
        from lanemq.sdk import blocking
        interruptions, is_wanted, rng = 0, False, random.Random(7)
        def interrupt(number, frame):
            if is_wanted:
                raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupt)
        with blocking.open_lite_pull_consumer("strikes", name_servers=sys.argv[1]) as consumer:
            consumer.assign([])
            for _ in range(400):
                try:
                    is_wanted = True
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.00002, 0.003))
                    for _ in range(1000):
                        consumer.poll(timeout_s=0)
                        consumer.queues
                    is_wanted = False
                except KeyboardInterrupt:
                    is_wanted = False
                    interruptions += 1
                signal.setitimer(signal.ITIMER_REAL, 0)
        assert [thread.name for thread in threading.enumerate()] == ["MainThread"]
        print("interrupted" if interruptions > 200 else interruptions)
        """
    done = run(script, name_server, home=tmp_path)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_interruptions_at_any_moment_of_sends_leave_the_connection_whole(
    name_server: str, tmp_path: Path
) -> None:
    script = """
        import random, signal, sys, threading
        from lanemq.sdk import Message, blocking
        interruptions, acknowledged, is_wanted, rng = 0, 0, False, random.Random(7)
        def interrupt(number, frame):
            if is_wanted:
                raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupt)
        def send_beside(until):
            while not until.is_set():
                producer.send(Message(topic="StruckTopic", body=b"beside"))
        with blocking.open_producer("pg", name_servers=sys.argv[1], send_timeout_s=60) as producer:
            queue = producer.send(Message(topic="StruckTopic", body=b"first")).queue
            remoting = producer._core._client.remoting
            links = dict(remoting._links)
            over = threading.Event()
            beside = threading.Thread(target=send_beside, args=(over,))
            for strike in range(400):
                if strike == 200:
                    beside.start()
                try:
                    is_wanted = True
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.00002, 0.003))
                    for number in range(1000):
                        producer.send(Message(topic="StruckTopic", body=b"x" * number))
                        acknowledged += 1
                    is_wanted = False
                except KeyboardInterrupt:
                    is_wanted = False
                    interruptions += 1
                signal.setitimer(signal.ITIMER_REAL, 0)
            over.set()
            beside.join()
            producer.send(Message(topic="StruckTopic", body=b"last"))
            assert remoting._links == links, "a connection broke"
            assert not any(len(link._calls) for link in links.values()), "a place is taken"
            assert all(link._outbox.is_empty for link in links.values())
        print("interrupted" if interruptions > 200 else interruptions)
        """
    done = run(script, name_server, home=tmp_path)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_a_cancelled_task_cancels_its_call(name_server: str) -> None:
    async def main() -> None:
        async with aio.open_lite_pull_consumer(
            "cg", name_servers=name_server, client=PATIENT_CLIENT
        ) as consumer:
            await consumer.assign([])
            started_s = time.monotonic()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await consumer.poll(timeout_s=60)
            task = asyncio.create_task(consumer.poll(timeout_s=60))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - started_s < 50
            assert await consumer.poll(timeout_s=0.01) == []

    asyncio.run(main())


def test_messages_are_not_lost_by_cancelled_polls(name_server: str) -> None:
    count = 200
    with blocking.open_producer(
        "pg", name_servers=name_server, send_timeout_s=PATIENCE_S
    ) as producer:
        queue = producer.publish_queues("CancelTopic")[0]
        for number in range(count):
            producer.send(Message(topic="CancelTopic", body=b"%d" % number), queue=queue)

    async def main() -> list[int]:
        got: list[int] = []
        options = LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
        async with aio.open_lite_pull_consumer(
            "cancelled-polls", name_servers=name_server, options=options
        ) as consumer:
            await consumer.assign([queue])
            pause_s, longest_s = 0.0, 0.002
            while len(got) < count:
                task = asyncio.ensure_future(anext(consumer))
                await asyncio.sleep(pause_s)
                pause_s = (pause_s + 0.0001) % longest_s
                longest_s *= 1.01  # however slow the machine is, some are in time
                task.cancel()
                with suppress(asyncio.CancelledError):
                    got.append(int((await task).body))
                    longest_s = 0.002
        return got

    assert asyncio.run(main()) == list(range(count))


# Listeners


@pytest.fixture
def filled(name_server: str) -> str:
    """A topic of its own, with eight messages in one queue."""
    topic = f"ListenerTopic{next(NUMBERS)}"
    with blocking.open_producer(
        "pg", name_servers=name_server, options=PATIENT_PRODUCER
    ) as producer:
        producer.send_batch([Message(topic=topic, body=b"%d" % n) for n in range(8)])
    return topic


def consumer_of(
    name_server: str,
    topic: str,
    group: str,
    listener: blocking.ConcurrentListener | blocking.OrderlyListener,
    options: PushOptions = FIRST,
) -> AbstractContextManager[blocking.PushConsumer]:
    return blocking.open_push_consumer(
        group,
        name_servers=name_server,
        subscriptions={topic: "*"},
        listener=listener,
        options=options,
    )


def test_a_listener_that_is_too_slow_keeps_its_place_but_not_its_message(
    quick_server: str,
) -> None:
    with blocking.open_producer(
        "pg", name_servers=quick_server, options=PATIENT_PRODUCER
    ) as producer:
        producer.send(Message(topic="SlowTopic", body=b"x"))
    times, go_on = [], threading.Event()
    running: list[int] = []
    again = threading.Event()

    def handle(messages: Sequence[ReceivedMessage]) -> None:
        running.append(1)
        assert len(running) <= 2
        times.append(messages[0].reconsume_times)
        if len(times) == 1:
            go_on.wait()  # much longer than it may
        else:
            again.set()
        running.pop()

    options = PushOptions(
        consume_from=ConsumeFrom.FIRST_OFFSET, consume_timeout_s=0.3, shutdown_grace_s=0.1
    )
    listener = blocking.ConcurrentListener(handle, concurrency=2)
    with consumer_of(quick_server, "SlowTopic", "slow", listener, options):
        assert again.wait(PATIENCE_S)
        assert times[:2] == [0, 1]
        go_on.set()


def test_an_orderly_listener_that_is_too_slow_is_waited_for(name_server: str, filled: str) -> None:
    overlaps, seen, done = [], [], threading.Event()
    inside = threading.Lock()

    def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        if not inside.acquire(blocking=False):
            overlaps.append(messages)
        time.sleep(0.1)  # longer than it may
        inside.release()
        seen.append(int(messages[0].body))
        if len(seen) == 8:
            done.set()
        return Outcome.SUCCESS

    options = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, consume_timeout_s=0.03)
    with consumer_of(
        name_server, filled, "slow-orderly", blocking.OrderlyListener(handle), options
    ):
        assert done.wait(PATIENCE_S)
    assert not overlaps
    assert seen == list(range(8))


def test_an_asyncio_listener_that_is_too_slow_is_cancelled(quick_server: str) -> None:
    ended: list[str] = []

    async def main() -> None:
        again = asyncio.Event()

        async def handle(messages: Sequence[ReceivedMessage]) -> None:
            if messages[0].reconsume_times:
                again.set()
                return
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        # The handler has begun by then, or there is nothing of it to be cancelled.
        options = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, consume_timeout_s=2.0)
        async with aio.open_producer(
            "pg", name_servers=quick_server, options=PATIENT_PRODUCER
        ) as producer:
            await producer.send(Message(topic="SlowAioTopic", body=b"x"))
        async with aio.open_push_consumer(
            "slow-aio",
            name_servers=quick_server,
            subscriptions={"SlowAioTopic": "*"},
            listener=aio.ConcurrentListener(handle),
            options=options,
        ):
            await asyncio.wait_for(again.wait(), PATIENCE_S)

    asyncio.run(main())
    assert ended == ["cancelled"]


def test_listeners_see_the_context_of_whoever_opened_them(name_server: str, filled: str) -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")
    seen: list[str] = []

    def look(messages: Sequence[ReceivedMessage]) -> None:
        seen.append(tenant.get())
        there.set()

    there = threading.Event()
    tenant.set("blue")
    with consumer_of(name_server, filled, "context", blocking.ConcurrentListener(look)):
        assert there.wait(PATIENCE_S)

    async def main() -> None:
        done = asyncio.Event()

        async def look(messages: Sequence[ReceivedMessage]) -> None:
            seen.append(tenant.get())
            done.set()

        async with aio.open_push_consumer(
            "context-aio",
            name_servers=name_server,
            subscriptions={filled: "*"},
            listener=aio.ConcurrentListener(look),
            options=FIRST,
        ):
            await asyncio.wait_for(done.wait(), PATIENCE_S)

    tenant.set("green")
    asyncio.run(main())
    assert set(seen) == {"blue", "green"}


async def not_plain(*arguments: object) -> None:
    """A function that the blocking face has no use for."""


def test_async_functions_are_refused_where_nobody_would_await_them(name_server: str) -> None:
    with pytest.raises(WrongUse, match="plain"):
        blocking.ConcurrentListener(not_plain)  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match="plain"):
        blocking.open_transaction_producer("pg", check=not_plain)  # type: ignore[arg-type]
    options = ProducerOptions(hooks=(SendHook(before=not_plain),))
    with (
        pytest.raises(WrongUse, match="plain"),
        blocking.open_producer("pg", name_servers=name_server, options=options),
    ):
        raise AssertionError


def test_a_listener_that_makes_no_sense_is_refused_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="concurrency"):
        blocking.ConcurrentListener(lambda messages: None, concurrency=0)
    with pytest.raises(ValueError, match="stage"):
        blocking.StagedConcurrentListener(lambda messages: None, [0])


def test_a_selector_must_not_wait_for_the_core_it_runs_in(name_server: str) -> None:
    with blocking.open_producer(
        "pg", name_servers=name_server, options=PATIENT_PRODUCER
    ) as producer:

        def select(
            queues: Sequence[lanemq.sdk.MessageQueue], message: Message
        ) -> lanemq.sdk.MessageQueue:
            assert producer.group == "pg"  # what does not wait may be asked
            producer.send(message)
            return queues[0]

        with pytest.raises(WrongUse, match="selectors"):
            producer.send(MESSAGE, queue=select)


def test_hooks_run_outside_of_the_core(name_server: str) -> None:
    threads: list[str] = []
    told = threading.Event()

    def after(attempt: SendAttempt) -> None:
        threads.append(threading.current_thread().name)
        told.set()

    options = ProducerOptions(hooks=(SendHook(after=after),))
    with blocking.open_producer("pg", name_servers=name_server, options=options) as producer:
        producer.send(MESSAGE)
        assert told.wait(PATIENCE_S)
    assert threads
    assert threads[0] != "lanemq"


# Event loops


def test_a_loop_that_hangs_does_not_hold_up_the_core(name_server: str, filled: str) -> None:
    async def main() -> None:
        hung = threading.Event()

        async def handle(messages: Sequence[ReceivedMessage]) -> None:
            if not hung.is_set():
                hung.set()
                with blocking.open_producer(
                    "pg", name_servers=name_server, options=PATIENT_PRODUCER
                ) as producer:
                    # The loop waits for this, and so for the core; the core waits for no loop.
                    producer.send(MESSAGE)
            done.set()

        done = asyncio.Event()
        async with aio.open_push_consumer(
            "hanging",
            name_servers=name_server,
            subscriptions={filled: "*"},
            listener=aio.ConcurrentListener(handle),
            options=FIRST,
        ):
            await asyncio.wait_for(done.wait(), PATIENCE_S)

    asyncio.run(main())


def test_a_client_whose_loop_is_gone_is_closed(
    name_server: str, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than handlers that were cancelled have to end.
    monkeypatch.setattr(_portal_calls, "LOOK_S", 1.5)
    kept = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        opening = aio.open_push_consumer(
            "abandoned",
            name_servers=name_server,
            subscriptions={filled: "*"},
            listener=aio.ConcurrentListener(handle, concurrency=2),
            options=FIRST,
        )
        kept.append(await opening.__aenter__())

    asyncio.run(main())
    until(lambda: not core_threads())
    with pytest.raises(ClientClosed):
        kept[0].pause()

    # Nothing was settled, and nothing was sent back.
    times: list[int] = []
    done = threading.Event()

    def count(messages: Sequence[ReceivedMessage]) -> None:
        times.append(messages[0].reconsume_times)
        if len(times) == 8:
            done.set()

    listener = blocking.ConcurrentListener(count, concurrency=1)
    with consumer_of(name_server, filled, "abandoned", listener):
        assert done.wait(PATIENCE_S)
    assert times == [0] * 8


def test_a_client_may_be_used_from_another_loop(name_server: str) -> None:
    async def main() -> None:
        async with aio.open_producer(
            "pg", name_servers=name_server, options=PATIENT_PRODUCER
        ) as producer:

            async def send() -> None:
                await producer.send(MESSAGE)

            await asyncio.to_thread(asyncio.run, send())

    asyncio.run(main())


def test_closing_before_the_start_does_nothing_and_a_client_opens_once(name_server: str) -> None:
    async def main() -> None:
        opening = aio.open_producer("pg", name_servers=name_server, options=PATIENT_PRODUCER)
        await opening.close()
        producer = await opening.start()
        await producer.send(MESSAGE)
        for _ in range(2):
            await opening.close()
        with pytest.raises(WrongUse, match="opens once"):
            await opening.start()

    asyncio.run(main())
    opening = blocking.open_producer("pg", name_servers=name_server, options=PATIENT_PRODUCER)
    opening.close()
    producer = opening.start()
    producer.send(MESSAGE)
    for _ in range(2):
        opening.close()
    with pytest.raises(WrongUse, match="opens once"):
        opening.start()


@pytest.mark.timeout(60)  # the fault it looks for is a wait that nothing ends
@pytest.mark.parametrize("stays_open", [False, True], ids=["loop closed", "loop stopped"])
@pytest.mark.parametrize("kind", ["producer", "push", "lite pull", "keys"])
def test_a_client_may_be_closed_on_another_loop(
    name_server: str, filled: str, kind: str, *, stays_open: bool
) -> None:
    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        await asyncio.sleep(0)

    def opening() -> AioOpening[Any]:
        if kind == "producer":
            return aio.open_producer("pg", name_servers=name_server, options=PATIENT_PRODUCER)
        if kind == "keys":
            return open_kv_store(name_servers=name_server)
        if kind == "push":
            return aio.open_push_consumer(
                "moving",
                name_servers=name_server,
                subscriptions={filled: "*"},
                listener=handle,
                options=FIRST,
            )
        return aio.open_lite_pull_consumer(
            "moving", name_servers=name_server, client=PATIENT_CLIENT
        )

    made = opening()
    first = asyncio.new_event_loop()
    first.run_until_complete(made.start())
    if not stays_open:
        first.close()
    asyncio.run(made.close())
    assert not core_threads()
    first.close()


# Transactions, which lanemq's broker does not have: at a broker in memory


@asynccontextmanager
async def transactions_in_memory(
    ended: list[int], check: Callable[[ReceivedMessage], Awaitable[TransactionState]]
) -> AsyncIterator[lanemq.sdk.TransactionProducer]:
    async with trio.open_nursery() as nursery:
        cluster = small_cluster(nursery)
        cluster.create_topic("T", 1)
        transactions = FakeTransactions(FakeProducers(cluster.broker))
        async with lanemq.sdk.open_transaction_producer(
            "pg",
            check=check,
            name_servers=cluster.name_servers,
            dial=cluster.dial,
            clock_ms=clock_ms,
        ) as producer:
            yield producer
        ended += [header.commit_or_rollback for header in transactions.ended]
        nursery.cancel_scope.cancel()


async def unknown(message: ReceivedMessage) -> TransactionState:
    return TransactionState.UNKNOWN


def test_a_local_transaction_runs_in_the_thread_that_waits() -> None:
    ended: list[int] = []
    threads: list[threading.Thread] = []

    def execute(message: Message, transaction_id: str) -> TransactionState:
        threads.append(threading.current_thread())
        if message.body == b"fails":
            raise ZeroDivisionError
        return TransactionState.COMMIT

    with Opening(
        blocking.TransactionProducer, lambda _: transactions_in_memory(ended, unknown)
    ) as producer:
        result = producer.send_in_transaction(Message(topic="T", body=b"x"), execute)
        assert result.state is TransactionState.COMMIT
        with pytest.raises(ZeroDivisionError):
            producer.send_in_transaction(Message(topic="T", body=b"fails"), execute)
    assert threads == [threading.current_thread()] * 2
    assert ended == [TransactionState.COMMIT.value, TransactionState.UNKNOWN.value]


def test_a_local_transaction_runs_in_the_task_that_waits() -> None:
    ended: list[int] = []

    async def main() -> None:
        tasks = []

        async def execute(message: Message, transaction_id: str) -> TransactionState:
            tasks.append(asyncio.current_task())
            await asyncio.sleep(0)
            return TransactionState.ROLLBACK

        async def hang(message: Message, transaction_id: str) -> TransactionState:
            await asyncio.sleep(60)
            return TransactionState.COMMIT

        async with AioOpening(
            aio.TransactionProducer, lambda _: transactions_in_memory(ended, unknown)
        ) as producer:
            message = Message(topic="T", body=b"x")
            result = await producer.send_in_transaction(message, execute)
            assert result.state is TransactionState.ROLLBACK
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await producer.send_in_transaction(message, hang)
        assert tasks == [asyncio.current_task()]

    asyncio.run(main())
    assert ended == [TransactionState.ROLLBACK.value]  # the other is left to the checks


class BrokenFace:
    def __init__(self, core: Any, bridge: Any) -> None:  # noqa: ANN401 - either face
        self.core, self.bridge = core, bridge


def test_a_client_that_an_error_closes_says_so_at_once_and_in_each_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def broken(bridge: object) -> AsyncIterator[SimpleNamespace]:
        async def end() -> None:
            await ending.wait()
            raise ZeroDivisionError("the client ends")

        ending = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end)
            yield SimpleNamespace(ending=ending)

    def raised(error: BaseException | None) -> str:
        assert isinstance(error, BaseException)
        return repr(error)

    blocking_one = Opening(BrokenFace, broken)
    face = blocking_one.start()
    face.bridge.run(face.core.ending.set)
    until(lambda: face.bridge.closed)
    assert "the client ends" in caplog.text
    with pytest.raises(ClientClosed) as closed:
        face.bridge.call(trio.sleep, 0)
    assert "the client ends" in raised(closed.value.__cause__)
    with pytest.raises(ExceptionGroup, match="nursery"):
        blocking_one.close()

    async def main() -> None:
        caplog.clear()
        aio_one = AioOpening(BrokenFace, broken)
        face = await aio_one.start()
        face.bridge.portal.post(face.core.ending.set)
        await asyncio.to_thread(until, lambda: face.bridge.closed)
        assert "the client ends" in caplog.text
        with pytest.raises(ClientClosed) as closed:
            await face.bridge.call(trio.sleep, 0)
        assert "the client ends" in raised(closed.value.__cause__)
        with pytest.raises(ExceptionGroup, match="nursery"):
            await aio_one.close()

    asyncio.run(main())


def test_a_function_that_is_cancelled_before_its_first_step_has_an_outcome() -> None:
    """Otherwise its place among those that run at once would be taken for good."""
    posted: list[Callable[[], object]] = []
    portal = SimpleNamespace(post=posted.append, over=False)

    async def never() -> None:
        raise AssertionError("it was cancelled")

    async def main() -> None:
        loop = running_loop()
        callback: Callback[None] = Callback(portal, never)  # type: ignore[arg-type]
        loop.start(callback)
        callback.cancel()
        for _ in range(4):
            await asyncio.sleep(0)
        assert len(posted) == 1
        posted[0]()
        assert callback.was_cancelled
        assert callback.over.is_set()

    asyncio.run(main())


@pytest.mark.timeout(60)  # the fault it looks for keeps the loop busy for ever
def test_a_task_that_is_cancelled_as_its_local_transaction_begins_keeps_nobody_waiting() -> None:
    ran: list[str] = []

    async def transaction() -> None:
        ran.append("it ran")

    async def main() -> None:
        waiter: Waiter[None] = Waiter()

        async def call() -> None:
            try:
                await waiter.wait()
            except asyncio.CancelledError:
                await waiter.wait_idly()  # the core ends the call, in a moment
                raise

        task = asyncio.create_task(call())
        await asyncio.sleep(0)
        task.cancel()
        waiter.hand_over(Callback(None, transaction))  # type: ignore[arg-type]
        for _ in range(3):
            await asyncio.sleep(0)
        assert not task.done()
        waiter.deliver(None, None)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ran == []


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    until(lambda: not core_threads())
    assert _portal._current is None


def test_on_sent_is_called_in_a_thread_that_may_use_clients(name_server: str) -> None:
    seen: list[int] = []

    def note(message: Message, outcome: SendResult | LanemqError) -> None:
        assert isinstance(outcome, SendResult)
        number = int(message.body)
        if number == 0:
            producer.send(MESSAGE)  # in the core it would wait for itself
        seen.append(number)
        if number == 1:
            raise LookupError("it is logged")

    with blocking.open_producer(
        "pg", name_servers=name_server, options=PATIENT_PRODUCER
    ) as producer:
        with producer.batching(batch_messages=7) as sender:
            for number in range(30):
                message = Message(topic="PortalTopic", body=b"%d" % number)
                sender.post(message, queue_key="k", on_sent=note)
            sender.flush()
            assert seen == list(range(30))
            sender.post(Message(topic="PortalTopic", body=b"30"), on_sent=note)
        assert seen == list(range(31))  # the end of the block waits as well

        async def wrong(message: Message, outcome: object) -> None: ...

        with producer.batching() as sender, pytest.raises(WrongUse, match="on_sent is an async"):
            sender.post(MESSAGE, on_sent=wrong)  # type: ignore[arg-type]


async def _note_on_the_loop(name_server: str) -> None:
    loop, seen = asyncio.get_running_loop(), list[int]()

    def note(message: Message, outcome: SendResult | LanemqError) -> None:
        assert isinstance(outcome, SendResult)
        assert asyncio.get_running_loop() is loop
        seen.append(int(message.body))

    async with (
        aio.open_producer("pg", name_servers=name_server, options=PATIENT_PRODUCER) as producer,
        producer.batching(batch_messages=7) as sender,
    ):
        for number in range(30):
            message = Message(topic="PortalTopic", body=b"%d" % number)
            await sender.post(message, queue_key="k", on_sent=note)
        await sender.flush()
        assert seen == list(range(30))
        await sender.post(Message(topic="PortalTopic", body=b"30"), on_sent=note)
    assert seen == list(range(31))


def test_on_sent_is_called_on_the_event_loop(name_server: str) -> None:
    asyncio.run(_note_on_the_loop(name_server))


def test_on_sent_may_post_to_its_own_sender_though_that_is_full(name_server: str) -> None:
    seen: list[bytes] = []

    def again(message: Message, outcome: SendResult | LanemqError) -> None:
        seen.append(message.body)
        if message.body == b"1":
            for _ in range(2):
                sender.post(Message(topic="PortalTopic", body=b"2"), on_sent=again)

    with (
        blocking.open_producer(
            "pg", name_servers=name_server, options=PATIENT_PRODUCER
        ) as producer,
        producer.batching(pending_messages=2) as sender,
    ):
        for _ in range(4):
            sender.post(Message(topic="PortalTopic", body=b"1"), on_sent=again)
        until(lambda: len(seen) == 12)
    assert sorted(seen) == [b"1"] * 4 + [b"2"] * 8
