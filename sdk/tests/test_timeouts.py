"""Requests that other threads have sent: each has one outcome, in time."""

import threading
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import BrokerUnreachable
from lanemq.sdk.net._timeouts import EXPIRED, Timeouts


def add(timeouts: Timeouts, number: int, deadline_s: float, outcomes: list[object]) -> bool:
    """Add a request in a thread of its own."""
    has_to_look: list[bool] = []
    thread = threading.Thread(
        target=lambda: has_to_look.append(timeouts.add(number, deadline_s, outcomes.append))
    )
    thread.start()
    thread.join()
    return has_to_look[0]


async def test_an_answer_comes_once_and_a_late_one_never(autojump_clock: MockClock) -> None:
    timeouts, outcomes = Timeouts(), list[object]()
    add(timeouts, 1, 3.0, outcomes)
    timeouts.answer(1, "answer")
    timeouts.answer(1, "again")
    add(timeouts, 2, 3.0, outcomes)
    assert timeouts.forget(2)
    assert not timeouts.forget(2)
    timeouts.answer(2, "late")
    assert outcomes == ["answer"]
    assert len(timeouts) == 0


async def test_each_request_expires_in_its_time(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    timeouts, expired = Timeouts(), list[tuple[int, float]]()
    nursery.start_soon(timeouts.watch)
    await wait_all_tasks_blocked()
    started_s = trio.current_time()

    def note(number: int, outcome: object) -> None:
        assert outcome is EXPIRED
        expired.append((number, trio.current_time() - started_s))

    looks = []
    for number, seconds in ((1, 5), (2, 3), (3, 4), (4, 9)):
        looks.append(timeouts.add(number, started_s + seconds, partial(note, number)))
        if looks[-1]:
            timeouts.look()
            await wait_all_tasks_blocked()
        assert expired == []
    assert looks == [True, True, False, False]  # the core wakes for the earliest by itself
    await trio.sleep(10)
    assert expired == [(2, 3), (3, 4), (1, 5), (4, 9)]


async def test_what_is_answered_is_kept_no_longer(autojump_clock: MockClock) -> None:
    timeouts, outcomes = Timeouts(), list[object]()
    for number in range(1000):
        add_here = timeouts.add(number, 3.0, outcomes.append)
        assert add_here
        timeouts.answer(number, number)
    assert len(outcomes) == 1000
    assert not timeouts._added
    assert not timeouts._heap


async def test_the_end_of_a_connection_fails_tasks_and_functions_alike(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    timeouts, outcomes = Timeouts(), list[object]()

    async def wait() -> None:
        with pytest.raises(BrokerUnreachable, match="gone"):
            await timeouts.wait(1, 3.0)

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    add(timeouts, 2, 3.0, outcomes)
    timeouts.fail_all(BrokerUnreachable, "b:1", "gone")
    assert [str(outcome) for outcome in outcomes] == [str(BrokerUnreachable("b:1", "gone"))]
    assert len(timeouts) == 0
