"""What a broker reports about itself (GET_BROKER_RUNTIME_INFO, 28).

Tools print the keys as they are and compute with some of them, so names, spelling and the
form of the values are the reference's. lanemq has no thread pools: the queues before them are
reported as empty.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.prepareRuntimeInfo, StoreStatsService.getRuntimeInfo,
DefaultMessageStore.getRuntimeInfo; 5.3.3 for getTransferredTps and brokerActive.
"""

import shutil
from collections.abc import Iterable
from typing import Final

from lanemq.wire import VERSION, Frame, KVTable, RequestCode, SystemTopic, version_name

from .._dispatch import Handlers
from .._session import Session
from ._context import BrokerContext
from ._logical_metrics import logical_info
from ._stats import PUT_TIME_NAMES, BrokerStatistics

INT_MAX: Final = (1 << 31) - 1
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
POOLS: Final = ("send", "pull", "query")


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """GET_BROKER_RUNTIME_INFO (28)."""
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
    info.update(_queues(broker))
    info.update(logical_info(broker))
    return info


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
    disk = shutil.disk_usage(store.config.root)
    return {
        "commitLogMinOffset": str(statistics.min_position),
        "commitLogMaxOffset": str(statistics.max_position),
        "commitLogDiskRatio": ratio,
        f"commitLogDiskRatio_{store.config.commit_log_path}": ratio,
        "consumeQueueDiskRatio": ratio,
        "commitLogDirCapacity": f"Total : {_size(disk.total)}, Free : {_size(disk.free)}.",
        "dispatchBehindBytes": str(statistics.dispatch_behind_bytes),
        "dispatchMaxBuffer": "0",
        "earliestMessageTimeStamp": str(first.store_timestamp_ms if first is not None else -1),
        "pageCacheLockTimeMills": "0",
        "remainHowManyDataToFlush": _size(statistics.max_position - statistics.flushed_position),
        "remainTransientStoreBufferNumbs": str(INT_MAX),
    }


def _delays(broker: BrokerContext) -> dict[str, str]:
    """Return, for each delay level that was ever used, what is delivered and what is stored."""
    store, info = broker.store, {}
    for level in range(1, len(broker.writer.delays_ms) + 1):
        delivered = store.tables.delay_offsets.get(level)
        end = store.bounds(SystemTopic.SCHEDULE, level - 1)[1]
        if delivered or end:
            info[f"scheduleMessageOffset_{level}"] = f"{delivered},{end}"
    return info


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
