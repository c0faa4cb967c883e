"""The runtime information of a broker (GET_BROKER_RUNTIME_INFO, 28).

Tools print the keys as they are and compute with some of them, so names, spelling and the
form of the values are the reference's. lanemq has no thread pools: the queues before them are
reported as empty.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.prepareRuntimeInfo, StoreStatsService.getRuntimeInfo,
DefaultMessageStore.getRuntimeInfo; 5.3.3 for getTransferredTps and brokerActive.
"""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from lanemq.wire import VERSION, RequestCode, SystemTopic, version_name
from lanemq.wire.bodies import KVTable
from lanemq.wire.frame import Frame

from ...logical.broker._metrics import logical_info
from ...net._dispatch import Handlers
from ...net._loop_watch import loop_watch
from ...net._session import Session
from .._context import BrokerContext
from ..state._stats import PUT_TIME_NAMES, BrokerStatistics

INT_MAX: Final = (1 << 31) - 1
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
POOLS: Final = ("send", "pull", "query")


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register GET_BROKER_RUNTIME_INFO (28)."""
    boot_ms = broker.now_ms()

    def runtime(frame: Frame, session: Session) -> Frame:
        return frame.reply(body=KVTable(runtime_info(broker, boot_ms)).encode())

    handlers.add(RequestCode.GET_BROKER_RUNTIME_INFO, runtime)


def runtime_info(broker: BrokerContext, boot_ms: int) -> dict[str, str]:
    """Return all keys; ``boot_ms`` is when the broker started, in milliseconds since 1970."""
    info = {
        "brokerActive": "true",
        "brokerVersion": str(VERSION),
        "brokerVersionDesc": version_name(VERSION),
        "bootTimestamp": str(boot_ms),
        "runtime": _duration(broker.now_ms() - boot_ms),
        "startAcceptSendRequestTimeStamp": str(broker.config.start_accept_send_request_time_stamp),
    }
    info.update(_counters(broker.statistics))
    info.update(_store(broker))
    info.update(_delays(broker))
    info.update(_timers(broker))
    info.update(_queues(broker))
    info.update(logical_info(broker))
    info.update(_troubles(broker))
    return info


def _troubles(broker: BrokerContext) -> dict[str, str]:
    """Return the counters of troubles, which the log explains where they are not 0."""
    watch = loop_watch()
    troubles = {
        "loopHeldTimes": str(watch.held),
        "loopHeldTimeMax": f"{watch.longest_s * 1000:.0f}",
        "undeliveredMessages": str(broker.statistics.undelivered),
        "taskFailures": str(broker.supervisor.failures.total()),
    }
    if broker.access_control is not None:
        troubles["aclRefusedRequests"] = str(broker.access_control.refusals.count)
    return troubles


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


def _store(broker: BrokerContext) -> dict[str, str]:
    store = broker.store
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


def _delays(broker: BrokerContext) -> dict[str, str]:
    """Return, for each used delay level, the delivered and the stored offset."""
    store, info = broker.store, {}
    for level in range(1, len(broker.writer.delays_ms) + 1):
        delivered = store.tables.delay_offsets.get(level)
        end = store.bounds(SystemTopic.SCHEDULE, level - 1)[1]
        if delivered or end:
            info[f"scheduleMessageOffset_{level}"] = f"{delivered},{end}"
    return info


def _timers(broker: BrokerContext) -> dict[str, str]:
    """Return how far timers are, as 5.3.3 does; the rates are not counted."""
    timers, behind_s, behind = broker.store.timers, 0, 0
    if timers is not None:
        end = broker.store.bounds(SystemTopic.TIMER, 0)[1]
        behind = max(0, end - timers.next_offset)
        if timers.pending:
            behind_s = max(0, broker.now_ms() - timers.read_ms) // 1000
    return {
        "timerReadBehind": str(behind_s),
        "timerOffsetBehind": str(behind),
        "timerCongestNum": str(timers.pending if timers is not None else 0),
        "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.0",
    }


def _queues(broker: BrokerContext) -> dict[str, str]:
    info = {
        "EndTransactionQueueSize": "0",
        "EndTransactionThreadPoolQueueCapacity": str(INT_MAX),
    }
    for pool in POOLS:
        info[f"{pool}ThreadPoolQueueSize"] = "0"
        info[f"{pool}ThreadPoolQueueCapacity"] = str(broker.config.limits().in_flight_total)
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
