"""The statistics of a broker: messages in and out, bytes, rates over several windows.

A hot path makes one call per batch, which adds integers and reads no clock. ``sample`` is
called once a second with the time as an argument; every rate comes from those samples.

Source: RocketMQ 4.9.8, StoreStatsService (the broker's totals and its three rates),
BrokerStatsManager (topics and groups), BrokerStats (yesterday and today).
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar, final

from ...net._turns import LOOKS_OF_A_STEP, Steps
from ._counter import SAMPLE_S, Counter

K = TypeVar("K", bound=Hashable)

TPS_WINDOWS_S: Final = (10, 60, 600)

# Upper edges in milliseconds of the classes in which a write's duration is counted.
PUT_TIME_EDGES_MS: Final = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
PUT_TIME_NAMES: Final = (
    "[<=0ms]",
    "[0~10ms]",
    "[10~50ms]",
    "[50~100ms]",
    "[100~200ms]",
    "[200~500ms]",
    "[500ms~1s]",
    "[1~2s]",
    "[2~3s]",
    "[3~4s]",
    "[4~5s]",
    "[5~10s]",
    "[10s~]",
)

# A counter takes some 2 KiB; a flood of names must not cost memory, so the oldest one goes.
MAX_COUNTERS: Final = 10_000

# Offsets of queues, of 100 bytes each, of all topics and groups.
MAX_PULL_OFFSETS: Final = 400_000


class _Totals(NamedTuple):
    at_s: float
    put: int
    found: int
    missed: int
    transferred: int


@dataclass(frozen=True, slots=True)
class DayTotals:
    """Numbers of messages at three moments; a day's share is the difference of two."""

    yesterday_morning: int
    today_morning: int
    now: int


@final
class BrokerStatistics:
    """The counters of one broker. Not thread-safe: one task writes, in one thread."""

    def __init__(self, *, now_s: float, day: int) -> None:
        self._now_s = self._counters_sampled_s = now_s
        self._day = day
        self.puts = Counter(now_s)
        """All messages that were stored."""
        self.gets = Counter(now_s)
        """All messages that consumers took; its calls are the pulls that found some."""
        self.put_failures = self.pulls_missed = 0
        self.undelivered = 0
        """Delayed messages that could not be delivered."""
        self.puts_timed = 0
        """Number of ``puts`` at the last ``put_took``."""
        self.put_time_max_ms = 0
        self.put_times = [0] * len(PUT_TIME_NAMES)
        self._topics: dict[str, Counter] = {}
        self._groups: dict[tuple[str, str], Counter] = {}
        self._send_backs: dict[tuple[str, str], Counter] = {}
        self._pull_offsets: OrderedDict[tuple[str, str], dict[int, int]] = OrderedDict()
        self._pull_offsets_kept = 0
        self._put_mornings = (0, 0)  # yesterday's and today's
        self._get_mornings = (0, 0)
        self._samples: deque[_Totals] = deque(
            [_Totals(now_s, 0, 0, 0, 0)], maxlen=TPS_WINDOWS_S[-1] + 1
        )

    def put(self, topic: str, messages: int, size_bytes: int) -> None:
        """Count messages accepted for ``topic`` in one call; bytes as written to the log."""
        puts = self.puts
        puts.calls += 1
        puts.messages += messages
        puts.size_bytes += size_bytes
        counter = self._topics.get(topic)
        if counter is None:
            counter = self._new(self._topics, topic)
        counter.calls += 1
        counter.messages += messages
        counter.size_bytes += size_bytes

    def put_failed(self, messages: int = 1) -> None:
        self.put_failures += messages

    def put_took(self, elapsed_ms: int) -> None:
        """Count the duration of one write of the log, however many messages it held."""
        if elapsed_ms > self.put_time_max_ms:
            self.put_time_max_ms = elapsed_ms
        for place, edge_ms in enumerate(PUT_TIME_EDGES_MS):
            if elapsed_ms <= edge_ms:
                self.put_times[place] += 1
                return
        self.put_times[-1] += 1

    def pulled(self, topic: str, group: str, messages: int, size_bytes: int) -> None:
        """Count one pull that found messages."""
        gets = self.gets
        gets.calls += 1
        gets.messages += messages
        gets.size_bytes += size_bytes
        key = (topic, group)
        counter = self._groups.get(key)
        if counter is None:
            counter = self._new(self._groups, key)
        counter.calls += 1
        counter.messages += messages
        counter.size_bytes += size_bytes

    def asked_from(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Note the offset from which a group pulls next: it has all messages before."""
        key = (topic, group)
        offsets = self._pull_offsets.get(key)
        if offsets is None:
            if len(self._pull_offsets) >= MAX_COUNTERS:
                self._forget_oldest_pull_offsets()
            offsets = self._pull_offsets[key] = {}
        if queue_id not in offsets:
            if self._pull_offsets_kept >= MAX_PULL_OFFSETS:
                self._forget_oldest_pull_offsets()
                offsets = self._pull_offsets.setdefault(key, {})  # it may have been the oldest
            self._pull_offsets_kept += 1
        offsets[queue_id] = offset

    def _forget_oldest_pull_offsets(self) -> None:
        self._pull_offsets_kept -= len(self._pull_offsets.popitem(last=False)[1])

    def pull_offset(self, topic: str, group: str, queue_id: int) -> int:
        """Return the offset of the group's last pull of a queue since the start; -1 without any."""
        return self._pull_offsets.get((topic, group), {}).get(queue_id, -1)

    def missed(self) -> None:
        """Count one pull that found nothing."""
        self.pulls_missed += 1

    def sent_back(self, topic: str, group: str) -> None:
        """Count one message that a consumer gave back."""
        key = (topic, group)
        counter = self._send_backs.get(key) or self._new(self._send_backs, key)
        counter.calls += 1
        counter.messages += 1

    def sample(self, now_s: float, day: int) -> Steps[None]:
        """Take the samples that are due; call it once a second, and do its steps.

        ``day`` is any number that changes at local midnight.
        """
        self._now_s = now_s
        self._samples.append(
            _Totals(
                now_s,
                self.puts.messages,
                self.gets.calls,
                self.pulls_missed,
                self.gets.messages,
            )
        )
        if day != self._day:
            self._day = day
            self._put_mornings = (self._put_mornings[1], self.puts.messages)
            self._get_mornings = (self._get_mornings[1], self.gets.messages)
        if now_s - self._counters_sampled_s >= SAMPLE_S:
            self._counters_sampled_s = now_s
            for number, counter in enumerate(self._counters(), 1):
                counter.sample(now_s)
                if number % LOOKS_OF_A_STEP == 0:
                    yield None

    def put_tps(self) -> tuple[float, ...]:
        """Return the messages written per second, over the last 10, 60 and 600 seconds."""
        return self._tps(lambda totals: totals.put)

    def found_tps(self) -> tuple[float, ...]:
        """Return the pulls that found something, per second, as ``put_tps``."""
        return self._tps(lambda totals: totals.found)

    def missed_tps(self) -> tuple[float, ...]:
        """Return the pulls that found nothing, per second, as ``put_tps``."""
        return self._tps(lambda totals: totals.missed)

    def total_tps(self) -> tuple[float, ...]:
        """Return all pulls per second, as ``put_tps``."""
        return self._tps(lambda totals: totals.found + totals.missed)

    def transferred_tps(self) -> tuple[float, ...]:
        """Return the messages handed to consumers per second, as ``put_tps``."""
        return self._tps(lambda totals: totals.transferred)

    def put_day(self) -> DayTotals:
        yesterday, today = self._put_mornings
        return DayTotals(yesterday, today, self.puts.messages)

    def get_day(self) -> DayTotals:
        yesterday, today = self._get_mornings
        return DayTotals(yesterday, today, self.gets.messages)

    def topic(self, topic: str) -> Counter | None:
        return self._topics.get(topic)

    def group(self, topic: str, group: str) -> Counter | None:
        return self._groups.get((topic, group))

    def send_back(self, topic: str, group: str) -> Counter | None:
        return self._send_backs.get((topic, group))

    def group_tps(self, topic: str, group: str, now_s: float) -> float:
        """Return the messages per second that ``group`` took from ``topic`` in the last minute."""
        counter = self._groups.get((topic, group))
        return counter.rates(now_s, of_bytes=False)[0].tps if counter is not None else 0.0

    def forget_topic(self, topic: str) -> None:
        self._topics.pop(topic, None)
        for table in (self._groups, self._send_backs, self._pull_offsets):
            for key in [key for key in table if key[0] == topic]:
                del table[key]
        self._count_pull_offsets()

    def forget_group(self, group: str) -> None:
        for table in (self._groups, self._send_backs, self._pull_offsets):
            for key in [key for key in table if key[1] == group]:
                del table[key]
        self._count_pull_offsets()

    def put_time_quantile_ms(self, quantile: float) -> float:
        """Return the upper edge of the class in which ``quantile`` of the writes ended."""
        wanted = quantile * sum(self.put_times)
        if wanted == 0:
            return 0.0
        seen = 0
        for count, edge_ms in zip(self.put_times, PUT_TIME_EDGES_MS, strict=False):
            seen += count
            if seen >= wanted:
                return float(min(edge_ms, self.put_time_max_ms))
        return float(self.put_time_max_ms)

    def _count_pull_offsets(self) -> None:
        self._pull_offsets_kept = sum(map(len, self._pull_offsets.values()))

    def _new(self, table: dict[K, Counter], key: K) -> Counter:
        if len(table) >= MAX_COUNTERS:
            del table[next(iter(table))]
        counter = table[key] = Counter(self._now_s)
        return counter

    def _counters(self) -> list[Counter]:
        tables = (self._topics, self._groups, self._send_backs)
        return [self.puts, self.gets, *(one for table in tables for one in table.values())]

    def _tps(self, count: Callable[[_Totals], int]) -> tuple[float, ...]:
        # The reference leaves a window out until it is full; its own tools cannot read that.
        last = self._samples[-1]
        rates = []
        for window_s in TPS_WINDOWS_S:
            first = self._samples[max(0, len(self._samples) - 1 - window_s)]
            elapsed_s = last.at_s - first.at_s
            rates.append((count(last) - count(first)) / elapsed_s if elapsed_s > 0 else 0.0)
        return tuple(rates)
