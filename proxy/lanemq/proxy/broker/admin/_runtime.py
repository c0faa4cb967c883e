"""The runtime information of a broker (GET_BROKER_RUNTIME_INFO, 28).

Tools print the keys as they are and compute with some of them, so names, spelling and the
form of the values are the reference's. lanemq has no thread pools: the queues before them are
reported as empty.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.prepareRuntimeInfo, StoreStatsService.getRuntimeInfo,
DefaultMessageStore.getRuntimeInfo; 5.3.3 for getTransferredTps and brokerActive.
"""

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, final

from attrs import define, field

from lanemq.storage import Store
from lanemq.wire import INT_MAX, VERSION, RequestCode, SystemTopic, version_name
from lanemq.wire.bodies import KVTable
from lanemq.wire.frame import Frame

from ...net._dispatch import Handlers
from ...net._loop_watch import loop_watch
from ...net._session import Session
from ..context._context import BrokerContext
from ..logical.state._metrics import logical_info
from ..logical.state._state import LogicalState
from ..settings._config import BrokerConfig
from ..state._stats import PUT_TIME_NAMES, BrokerStatistics

UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
POOLS: Final = ("send", "pull", "query")


@final
@define(eq=False, kw_only=True, repr=False)
class RuntimeInfo:
    """The runtime information of one broker."""

    _config: BrokerConfig
    _delay_levels: int
    _logical: LogicalState
    _now_ms: Callable[[], int]
    _refusals: Callable[[], int] | None
    """Counts the requests that access control has refused, where there is any."""
    _statistics: BrokerStatistics
    _store: Store
    _boot_ms: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._boot_ms = self._now_ms()

    def answer(self, frame: Frame, session: Session) -> Frame:
        return frame.reply(body=KVTable(self.all()).encode())

    def all(self) -> dict[str, str]:
        """Return all keys; times of day are in milliseconds since 1970."""
        now_ms, config, store = self._now_ms(), self._config, self._store
        return {
            "brokerActive": "true",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": version_name(VERSION),
            "bootTimestamp": str(self._boot_ms),
            "runtime": _duration(now_ms - self._boot_ms),
            "startAcceptSendRequestTimeStamp": str(config.start_accept_send_request_time_stamp),
            **_counters(self._statistics),
            **_store(store),
            **_delays(store, self._delay_levels),
            **_timers(store, now_ms),
            **_queues(config.limits().in_flight_total),
            **logical_info(self._logical, now_ms),
            **self._troubles(),
        }

    def _troubles(self) -> dict[str, str]:
        """Return the counters of troubles, which the log explains where they are not 0."""
        watch = loop_watch()
        troubles = {
            "loopHeldTimes": str(watch.held),
            "loopHeldTimeMax": f"{watch.longest_s * 1000:.0f}",
            "undeliveredMessages": str(self._statistics.undelivered),
            "taskFailures": str(self._store.supervisor.failures.total()),
        }
        if self._refusals is not None:
            troubles["aclRefusedRequests"] = str(self._refusals())
        return troubles


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register GET_BROKER_RUNTIME_INFO (28)."""
    control = broker.access_control
    info = RuntimeInfo(
        config=broker.config,
        delay_levels=len(broker.writer.delays_ms),
        logical=broker.logical,
        now_ms=broker.now_ms,
        refusals=None if control is None else lambda: control.refusals.count,
        statistics=broker.statistics,
        store=broker.store,
    )
    handlers.add(RequestCode.GET_BROKER_RUNTIME_INFO, info.answer)


def _counters(statistics: BrokerStatistics) -> dict[str, str]:
    puts, put_day, get_day = statistics.puts, statistics.put_day(), statistics.get_day()
    transferred = _rates(statistics.transferred_tps())
    return {
        "putMessageTimesTotal": str(puts.messages),
        "putMessageSizeTotal": str(puts.size_bytes),
        "putMessageAverageSize": str(puts.size_bytes / puts.messages if puts.messages else 0.0),
        "putMessageFailedTimes": str(statistics.put_failures),
        "putMessageEntireTimeMax": str(statistics.put_time_max_ms),
        "putMessageDistributeTime": "".join(
            f"{name}:{count} "
            for name, count in zip(PUT_TIME_NAMES, statistics.put_times, strict=True)
        ),
        "putLatency99": f"{statistics.put_time_quantile_ms(0.99):.2f}",
        "putLatency999": f"{statistics.put_time_quantile_ms(0.999):.2f}",
        "getMessageEntireTimeMax": "0",  # a read that has to wait for the disk is not timed
        "putTps": _rates(statistics.put_tps()),
        "getFoundTps": _rates(statistics.found_tps()),
        "getMissTps": _rates(statistics.missed_tps()),
        "getTotalTps": _rates(statistics.total_tps()),
        "getTransferedTps": transferred,
        "getTransferredTps": transferred,
        "msgPutTotalYesterdayMorning": str(put_day.yesterday_morning),
        "msgPutTotalTodayMorning": str(put_day.today_morning),
        "msgPutTotalTodayNow": str(put_day.now),
        "msgGetTotalYesterdayMorning": str(get_day.yesterday_morning),
        "msgGetTotalTodayMorning": str(get_day.today_morning),
        "msgGetTotalTodayNow": str(get_day.now),
    }


def _store(store: Store) -> dict[str, str]:
    statistics = store.statistics()
    first = store.message_at(statistics.min_position)
    ratio = f"{store.disk_ratio():.2f}"
    info = {
        "commitLogMinOffset": str(statistics.min_position),
        "commitLogMaxOffset": str(statistics.max_position),
        "commitLogDiskRatio": ratio,
        f"commitLogDiskRatio_{store.config.commit_log_path}": ratio,
        "consumeQueueDiskRatio": ratio,
        "dispatchBehindBytes": str(statistics.dispatch_behind_bytes),
        "dispatchMaxBuffer": "0",
        "earliestMessageTimeStamp": str(first.store_timestamp_ms if first is not None else -1),
        "pageCacheLockTimeMills": "0",
        "remainHowManyDataToFlush": _size(statistics.max_position - statistics.flushed_position),
        "remainTransientStoreBufferNumbs": str(INT_MAX),
    }
    with suppress(OSError):  # a store that is not on a disk has none
        disk = shutil.disk_usage(store.config.root)
        capacity = f"Total : {_size(disk.total)}, Free : {_size(disk.free)}."
        info["commitLogDirCapacity"] = capacity
    if statistics.damaged_pieces:  # ours: Apache's brokers end the log there
        info["commitLogDamagedMessages"] = str(statistics.damaged_pieces)
    return info


def _delays(store: Store, levels: int) -> dict[str, str]:
    """Return, for each used delay level, the delivered and the stored offset."""
    info = {}
    for level in range(1, levels + 1):
        delivered = store.tables.delay_offsets.get(level)
        end = store.bounds(SystemTopic.SCHEDULE, level - 1)[1]
        if delivered or end:
            info[f"scheduleMessageOffset_{level}"] = f"{delivered},{end}"
    return info


def _timers(store: Store, now_ms: int) -> dict[str, str]:
    """Return how far timers are, as 5.3.3 does; the rates are not counted."""
    timers, behind_s, behind = store.timers, 0, 0
    if timers is not None:
        end = store.bounds(SystemTopic.TIMER, 0)[1]
        behind = max(0, end - timers.next_offset)
        if timers.pending:
            behind_s = max(0, now_ms - timers.read_ms) // 1000
    return {
        "timerReadBehind": str(behind_s),
        "timerOffsetBehind": str(behind),
        "timerCongestNum": str(timers.pending if timers is not None else 0),
        "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.0",
    }


def _queues(capacity: int) -> dict[str, str]:
    info = {
        "EndTransactionQueueSize": "0",
        "EndTransactionThreadPoolQueueCapacity": str(INT_MAX),
    }
    for pool in POOLS:
        info[f"{pool}ThreadPoolQueueSize"] = "0"
        info[f"{pool}ThreadPoolQueueCapacity"] = str(capacity)
        info[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    return info


def _rates(rates: Iterable[float]) -> str:
    return " ".join(f"{rate}" for rate in rates)


def _duration(milliseconds: int) -> str:
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _size(size_bytes: int) -> str:
    """Write a number of bytes as ``252.0 GiB``; below a KiB as ``17 B``."""
    size, unit = float(size_bytes), 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{size:.1f} {UNITS[unit]}" if unit else f"{size_bytes} B"
