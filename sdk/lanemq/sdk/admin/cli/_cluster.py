"""clusterList and brokerStatus.

Source: RocketMQ 4.9.8, ClusterListSubCommand, BrokerStatusSubCommand.
"""

import time
from collections.abc import Mapping

import click
import trio

from lanemq.local import print_line

from ..._errors import BrokerUnreachable, LanemqError, RequestTimedOut
from .._client import AdminClient
from ..requests._servers import UnknownCluster
from .command._command import Output, command, fail

COLUMNS = "{:<16}  {:<22}  {:<4}  {:<22} {:<16} {:>19} {:>19} {:>10} {:>5} {:>6}"
MORE_COLUMNS = "{:<16}  {:<32} {:>14} {:>14} {:>14} {:>14}"


@command("clusterList")
@click.option("-m", "--moreStats", "more", is_flag=True, help="Messages of yesterday and today.")
@click.option(
    "-i", "--interval", "interval_s", type=click.IntRange(min=1), help="Again every SECONDS."
)
@click.option("-c", "--clusterName", "cluster", help="This cluster only.")
async def cluster_list(
    admin: AdminClient, out: Output, *, more: bool, interval_s: int | None, cluster: str | None
) -> object:
    """List clusters and brokers with their load."""
    if interval_s is not None and out.json:
        fail("--json prints one value: leave out -i and call again")
    while True:
        rows = await _brokers(admin, cluster)
        (_write_totals if more else _write_load)(out, rows)
        if interval_s is None:
            return rows
        await trio.sleep(interval_s)


async def _brokers(admin: AdminClient, cluster: str | None) -> list[dict[str, object]]:
    info = await admin.cluster()
    if cluster is not None and cluster not in info.cluster_addr_table:
        raise UnknownCluster(cluster, list(info.cluster_addr_table))
    rows: list[dict[str, object]] = []
    for name in sorted(info.cluster_addr_table):
        if cluster not in (None, name):
            continue
        for broker_name in sorted(info.cluster_addr_table[name]):
            broker = info.broker_addr_table.get(broker_name)
            for number, address in sorted(broker.broker_addrs.items()) if broker else ():
                rows.append(
                    {
                        "cluster": name,
                        "brokerName": broker_name,
                        "brokerId": number,
                        "address": address,
                        "runtime": await _runtime(admin, address),
                    }
                )
    return rows


async def _runtime(admin: AdminClient, address: str) -> dict[str, str] | None:
    """Ask one broker; the others are shown although one is down."""
    try:
        return await admin.runtime(address)
    except (BrokerUnreachable, RequestTimedOut) as error:
        print_line(str(error), err=True)
        return None


def _number(text: str | None) -> float:
    try:
        return float((text or "").split(" ", 1)[0])
    except ValueError:
        return 0.0


def _write_load(out: Output, rows: list[dict[str, object]]) -> None:
    out.line(
        COLUMNS.format(
            "#Cluster Name",
            "#Broker Name",
            "#BID",
            "#Addr",
            "#Version",
            "#InTPS(LOAD)",
            "#OutTPS(LOAD)",
            "#PCWait(ms)",
            "#Hour",
            "#SPACE",
        )
    )
    for row in rows:
        runtime = row["runtime"]
        assert runtime is None or isinstance(runtime, Mapping)
        out.line(
            COLUMNS.format(
                row["cluster"],
                row["brokerName"],
                row["brokerId"],
                row["address"],
                *_load(runtime or {}),
            )
        )


def _load(runtime: Mapping[str, str]) -> tuple[str, ...]:
    def load(tps: float, pool: str) -> str:
        size = runtime.get(f"{pool}ThreadPoolQueueSize", "")
        wait = runtime.get(f"{pool}ThreadPoolQueueHeadWaitTimeMills", "")
        return f"{tps:9.2f}({size},{wait}ms)"

    # 5.x corrected the spelling; lanemq sends both.
    out_tps = runtime.get("getTransferedTps") or runtime.get("getTransferredTps")
    earliest = runtime.get("earliestMessageTimeStamp")
    hours = (time.time() - _number(earliest) / 1000) / 3600 if earliest else 0.0
    return (
        runtime.get("brokerVersionDesc", ""),
        load(_number(runtime.get("putTps")), "send"),
        load(_number(out_tps), "pull"),
        runtime.get("pageCacheLockTimeMills", ""),
        f"{hours:2.2f}",
        f"{_number(runtime.get('commitLogDiskRatio')):.4f}",
    )


def _write_totals(out: Output, rows: list[dict[str, object]]) -> None:
    out.line(
        MORE_COLUMNS.format(
            "#Cluster Name",
            "#Broker Name",
            "#InTotalYest",
            "#OutTotalYest",
            "#InTotalToday",
            "#OutTotalToday",
        )
    )
    for row in rows:
        runtime = row["runtime"]
        assert runtime is None or isinstance(runtime, Mapping)

        def total(key: str, table: Mapping[str, str] = runtime or {}) -> int:
            return int(_number(table.get(key)))

        yesterday, today = (
            tuple(
                total(f"msg{kind}Total{end}") - total(f"msg{kind}Total{begin}")
                for kind in ("Put", "Get")
            )
            for begin, end in (
                ("YesterdayMorning", "TodayMorning"),
                ("TodayMorning", "TodayNow"),
            )
        )
        out.line(MORE_COLUMNS.format(row["cluster"], row["brokerName"], *yesterday, *today))


@command("brokerStatus")
@click.option("-b", "--brokerAddr", "broker", help="Broker address.")
@click.option("-c", "--clusterName", "cluster", help="All brokers of this cluster.")
async def broker_status(
    admin: AdminClient, out: Output, *, broker: str | None, cluster: str | None
) -> object:
    """Show what a broker reports about itself."""
    if (broker is None) == (cluster is None):
        fail("give either -b BROKER_ADDRESS or -c CLUSTER_NAME (`clusterList` shows both)")
    if broker is not None:
        runtime = await admin.runtime(broker)
        for key, value in sorted(runtime.items()):
            out.line(f"{key:<32}: {value}")
        return dict(sorted(runtime.items()))
    assert cluster is not None
    reports: dict[str, object] = {}
    for address in await admin.broker_addresses(cluster):
        try:
            runtime = await admin.runtime(address)
        except LanemqError as error:
            print_line(str(error), err=True)
            continue
        reports[address] = dict(sorted(runtime.items()))
        for key, value in sorted(runtime.items()):
            out.line(f"{address:<24} {key:<32}: {value}")
    return reports
