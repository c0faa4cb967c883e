"""The small parts: local offsets, time limits, statistics, groups of errors, addresses."""

from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.sdk import BrokerUnreachable, MessageQueue, RefusedByBroker
from lanemq.sdk._tasks import lone_error, open_quiet_nursery
from lanemq.sdk.consumer.group._offsets import LocalOffsets
from lanemq.sdk.net._discovery import parse_addresses
from lanemq.sdk.net._local_ip import local_ip
from lanemq.sdk.net._timeouts import EXPIRED, Timeouts
from lanemq.sdk.observe._consume_stats import TopicStats
from lanemq.sdk.producer._queue_chooser import QueueChooser

A, B = MessageQueue("T", "a", 0), MessageQueue("T", "b", 1)


# Local offsets


async def test_local_offsets_survive_and_keep_what_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "g.json"
    first = LocalOffsets(path)
    assert await first.load(A) is None
    first.update(A, 5)
    first.update(B, 7)
    await first.persist(wait=True)
    second = LocalOffsets(path)
    second.update(A, 9)
    await second.persist([A], wait=False)
    third = LocalOffsets(path)
    assert (await third.load(A), await third.load(B)) == (9, 7)
    assert third.get(A) is None


async def test_a_torn_offset_file_gives_way_to_its_backup(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    offsets = LocalOffsets(path)
    for offset in (5, 6):
        offsets.update(A, offset)
        await offsets.persist(wait=True)
    path.write_bytes(path.read_bytes()[:-7])
    assert await LocalOffsets(path).load(A) == 5


async def test_the_offset_file_has_the_form_of_the_java_clients(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    offsets = LocalOffsets(path)
    offsets.update(A, 5)
    await offsets.persist(wait=True)
    assert path.read_bytes() == (b'{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:5}}')


async def test_a_folder_that_cannot_be_written_is_no_catastrophe(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    offsets = LocalOffsets(tmp_path / "file" / "g.json")
    offsets.update(A, 5)
    await offsets.persist(wait=True)
    assert offsets.get(A) == 5
    assert "cannot write the offsets" in caplog.text


# Time limits


@given(
    calls=st.lists(
        st.tuples(st.integers(1, 100), st.one_of(st.none(), st.integers(0, 120))), max_size=30
    )
)
def test_every_call_ends_by_its_answer_or_exactly_at_its_time(
    calls: list[tuple[int, int | None]],
) -> None:
    ends: dict[int, tuple[float, object]] = {}

    async def wait(timeouts: Timeouts, number: int, limit_s: int) -> None:
        result = await timeouts.wait(number, limit_s)
        ends[number] = trio.current_time(), result

    async def answer(timeouts: Timeouts, number: int, after_s: int) -> None:
        await trio.sleep_until(after_s + 0.5)
        timeouts.answer(number, number)

    async def main() -> None:
        timeouts = Timeouts()
        async with trio.open_nursery() as watching:
            watching.start_soon(timeouts.watch)
            async with trio.open_nursery() as nursery:
                for number, (limit_s, after_s) in enumerate(calls):
                    nursery.start_soon(wait, timeouts, number, limit_s)
                    if after_s is not None:
                        nursery.start_soon(answer, timeouts, number, after_s)
            assert len(timeouts) == 0
            watching.cancel_scope.cancel()

    clock = MockClock(autojump_threshold=0)
    trio.run(main, clock=clock)
    for number, (limit_s, after_s) in enumerate(calls):
        if after_s is not None and after_s + 0.5 < limit_s:
            assert ends[number] == (after_s + 0.5, number)
        else:
            assert ends[number] == (limit_s, EXPIRED)


async def test_what_is_kept_of_answered_calls_is_bounded(autojump_clock: MockClock) -> None:
    timeouts = Timeouts()

    async def wait(number: int) -> None:
        await timeouts.wait(number, 1000.0 + number)

    async with trio.open_nursery() as nursery:
        for number in range(1000):
            nursery.start_soon(wait, number)
            await trio.testing.wait_all_tasks_blocked()
            timeouts.answer(number, None)
    assert timeouts._heap == []


async def test_a_failure_reaches_every_waiter_as_its_own_error(autojump_clock: MockClock) -> None:
    timeouts, errors = Timeouts(), []

    async def wait(number: int) -> None:
        with pytest.raises(BrokerUnreachable) as caught:
            await timeouts.wait(number, 1000.0)
        errors.append(caught.value)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(wait, number)
        await trio.testing.wait_all_tasks_blocked()
        timeouts.fail_all(BrokerUnreachable, "h:1", "gone")
    assert len({id(error) for error in errors}) == 3


# Statistics


def test_rates_are_those_of_the_last_minute() -> None:
    stats = TopicStats(1000.0)
    for second in range(120):
        stats.pulled(1000.0 + second, 10, 0.02)
        stats.consumed(1000.0 + second, 9, 0.09, ok=True)
        stats.consumed(1000.0 + second, 1, 0.01, ok=False)
    status = stats.status(1120.0)
    assert status.pull_tps == pytest.approx(10, rel=0.1)
    assert status.consume_ok_tps == pytest.approx(9, rel=0.1)
    assert status.consume_failed_tps == pytest.approx(1, rel=0.1)
    assert status.consume_rt == pytest.approx(10)
    assert status.pull_rt == pytest.approx(20)
    assert status.consume_failed_msgs == 120
    assert stats.status(2000.0).consume_ok_tps == 0


# Errors


def test_a_lone_error_is_found_however_deep_and_among_cancellations() -> None:
    error = KeyError("x")
    group = BaseExceptionGroup("", [BaseExceptionGroup("", [error])])
    assert lone_error(group) is error
    two = BaseExceptionGroup("", [error, ValueError()])
    assert lone_error(two) is two


async def test_several_errors_stay_a_group() -> None:
    async def fail(error: Exception) -> None:
        raise error

    with pytest.RaisesGroup(KeyError, ValueError):
        async with open_quiet_nursery() as nursery:
            nursery.start_soon(fail, KeyError())
            nursery.start_soon(fail, ValueError())


async def test_a_cancellation_from_outside_is_not_an_error() -> None:
    with trio.move_on_after(0) as scope:
        async with open_quiet_nursery():
            await trio.sleep_forever()
    assert scope.cancelled_caught


def test_a_refusal_names_its_code_known_or_not() -> None:
    assert str(RefusedByBroker(14, "full", "h:1")) == (
        "h:1 refused with 14 (SERVICE_NOT_AVAILABLE): full"
    )
    assert str(RefusedByBroker(4711, None)) == "refused with 4711 (unknown code): no remark"
    assert RefusedByBroker(14, None).retriable
    assert not RefusedByBroker(13, None).retriable


# Addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:1", ("h:1",)),
        (" h:1 ; g:2;", ("h:1", "g:2")),
        ("h:1,g:2", ("h:1", "g:2")),
        (["h:1", "g:2", "h:1"], ("h:1", "g:2")),
        ("[::1]:9876", ("[::1]:9876",)),
    ],
)
def test_name_servers_are_written_in_several_ways(
    text: str | list[str], expected: tuple[str, ...]
) -> None:
    assert parse_addresses(text) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "a-name.invalid", ""])
def test_the_local_address_is_always_one(host: str) -> None:
    assert len(local_ip(host)) in (4, 16)
    assert local_ip("127.0.0.1") == bytes((127, 0, 0, 1))


# Choosing queues


@given(brokers=st.integers(1, 4), queues=st.integers(1, 5), failed=st.integers(0, 4))
def test_the_failed_broker_is_avoided_if_there_is_another(
    brokers: int, queues: int, failed: int
) -> None:
    every = tuple(MessageQueue("T", f"b{b}", q) for b in range(brokers) for q in range(queues))
    chooser, name = QueueChooser(), f"b{failed}"
    chosen = [chooser.choose(every, name) for _ in range(3 * len(every))]
    others = {queue for queue in every if queue.broker_name != name}
    assert set(chosen) == (others or set(every))
