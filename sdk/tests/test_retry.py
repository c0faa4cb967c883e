"""A listener says when its messages come again, and which of them are settled all the same."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    ConsumeHook,
    Consumption,
    ListenerContext,
    OrderlyListener,
    ReceivedMessage,
    Retry,
    StagedConcurrentListener,
    blocking,
)
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster

Calls = list[tuple[float, int, list[bytes]]]


class Answering:
    """A listener that answers its calls from a list, and notes time, attempt and bodies."""

    def __init__(self, *answers: Retry, wanted: int) -> None:
        self.calls: Calls = []
        self.done = trio.Event()
        self._answers = list(answers)
        self._wanted = wanted  # messages, each as often as it comes

    async def handle(
        self, messages: Sequence[ReceivedMessage], context: ListenerContext
    ) -> Retry | None:
        bodies = [message.body for message in messages]
        self.calls.append((round(trio.current_time(), 1), context.attempt, bodies))
        if sum(len(bodies) for _, _, bodies in self.calls) >= self._wanted:
            self.done.set()
        return self._answers.pop(0) if self._answers else None


async def consume(cluster: FakeCluster, listener: Any, done: trio.Event, **settings: Any) -> None:  # noqa: ANN401
    async with push_consumer_of(
        cluster, listener, group="g", consume_from=ConsumeFrom.FIRST_OFFSET, **settings
    ):
        await done.wait()


def fill(cluster: FakeCluster, count: int) -> None:
    for number in range(count):
        cluster.broker.put("T", 0, b"%d" % number)


async def test_the_broker_delivers_again_after_the_level_that_was_asked_for(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 1)
    # 5 s and 1 s by the broker's table; without a level the third would take 30 s.
    asked = Answering(Retry(delay_level=2), Retry(delay_level=1), wanted=3)
    await consume(cluster, ConcurrentListener(asked.handle), asked.done)
    times = [at_s for at_s, _, _ in asked.calls]
    assert [attempt for _, attempt, _ in asked.calls] == [1, 2, 3]
    assert 5 <= times[1] - times[0] < 6
    assert 1 <= times[2] - times[1] < 2


async def test_what_is_settled_of_a_batch_does_not_come_again(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 5)
    told = Answering(Retry(settled=3, delay_level=1), wanted=7)
    events: list[Consumption] = []
    await consume(
        cluster,
        ConcurrentListener(told.handle, batch_messages=5, concurrency=1),
        told.done,
        hooks=(ConsumeHook(after=events.append),),
    )
    (_, _, first), *again = told.calls
    assert first == [b"0", b"1", b"2", b"3", b"4"]
    assert sorted(body for _, _, bodies in again for body in bodies) == [b"3", b"4"]
    assert [event.succeeded for event in events] == [False] + [True] * len(again)
    assert cluster.broker.offsets["g", "T", 0] == 5


@pytest.mark.parametrize("settled", [5, 7])
async def test_a_batch_may_be_settled_to_its_end(
    cluster: FakeCluster, autojump_clock: MockClock, settled: int
) -> None:
    fill(cluster, 6)
    told = Answering(Retry(settled=settled, delay_level=1), wanted=6)
    await consume(
        cluster, ConcurrentListener(told.handle, batch_messages=5, concurrency=1), told.done
    )
    assert [bodies for _, _, bodies in told.calls[1:]] == [[b"5"]]
    assert "%RETRY%g" not in cluster.broker.topics or not cluster.broker.messages("%RETRY%g")


@pytest.mark.parametrize(
    "make",
    [
        lambda handle: OrderlyListener(handle, batch_messages=5, suspend_s=60),
        lambda handle: StagedConcurrentListener(
            handle, stages=[5, 5], batch_messages=5, suspend_s=60, concurrency=1
        ),
    ],
)
async def test_a_listener_with_an_order_goes_on_behind_what_is_settled_after_its_own_pause(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    make: Any,  # noqa: ANN401
) -> None:
    fill(cluster, 6)
    told = Answering(Retry(settled=2, suspend_s=7), Retry(settled=3), wanted=9)
    await consume(cluster, make(told.handle), told.done)
    (first_s, *first), (again_s, *again), (_, *last) = told.calls
    assert first == [1, [b"0", b"1", b"2", b"3", b"4"]]
    assert again == [2, [b"2", b"3", b"4"]]
    assert last == [1, [b"5"]]
    assert 7 <= again_s - first_s < 8
    assert cluster.broker.offsets["g", "T", 0] == 6


def test_values_that_make_no_sense_are_refused() -> None:
    for values in ({"settled": -1}, {"delay_level": 19}, {"delay_level": -1}, {"suspend_s": -1}):
        with pytest.raises(ValueError, match=rf"Retry\.{next(iter(values))}"):
            Retry(**values)
    assert blocking.Retry is Retry
