"""The command checkRocksdbCqWriteProgress: compares the queues in RocksDB with those in files.

Source: RocketMQ 5.3.1 and 5.3.3, CheckRocksdbCqWriteProgressCommand.
"""

import click

from lanemq.wire.bodies import CheckRocksdbCqWriteResult, CheckStatus

from ...net._client import now_ms
from .._client import AdminClient
from ..requests._servers import masters_by_name
from .command._command import Output, command

DAYS_30_MS = 30 * 86_400_000


@command("checkRocksdbCqWriteProgress")
@click.option("-c", "--cluster", required=True, help="The cluster whose masters are asked.")
@click.option("-t", "--topic", default="", help="This topic, queue by queue.  [default: all]")
@click.option(
    "-cf",
    "--checkFrom",
    "check_from_ms",
    type=int,
    metavar="MILLISECONDS",
    help="Messages stored before this time since 1970 may be missing.  [default: 30 days ago]",
)
async def check_rocksdb(
    admin: AdminClient, out: Output, *, cluster: str, topic: str, check_from_ms: int | None
) -> object:
    """Compare the queues that brokers keep both in files and in RocksDB."""
    if check_from_ms is None:
        check_from_ms = now_ms() - DAYS_30_MS
    results = []
    for name, address in (await masters_by_name(admin, cluster.strip())).items():
        result = await admin.check_rocksdb(
            address, topic=topic.strip(), check_from_ms=check_from_ms
        )
        _write(out, name, address, topic.strip(), result)
        results.append({"brokerName": name, "address": address, **result.to_json()})
    return results


def _write(
    out: Output, name: str, address: str, topic: str, result: CheckRocksdbCqWriteResult
) -> None:
    if result.check_status == CheckStatus.ERROR:
        out.line(f"{name} check error, please check log... errInfo: {result.check_result}")
    elif result.check_result is None:
        out.line(f"{name} check doing, please wait and get the result from log...")
    else:
        if not topic:
            out.line(f"{name} | {address} |")
        for line in (result.check_result or "").split("\n"):  # the broker's report has lines
            out.line(line)
        if result.safe_to_switch is not None:
            answer = "yes" if result.safe_to_switch else "no"
            out.line(f"safe to switch to RocksDB alone: {answer}")
