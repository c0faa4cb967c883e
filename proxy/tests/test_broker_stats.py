"""Counts are exact at any moment; rates come from the samples alone."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.broker.state import _stats
from lanemq.proxy.broker.state._counter import Rate
from lanemq.proxy.broker.state._stats import (
    MAX_COUNTERS,
    PUT_TIME_NAMES,
    BrokerStatistics,
    DayTotals,
)
from lanemq.proxy.net._turns import LOOKS_OF_A_STEP, all_steps


def statistics() -> BrokerStatistics:
    return BrokerStatistics(now_s=0.0, day=1)


def test_a_steady_stream_has_one_rate_in_every_window() -> None:
    stats = statistics()
    for second in range(1, 701):
        stats.put("T", 7, 700)
        all_steps(stats.sample(float(second), 1))
    assert stats.put_tps() == (7.0, 7.0, 7.0)


def test_the_windows_end_at_the_last_sample_and_begin_10_60_and_600_seconds_before() -> None:
    stats = statistics()
    for second in range(1, 1001):
        if second > 990:
            stats.put("T", 60, 60)
        all_steps(stats.sample(float(second), 1))
    assert stats.put_tps() == (60.0, 10.0, 1.0)


def test_a_young_broker_still_reports_three_numbers() -> None:
    stats = statistics()
    assert stats.put_tps() == (0.0, 0.0, 0.0)
    stats.put("T", 10, 10)
    all_steps(stats.sample(2.0, 1))
    assert stats.put_tps() == (5.0, 5.0, 5.0)


def test_found_and_missed_pulls_add_up_to_the_total() -> None:
    stats = statistics()
    stats.pulled("T", "g", 32, 3200)
    stats.missed()
    stats.missed()
    all_steps(stats.sample(1.0, 1))
    assert stats.found_tps()[0] == 1.0
    assert stats.missed_tps()[0] == 2.0
    assert stats.total_tps()[0] == 3.0
    assert stats.transferred_tps()[0] == 32.0


def test_a_topic_is_counted_in_messages_and_in_bytes() -> None:
    stats = statistics()
    stats.put("T", 2, 100)
    stats.put("T", 4, 300)
    counter = stats.topic("T")
    assert counter is not None
    assert counter.rates(10.0, of_bytes=False) == (Rate(6, 0.6, 3.0),) * 3
    assert counter.rates(10.0, of_bytes=True) == (Rate(400, 40.0, 200.0),) * 3
    assert stats.topic("other") is None


def test_the_minute_forgets_what_the_hour_still_knows() -> None:
    stats = statistics()
    stats.put("T", 60, 60)
    for second in range(1, 301):
        all_steps(stats.sample(float(second), 1))
    counter = stats.topic("T")
    assert counter is not None
    minute, hour, day = counter.rates(300.0, of_bytes=False)
    assert (minute.sum, hour.sum, day.sum) == (0, 60, 60)


def test_midnight_makes_today_of_now_and_yesterday_of_today() -> None:
    stats = statistics()
    stats.put("T", 5, 5)
    all_steps(stats.sample(1.0, 2))
    stats.put("T", 3, 3)
    stats.pulled("T", "g", 4, 4)
    assert stats.put_day() == DayTotals(yesterday_morning=0, today_morning=5, now=8)
    all_steps(stats.sample(2.0, 3))
    assert stats.put_day() == DayTotals(yesterday_morning=5, today_morning=8, now=8)
    assert stats.get_day() == DayTotals(yesterday_morning=0, today_morning=4, now=4)


def test_a_deleted_topic_or_group_takes_its_counters_along() -> None:
    stats = statistics()
    stats.put("T", 1, 1)
    stats.pulled("T", "g", 1, 1)
    stats.sent_back("T", "g")
    stats.pulled("U", "g", 1, 1)
    stats.forget_topic("T")
    assert (stats.topic("T"), stats.group("T", "g"), stats.send_back("T", "g")) == (None,) * 3
    assert stats.group("U", "g") is not None
    stats.forget_group("g")
    assert stats.group("U", "g") is None
    assert stats.puts.messages == 1


def test_the_number_of_counters_is_bounded() -> None:
    stats = statistics()
    for number in range(MAX_COUNTERS + 10):
        stats.put(f"T{number}", 1, 1)
    assert stats.topic("T0") is None
    assert stats.topic(f"T{MAX_COUNTERS + 9}") is not None


def test_the_number_of_pull_offsets_is_bounded() -> None:
    stats, most = statistics(), 20
    with patch.object(_stats, "MAX_PULL_OFFSETS", most):
        for number in range(most):
            stats.asked_from(f"T{number % 2}", "g", number, number)
        stats.asked_from("T0", "g", 0, 5)  # a known queue takes no place
        assert stats.pull_offset("T0", "g", 0) == 5
        stats.asked_from("T1", "g", 100, 7)  # and the oldest go
        offsets = [stats.pull_offset(f"T{number % 2}", "g", number) for number in range(most)]
        assert offsets == [number if number % 2 else -1 for number in range(most)]
        for number in range(3 * most):
            stats.asked_from("T2", "g", number, number)
        assert sum(stats.pull_offset("T2", "g", number) >= 0 for number in range(3 * most)) == most
        stats.forget_group("g")
        for number in range(most):
            stats.asked_from("T3", "g", number, number)
        assert all(stats.pull_offset("T3", "g", number) == number for number in range(most))


@pytest.mark.parametrize(
    ("elapsed_ms", "name"),
    [(0, "[<=0ms]"), (10, "[0~10ms]"), (11, "[10~50ms]"), (4000, "[3~4s]"), (99_999, "[10s~]")],
)
def test_a_write_is_counted_in_the_class_of_its_duration(elapsed_ms: int, name: str) -> None:
    stats = statistics()
    stats.put_took(elapsed_ms)
    assert stats.put_times[PUT_TIME_NAMES.index(name)] == 1
    assert sum(stats.put_times) == 1
    assert stats.put_time_max_ms == elapsed_ms


@given(st.lists(st.integers(0, 20_000), min_size=1))
def test_no_quantile_exceeds_the_longest_write(durations_ms: list[int]) -> None:
    stats = statistics()
    for elapsed_ms in durations_ms:
        stats.put_took(elapsed_ms)
    assert (
        0 <= stats.put_time_quantile_ms(0.99) <= stats.put_time_quantile_ms(1) <= max(durations_ms)
    )


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.integers(1, 32), st.integers(1, 4096))))
def test_the_topics_add_up_to_the_broker(calls: list[tuple[str, int, int]]) -> None:
    stats = statistics()
    for topic, messages, size_bytes in calls:
        stats.put(topic, messages, size_bytes)
    counters = [counter for topic in "ABC" if (counter := stats.topic(topic)) is not None]
    assert sum(counter.messages for counter in counters) == stats.puts.messages
    assert sum(counter.size_bytes for counter in counters) == stats.puts.size_bytes
    assert sum(counter.calls for counter in counters) == stats.puts.calls == len(calls)


def test_one_step_of_a_sample_looks_at_no_more_than_a_turn_has_time_for() -> None:
    stats = BrokerStatistics(now_s=0.0, day=1)
    for number in range(3 * LOOKS_OF_A_STEP):
        stats.put(f"t{number}", 1, 1)
    steps, count = stats.sample(10.0, 1), 1
    for _ in steps:
        stats.forget_topic(f"t{count}")  # others work between
        count += 1
    assert count == 4
    counter = stats.topic(f"t{3 * LOOKS_OF_A_STEP - 1}")
    assert counter is not None
    assert counter.rates(20.0, of_bytes=False)[0].sum == 1
