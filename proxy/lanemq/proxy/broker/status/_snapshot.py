"""A snapshot of what a broker counts: one value that all presenters write in their own forms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, final

from attrs import define, field

from lanemq.storage import Store, StoreStatistics
from lanemq.wire import SystemTopic

from ...net._loop_watch import loop_watch
from ...net.limits._budget import Budget
from ..context._context import BrokerContext
from ..state._stats import BrokerStatistics


@final
@dataclass(frozen=True, slots=True)
class TimerStatus:
    """The progress of timers."""

    pending: int
    messages_behind: int
    """Messages with a timer that are not indexed yet."""
    behind_s: int


@final
@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """The numbers of one moment. Totals count from the start of the broker."""

    started_ms: int
    """Milliseconds since 1970."""
    uptime_s: float
    messages_in: int
    bytes_in: int
    sends_failed: int
    messages_out: int
    bytes_out: int
    pulls_found: int
    pulls_missed: int
    undelivered: int
    """Delayed messages that could not be delivered."""
    write_max_ms: int
    write_p99_ms: float
    write_p999_ms: float
    store: StoreStatistics
    oldest_ms: int
    """Store time of the oldest message; -1 without any."""
    disk_ratio: float
    """Used share of the disk, 0 to 1."""
    timers: TimerStatus
    loop_held: int
    """Turns of the loop that were longer than 100 ms."""
    loop_longest_s: float
    task_failures: int
    refused: int | None
    """Requests that accounts did not permit; None where none are checked."""
    connections: int
    """Connections of the process, to all its ports."""
    peer_bytes: int
    """Memory kept for peers, of ``peer_bytes_max``."""
    peer_bytes_max: int


@final
@define(eq=False, kw_only=True, repr=False)
class StatusReader:
    """Reads the status of one broker."""

    _budget: Budget
    _now_ms: Callable[[], int]
    _now_s: Callable[[], float]
    _refusals: Callable[[], int] | None
    _statistics: BrokerStatistics
    _store: Store
    _started_ms: int = field(init=False)
    _started_s: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._started_ms, self._started_s = self._now_ms(), self._now_s()

    @classmethod
    def of(cls, broker: BrokerContext) -> Self:
        """Return the reader of a broker; its time begins now."""
        control = broker.access_control
        return cls(
            budget=broker.budget,
            now_ms=broker.now_ms,
            now_s=broker.now_s,
            refusals=None if control is None else lambda: control.refusals.count,
            statistics=broker.statistics,
            store=broker.store,
        )

    def read(self) -> BrokerStatus:
        """Return the numbers of now."""
        statistics, store, watch = self._statistics, self._store, loop_watch()
        log = store.statistics()
        oldest = store.message_at(log.min_position)
        return BrokerStatus(
            started_ms=self._started_ms,
            uptime_s=self._now_s() - self._started_s,
            messages_in=statistics.puts.messages,
            bytes_in=statistics.puts.size_bytes,
            sends_failed=statistics.put_failures,
            messages_out=statistics.gets.messages,
            bytes_out=statistics.gets.size_bytes,
            pulls_found=statistics.gets.calls,
            pulls_missed=statistics.pulls_missed,
            undelivered=statistics.undelivered,
            write_max_ms=statistics.put_time_max_ms,
            write_p99_ms=statistics.put_time_quantile_ms(0.99),
            write_p999_ms=statistics.put_time_quantile_ms(0.999),
            store=log,
            oldest_ms=oldest.store_timestamp_ms if oldest is not None else -1,
            disk_ratio=store.disk_ratio(),
            timers=self._timers(),
            loop_held=watch.held,
            loop_longest_s=watch.longest_s,
            task_failures=store.supervisor.failures.total(),
            refused=None if self._refusals is None else self._refusals(),
            connections=self._budget.peers,
            peer_bytes=self._budget.used_bytes,
            peer_bytes_max=self._budget.limit_bytes,
        )

    def _timers(self) -> TimerStatus:
        timers, behind_s, behind = self._store.timers, 0, 0
        if timers is not None:
            end = self._store.bounds(SystemTopic.TIMER, 0)[1]
            behind = max(0, end - timers.next_offset)
            if timers.pending:
                behind_s = max(0, self._now_ms() - timers.read_ms) // 1000
        return TimerStatus(timers.pending if timers is not None else 0, behind, behind_s)
