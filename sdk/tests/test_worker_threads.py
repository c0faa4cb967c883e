"""The threads in which the blocking face runs an application's functions."""

import contextvars
import queue
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk.blocking import _threads
from lanemq.sdk.blocking._threads import ListenerThreads, Threads
from lanemq.sdk.consumer.pool._outside_calls import OutsideCall
from lanemq.sdk.faces import _portal_calls

PATIENCE_S = 60.0
"""Far more than anything here takes: the machine may be busy."""


class FakeCallback:
    """A function to be run, and its end."""

    def __init__(self, function: Callable[[], str]) -> None:
        self.function = function
        self.context = contextvars.copy_context()
        self.ended: queue.Queue[tuple[object, BaseException | None]] = queue.Queue()

    def finish(self, value: object, error: BaseException | None) -> None:
        self.ended.put((value, error))


def test_workers_that_run_at_once_have_names_that_tell_them_apart() -> None:
    together = threading.Barrier(4)

    def name() -> str:
        together.wait(30)
        return threading.current_thread().name

    callbacks = [FakeCallback(name) for _ in range(4)]
    for callback in callbacks:
        Threads().start(callback)  # type: ignore[arg-type]
    ends = [callback.ended.get(timeout=30) for callback in callbacks]
    assert [error for _, error in ends] == [None] * 4
    names = {str(value) for value, _ in ends}
    assert len(names) == 4
    assert all(text.startswith("lanemq worker ") for text in names)


class Stand:
    """Threads of one listener, without a core."""

    def __init__(self, function: Callable[..., object], limit: int) -> None:
        self.posts: list[Callable[[], object]] = []
        self.threads = ListenerThreads(
            SimpleNamespace(post=self.posts.append, after_turn=lambda job: job()),  # type: ignore[arg-type]
            function,
            None,  # type: ignore[arg-type]
            ordered=False,
            concurrency=limit,
        )
        self.threads.open(lambda: None)

    def begin(self, *arguments: object, dropped: bool = False) -> list[OutsideCall]:
        """Hand over a call for each argument."""
        consumer: Any = SimpleNamespace(
            held=SimpleNamespace(messages=SimpleNamespace(dropped=dropped))
        )
        batch: Any = None
        listed: list[Any] = list(arguments)
        calls = [OutsideCall(consumer, batch, argument) for argument in listed]
        self.threads.begin(calls)
        return calls

    def end(self, count: int) -> list[OutsideCall]:
        """Wait until so many calls have ended."""
        ended = self.threads.ended
        wait_until(lambda: len(ended) >= count)
        return [ended.popleft() for _ in range(count)]


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what other threads do."""
    tries = threading.Event()
    for _ in range(int(PATIENCE_S / 0.005)):
        if condition():
            return
        tries.wait(0.005)
    raise AssertionError("it did not happen")


@pytest.fixture
def make() -> Iterator[Callable[..., Stand]]:
    stands: list[Stand] = []

    def stand(function: Callable[..., object], limit: int = 4) -> Stand:
        stands.append(Stand(function, limit))
        return stands[-1]

    yield stand
    for one in stands:
        one.threads.close()
        wait_until(lambda one=one: not one.threads._workers)  # type: ignore[misc]


def test_a_listener_that_waits_runs_in_as_many_threads_as_it_may(
    make: Callable[..., Stand],
) -> None:
    together, most, now = threading.Barrier(4), 0, 0
    lock = threading.Lock()

    def handle(number: int) -> str:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        together.wait(PATIENCE_S)
        with lock:
            now -= 1
        return threading.current_thread().name

    stand = make(handle)
    stand.begin(*range(40))
    calls = stand.end(40)
    assert [call.error for call in calls] == [None] * 40
    assert most == 4
    assert len({call.value for call in calls}) == 4


def test_the_core_is_woken_once_for_all_calls_that_end(make: Callable[..., Stand]) -> None:
    stand = make(lambda number: number)
    stand.begin(*range(500))
    assert sorted(str(call.value) for call in stand.end(500)) == sorted(map(str, range(500)))
    assert len(stand.posts) == 1
    stand.posts[0]()  # the core looks, and has to be woken again
    stand.begin(1)
    stand.end(1)
    assert len(stand.posts) == 2


def test_a_call_does_not_see_what_another_left_in_its_context(make: Callable[..., Stand]) -> None:
    tenant: contextvars.ContextVar[int] = contextvars.ContextVar("tenant", default=-1)
    seen = []

    def handle(number: int) -> None:
        seen.append(tenant.get())
        tenant.set(number)

    tenant.set(7)
    stand = make(handle, 1)
    stand.begin(*range(5))
    stand.end(5)
    assert seen == [7] * 5


def test_what_a_function_raises_is_its_outcome_and_the_thread_goes_on(
    make: Callable[..., Stand],
) -> None:
    def handle(error: BaseException) -> None:
        raise error

    errors = [ValueError(), SystemExit(), KeyboardInterrupt()]
    stand = make(handle, 1)
    stand.begin(*errors)
    assert [call.error for call in stand.end(3)] == errors


def test_calls_of_a_dropped_queue_are_not_made(make: Callable[..., Stand]) -> None:
    made: list[int] = []
    stand = make(made.append)
    stand.begin(1, 2, dropped=True)
    assert all(call.was_skipped for call in stand.end(2))
    assert made == []


def test_calls_that_have_not_begun_are_taken_back(make: Callable[..., Stand]) -> None:
    go_on = threading.Event()
    stand = make(lambda number: go_on.wait(PATIENCE_S), 2)
    calls = stand.begin(*range(6))
    wait_until(lambda: len(stand.threads.running()) == 2)
    assert stand.threads.recall() == calls[2:]
    go_on.set()
    assert {id(call) for call in stand.end(2)} == {id(call) for call in calls[:2]}


def test_fewer_and_more_threads_as_the_limit_says(make: Callable[..., Stand]) -> None:
    gates = [threading.Barrier(size + 1) for size in (4, 1, 3)]

    def handle(number: int) -> None:
        gates[number].wait(PATIENCE_S)

    stand = make(handle, 4)
    threads = stand.threads
    for number, size in enumerate((4, 1, 3)):
        threads.limit = size
        stand.begin(*[number] * size, *[number] * size)
        for _ in range(2):
            wait_until(lambda size=size: len(threads.running()) == size)  # type: ignore[misc]
            gates[number].wait(PATIENCE_S)
        stand.end(2 * size)


def test_where_no_thread_can_be_started_it_is_tried_again(
    make: Callable[..., Stand], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    stand = make(lambda number: number)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        stand.begin(1, 2)
        stand.begin(3)
    assert "fewer threads" in caplog.text
    assert not stand.threads.ended

    async def core() -> None:
        (post,) = stand.posts  # it is tried once for all
        post()
        await trio.sleep(2 * _portal_calls.AGAIN_S)

    trio.run(core, clock=MockClock(autojump_threshold=0))
    assert {call.value for call in stand.end(3)} == {1, 2, 3}


def test_threads_that_are_idle_end_and_others_take_their_place(
    make: Callable[..., Stand], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_threads, "IDLE_S", 0.001)
    stand = make(lambda number: None)
    for _ in range(30):
        stand.begin(1, 2, 3)
        stand.end(3)
        wait_until(lambda: not stand.threads._workers)
