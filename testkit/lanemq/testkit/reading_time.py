"""The time that texts of peers take to read: linear, and little at their greatest length.

A reader is one line of a table: its name, a maker of the worst texts of a length, the function that
reads them, and the greatest length that gets to it. Processor time is measured, of the quickest of
several runs; where the machine is slow, or busy, more of it is allowed. A measurement that fails is
repeated: a neighbour can slow a processor down for longer than one takes.
"""

import gc
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

import trio
import trio.testing

REQUEST_S: Final = 0.010
"""Seconds of processor time that the texts of one request may take."""
HEARTBEAT_S: Final = 0.050
"""Seconds of processor time for those of one heartbeat."""

_RUNS: Final = 5
_MEASUREMENTS: Final = 8
_GROWTH: Final = 2.5  # of what linear growth gives: a longer text may leave the caches
_NOISE_S: Final = 0.001
_STEPS: Final = 200_000
_STEPS_S: Final = 0.010
"""Seconds that so many steps of a loop take on the machine for which the bounds are meant."""
_TEXTS: Final = json.dumps([f"10.12.{number}.14:10911" for number in range(30_000)])
_TEXTS_S: Final = 0.0028
"""Seconds that reading so many texts takes there: a neighbour may slow down memory alone."""


class TextReader(NamedTuple):
    """A function that reads what peers send, and the worst that they may send it."""

    name: str
    make: Callable[[int], Any]
    """Makes a text of that length, or one with that number of parts."""
    read: Callable[[Any], object]
    """Reads it; what it raises is an answer, too."""
    greatest: int
    """The greatest length that gets to it; a longer text is refused before."""


def repeated(head: str, unit: str, tail: str = "") -> Callable[[int], str]:
    """Return a maker of texts: ``head``, then ``unit`` time and again, then ``tail``."""

    def make(length: int) -> str:
        return head + unit * ((length - len(head) - len(tail)) // len(unit)) + tail

    return make


def time_s(read: Callable[[Any], object], text: object) -> float:
    """Return the seconds of processor time that the quickest of some runs took."""
    best = float("inf")
    for _ in range(_RUNS):
        gc.disable()  # what other tests have left is not this reader's work
        begun = time.thread_time()
        try:
            with suppress(Exception):
                read(text)
            best = min(best, time.thread_time() - begun)
        finally:
            gc.enable()
    return best


def check_reader(reader: TextReader, most_s: float = REQUEST_S) -> None:
    """Assert that the time grows no faster than the text, and is ``most_s`` at most."""
    for _ in range(_MEASUREMENTS - 1):
        with suppress(AssertionError):
            _measure(reader, most_s)
            return
    _measure(reader, most_s)


def _measure(reader: TextReader, most_s: float) -> None:
    quarter, half, whole = (
        time_s(reader.read, reader.make(reader.greatest // parts)) for parts in (4, 2, 1)
    )
    for shorter_s, times in ((quarter, 4), (half, 2)):
        assert whole <= _GROWTH * times * shorter_s + _NOISE_S, (
            f"{reader.name}: {shorter_s * 1e3:.2f} ms, and {whole * 1e3:.2f} ms for a text "
            f"{times} times as long"
        )
    _bound(reader, whole, most_s)


def check_bound(reader: TextReader, most_s: float) -> None:
    """Assert that the time is ``most_s`` at most, for one whose time grows in steps."""
    for _ in range(_MEASUREMENTS - 1):
        with suppress(AssertionError):
            _bound(reader, time_s(reader.read, reader.make(reader.greatest)), most_s)
            return
    _bound(reader, time_s(reader.read, reader.make(reader.greatest)), most_s)


def _bound(reader: TextReader, whole_s: float, most_s: float) -> None:
    allowed_s = most_s * slowness()
    assert whole_s <= allowed_s, (
        f"{reader.name}: {whole_s * 1e3:.2f} ms at the greatest length, {reader.greatest}, where "
        f"{allowed_s * 1e3:.2f} are allowed"
    )


def slowness() -> float:
    """Return how much slower than meant this machine is now; 1 at least."""

    def step(number: object) -> None:
        total = 0
        for value in range(_STEPS):
            total += value

    steps, texts = time_s(step, None) / _STEPS_S, time_s(json.loads, _TEXTS) / _TEXTS_S
    return max(1.0, 1.5 * steps, 1.5 * texts)


class Steps(trio.abc.Instrument):
    """The processor time of the longest step of a task other than the test's own."""

    def __init__(self) -> None:
        self._test = trio.lowlevel.current_task()
        self._begun_s = time.thread_time()
        self.longest_s = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begun_s = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is not self._test:
            self.longest_s = max(self.longest_s, time.thread_time() - self._begun_s)


@asynccontextmanager
async def longest_step(found: list[float]) -> AsyncIterator[None]:
    """Add the processor time of the longest step of the block to ``found``."""
    steps = Steps()
    gc.collect()
    gc.disable()  # what other tests have left is not this request's work
    trio.lowlevel.add_instrument(steps)
    try:
        yield
        await trio.testing.wait_all_tasks_blocked()
    finally:
        trio.lowlevel.remove_instrument(steps)
        gc.enable()
    found.append(steps.longest_s)
