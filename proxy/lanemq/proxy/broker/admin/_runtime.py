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

from attrs import define

from lanemq.storage import Store
from lanemq.wire import INT_MAX, VERSION, RequestCode, SystemTopic, version_name
from lanemq.wire.bodies import KVTable
from lanemq.wire.frame import Frame

from ...net._dispatch import Handlers
from ...net._session import Session
from ..context._context import BrokerContext
from ..logical.state._metrics import logical_info
from ..logical.state._state import LogicalState
from ..settings._config import BrokerConfig
from ..state._stats import PUT_TIME_NAMES, BrokerStatistics
from ..status._snapshot import BrokerStatus, StatusReader, TimerStatus

UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
POOLS: Final = ("send", "pull", "query")


@final
@define(eq=False, kw_only=True, repr=False)
class RuntimeInfo:
    """The runtime information of one broker: its status as Apache writes it."""

    _config: BrokerConfig
    _delay_levels: int
    _logical: LogicalState
    _now_ms: Callable[[], int]
    _statistics: BrokerStatistics
    _status: StatusReader
    _store: Store

    def answer(self, frame: Frame, session: Session) -> Frame:
        return frame.reply(body=KVTable(self.all()).encode())

    def all(self) -> dict[str, str]:
        """Return all keys; times of day are in milliseconds since 1970."""
        config, status = self._config, self._status.read()
        return {
            "brokerActive": "true",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": version_name(VERSION),
            "bootTimestamp": str(status.started_ms),
            "runtime": _duration(status.uptime_s),
            "startAcceptSendRequestTimeStamp": str(config.start_accept_send_request_time_stamp),
            **_counters(status, self._statistics),
            **_store(status, self._store),
            **_delays(self._store, self._delay_levels),
            **_timers(status.timers),
            **_queues(config.limits().in_flight_total),
            **logical_info(self._logical, self._now_ms()),
            **_troubles(status),
        }


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register GET_BROKER_RUNTIME_INFO (28)."""
    info = RuntimeInfo(
        config=broker.config,
        delay_levels=len(broker.writer.delays_ms),
        logical=broker.logical,
        now_ms=broker.now_ms,
        statistics=broker.statistics,
        status=StatusReader.of(broker),
        store=broker.store,
    )
    handlers.add(RequestCode.GET_BROKER_RUNTIME_INFO, info.answer)


def _troubles(status: BrokerStatus) -> dict[str, str]:
    """Return the counters of troubles, which the log explains where they are not 0."""
    troubles = {
        "loopHeldTimes": str(status.loop_held),
        "loopHeldTimeMax": f"{status.loop_longest_s * 1000:.0f}",
        "undeliveredMessages": str(status.undelivered),
        "taskFailures": str(status.task_failures),
    }
    if status.refused is not None:
        troubles["aclRefusedRequests"] = str(status.refused)
    return troubles


def _counters(status: BrokerStatus, statistics: BrokerStatistics) -> dict[str, str]:
    put_day, get_day = statistics.put_day(), statistics.get_day()
    transferred = _rates(statistics.transferred_tps())
    average = status.bytes_in / status.messages_in if status.messages_in else 0.0
    return {
        "putMessageTimesTotal": str(status.messages_in),
        "putMessageSizeTotal": str(status.bytes_in),
        "putMessageAverageSize": str(average),
        "putMessageFailedTimes": str(status.sends_failed),
        "putMessageEntireTimeMax": str(status.write_max_ms),
        "putMessageDistributeTime": "".join(
            f"{name}:{count} "
            for name, count in zip(PUT_TIME_NAMES, statistics.put_times, strict=True)
        ),
        "putLatency99": f"{status.write_p99_ms:.2f}",
        "putLatency999": f"{status.write_p999_ms:.2f}",
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


def _store(status: BrokerStatus, store: Store) -> dict[str, str]:
    statistics = status.store
    ratio = f"{status.disk_ratio:.2f}"
    info = {
        "commitLogMinOffset": str(statistics.min_position),
        "commitLogMaxOffset": str(statistics.max_position),
        "commitLogDiskRatio": ratio,
        f"commitLogDiskRatio_{store.config.commit_log_path}": ratio,
        "consumeQueueDiskRatio": ratio,
        "dispatchBehindBytes": str(statistics.dispatch_behind_bytes),
        "dispatchMaxBuffer": "0",
        "earliestMessageTimeStamp": str(status.oldest_ms),
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


def _timers(timers: TimerStatus) -> dict[str, str]:
    """Return how far timers are, as 5.3.3 does; the rates are not counted."""
    return {
        "timerReadBehind": str(timers.behind_s),
        "timerOffsetBehind": str(timers.messages_behind),
        "timerCongestNum": str(timers.pending),
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


def _duration(age_s: float) -> str:
    minutes, seconds = divmod(int(age_s), 60)
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
