"""Work that processes share: each part is done once, and none of them outlives the first."""

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from threading import Event
from typing import Any

import pytest

from lanemq.storage import _workers
from lanemq.storage._workers import Workers

# Another process says that it works, and neither ends by itself.
SCRIPT = """
from lanemq.storage._workers import Workers

if __name__ == "__main__":
    sleep = "import time; time.sleep(600)"
    Workers(2).share(["print('working', flush=True); " + sleep, sleep], here=exec, there=exec)
"""


@pytest.fixture
def two() -> Iterator[Workers]:
    workers = Workers(2)
    yield workers
    workers.close()


@pytest.fixture
def others_took_one(monkeypatch: pytest.MonkeyPatch) -> Event:
    """An event that is set once another process got a part."""
    took = Event()
    submit = ProcessPoolExecutor.submit

    def submitted(
        pool: ProcessPoolExecutor, call: Callable[[object], object], part: object
    ) -> "Future[object]":
        try:
            return submit(pool, call, part)
        finally:
            took.set()

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submitted)
    return took


def first_wait(event: Event, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(part: object) -> object:
        assert event.wait(60)
        return call(part)

    return run


def test_the_last_part_may_be_taken_by_another_between_a_look_and_a_grip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stale(deque[Any]):
        """It had one more part when it was looked at."""

        def __len__(self) -> int:
            return super().__len__() + 1

    monkeypatch.setattr(_workers, "deque", Stale)
    assert Workers(1).share([1, 2], here=str, there=str) == ["1", "2"]


def test_one_process_does_all_of_it() -> None:
    workers = Workers(1)
    assert workers.share([-1, 2, -3], here=abs, there=os._exit) == [1, 2, 3]


@pytest.mark.slow
def test_results_come_in_the_order_of_the_parts(two: Workers, others_took_one: Event) -> None:
    parts = [str(number) for number in range(100)]
    for _ in range(2):
        here = first_wait(others_took_one, int)
        assert two.share(parts, here=here, there=int) == list(range(100))
        others_took_one.clear()


@pytest.mark.slow
def test_what_is_raised_in_another_process_is_raised_here(
    two: Workers, others_took_one: Event
) -> None:
    with pytest.raises(ValueError, match="not a number"):
        two.share(["not a number"] * 2, here=first_wait(others_took_one, str), there=int)


@pytest.mark.slow
def test_the_part_of_a_process_that_dies_is_done_here(two: Workers, others_took_one: Event) -> None:
    parts = list(range(10))
    for _ in range(2):
        here = first_wait(others_took_one, abs)
        assert two.share(parts, here=here, there=os._exit) == parts
        others_took_one.clear()


@pytest.mark.slow
def test_an_interrupt_is_left_to_the_process_that_shares_its_work(
    two: Workers, others_took_one: Event
) -> None:
    interrupt = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    here = first_wait(others_took_one, str)
    assert two.share([interrupt] * 2, here=here, there=exec) == [None, interrupt]


@pytest.mark.slow
def test_other_processes_end_with_one_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"working\n"
        os.kill(first.pid, signal.SIGKILL)
        assert first.stdout.read() == b""  # its end comes when none is left that could write
