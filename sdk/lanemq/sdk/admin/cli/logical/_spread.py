"""The commands drainBroker, forgetBroker and balanceLogicalQueues, which only lanemq has."""

from collections.abc import Collection, Mapping, Sequence

import click
import trio

from lanemq.local import print_line
from lanemq.wire import DLQ_PREFIX, RETRY_PREFIX, ResponseCode, is_system_topic, reply_topic

from ...._errors import LanemqError, RefusedByBroker
from ..._client import AdminClient
from ..._logical_progress import carry_progress
from ..._remains import Remainder, remainders
from ...logical._migration import migrate
from ...logical._spread import Move, balance_moves, plan_balance, plan_drain, remains_at
from ...logical._survey import ClusterSurvey, survey_all
from ..command._command import Output, command, fail
from ..command._text import moment_in_seconds
from ._proxy_drain import ProxyCluster, drain_behind, find_proxy

CLUSTER = click.option("-c", "--clusterName", "cluster", help="This cluster only.")
HOUR_MS = 3_600_000
RESERVED_KEY = "fileReservedTime"
DEFAULT_RESERVED_HOURS = 72
TOPICS_SHOWN = 5
KEYS_S = 60.0
KEYS_LOOK_S = 0.25


@command("drainBroker")
@click.option("-b", "--brokerName", "broker", required=True, help="Name of the broker to empty.")
@CLUSTER
@click.option("--dry-run", is_flag=True, help="Only show what would be moved where.")
async def drain_broker(
    admin: AdminClient, out: Output, *, broker: str, cluster: str | None, dry_run: bool
) -> object:
    """Move every logical queue away from a broker, and tell when it can be switched off."""
    broker = broker.strip()
    proxy = await find_proxy(admin)
    if proxy is not None:
        return await _drain_behind(proxy, out, broker, is_dry=dry_run)
    found = await survey_all(admin, cluster=cluster)
    if broker not in found.brokers:
        why = found.away.get(broker, f"the masters that answer are: {_names(found)}")
        fail(f"broker {broker!r} not found: {why}")
    try:
        moves = plan_drain(found.chains(), broker, found.brokers)
    except ValueError as error:
        fail(str(error))
    if dry_run:
        _write_plan(out, moves)
        return {"moves": _values(moves)}
    failures = await _carry_out(admin, out, moves)
    left = await survey_all(admin, cluster=cluster)
    carried = await carry_progress(admin, left.chains(), broker, left.brokers)
    if carried.offsets:
        out.line(f"{carried.offsets} offsets of groups were taken along to where their queues end")
    await _keys_are_gone(admin, found.brokers[broker])
    verdict = await _verdict(admin, left, broker)
    for line in verdict:
        out.line(line)
    if carried.missing:
        first = carried.missing[0]
        fail(
            f"{len(carried.missing)} offsets of groups are kept at {broker} alone, as that of "
            f"{first.group} in {first.queue.topic}: call it again"
        )
    if failures:
        fail(f"{len(failures)} of {len(moves)} logical queues stay at {broker}: call it again")
    return {"moves": _values(moves), "verdict": verdict}


@command("balanceLogicalQueues")
@CLUSTER
@click.option("-t", "--topic", "topics", multiple=True, help="This topic only; may be repeated.")
@click.option("--apply", "applies", is_flag=True, help="Do it; without, the plan is shown.")
async def balance_logical_queues(
    admin: AdminClient, out: Output, *, cluster: str | None, topics: Sequence[str], applies: bool
) -> object:
    """Spread the queues that take messages evenly over all brokers."""
    proxy = await find_proxy(admin)
    if proxy is not None:
        return await _balance_behind(proxy, out, topics or await admin.topics(), applies=applies)
    found = await survey_all(admin, cluster=cluster)
    if found.away:
        silent = ", ".join(sorted(found.away))
        fail(f"not all brokers answer, so there is no plan: {silent}")
    chains = found.chains()
    for topic in topics:
        if topic not in chains:
            fail(f"topic {topic!r} has no logical queues")
    chosen = {topic: chains[topic] for topic in topics} if topics else chains
    moves = plan_balance(chosen, found.brokers)
    if not applies:
        _write_plan(out, moves)
        if moves:
            out.line(f"{len(moves)} migrations would do it; --apply makes them")
        return {"moves": _values(moves)}
    failures = await _carry_out(admin, out, moves)
    if failures:
        fail(f"{len(failures)} of {len(moves)} migrations failed: call it again")
    if not moves:
        out.line("the logical queues are evenly spread already")
    return {"moves": _values(moves)}


@command("forgetBroker")
@click.option("-b", "--brokerName", "broker", required=True, help="Name of a broker that is gone.")
async def forget_broker(admin: AdminClient, out: Output, *, broker: str) -> object:
    """Have name servers forget a broker's part of logical queues: it will not come back.

    At a proxy with --moves, after drainBroker: readers go on behind what only it had.
    """
    broker = broker.strip()
    if await find_proxy(admin) is not None:
        await admin.drain_at_proxy(admin.name_servers[0], broker, forget=True)
        out.line(f"{broker} is forgotten: readers go on behind what was on it")
        return {"broker": broker}
    if broker in (await admin.cluster()).broker_addr_table:
        fail(f"broker {broker!r} is registered: `drainBroker -b {broker}`, and switch it off first")
    try:
        await admin.forget_broker(broker)
    except RefusedByBroker as error:
        if error.code != ResponseCode.QUERY_NOT_FOUND:
            raise
        fail(f"no name server knows a broker {broker!r}, so nothing was forgotten")
    out.line(f"{broker} is forgotten: queues are shown without what was on it")
    return {"broker": broker}


async def _drain_behind(proxy: ProxyCluster, out: Output, broker: str, *, is_dry: bool) -> object:
    if broker not in proxy.brokers and not await proxy.has_entry(broker):
        fail(f"broker {broker!r} not found: the masters are {', '.join(proxy.brokers) or 'none'}")
    try:
        moves = await proxy.plan_drain(broker)
    except ValueError as error:
        fail(str(error))
    if is_dry:
        _write_plan(out, moves)
        return {"moves": _values(moves), "unmovable": dict(proxy.unmovable)}
    failures, verdict = await drain_behind(proxy, out, broker, moves)
    for line in verdict:
        out.line(line)
    if failures:
        fail(f"{len(failures)} of {len(moves)} logical queues stay at {broker}: call it again")
    return {"moves": _values(moves), "verdict": verdict}


async def _balance_behind(
    proxy: ProxyCluster, out: Output, topics: Collection[str], *, applies: bool
) -> object:
    written = await proxy.written(topics)
    moves = [*proxy.begun, *balance_moves(written, await proxy.destinations())]
    if not applies:
        _write_plan(out, moves)
        if moves:
            out.line(f"{len(moves)} migrations would do it; --apply makes them")
    elif failures := await proxy.move(out, moves):
        fail(f"{len(failures)} of {len(moves)} migrations failed: call it again")
    elif not moves:
        out.line("the logical queues are evenly spread already")
    return {"moves": _values(moves)}


def _names(found: ClusterSurvey) -> str:
    return ", ".join(found.brokers) or "none"


def _values(moves: Sequence[Move]) -> list[Mapping[str, object]]:
    return [
        {"topic": m.topic, "index": m.index, "source": m.source, "destination": m.destination}
        for m in moves
    ]


def _write_plan(out: Output, moves: Sequence[Move]) -> None:
    if not moves:
        out.line("nothing has to be moved")
        return
    columns = "{:<48} {:<14} {:<32} {}"
    out.line(columns.format("#Topic", "#LogicalQueue", "#From", "#To"))
    for move in moves:
        out.line(columns.format(move.topic[:48], move.index, move.source, move.destination))


async def _carry_out(admin: AdminClient, out: Output, moves: Sequence[Move]) -> list[Move]:
    """Migrate one queue after the other; one that fails is told and does not keep the rest."""
    failures: list[Move] = []
    for number, move in enumerate(moves, 1):
        what = f"[{number}/{len(moves)}] {move.topic} logical queue {move.index}"
        try:
            done = await migrate(admin, move.topic, move.index, move.destination)
        except LanemqError as error:
            failures.append(move)
            print_line(f"{what}: {error}", err=True)
            continue
        new = done.chain.last
        assert new is not None
        out.line(f"{what}: {move.source} -> {move.destination}, from logical offset {new.delta}")
        for name, reason in done.untold.items():
            out.line(f"  {name} could not be told: {reason}; it will find out by itself")
    return failures


async def _keys_are_gone(admin: AdminClient, address: str) -> None:
    """Wait until other brokers have the keys whose logs were moved, for a minute at most."""
    with trio.move_on_after(KEYS_S):
        while any(  # noqa: ASYNC110 - it is other processes' doing
            not one.is_open for one in await admin.kv_status(address)
        ):
            await trio.sleep(KEYS_LOOK_S)


async def _verdict(admin: AdminClient, found: ClusterSurvey, broker: str) -> list[str]:
    """Return the lines that say what keeps the broker in use."""
    remains = remains_at(found.chains(), broker)
    lines = []
    if remains.written:
        lines.append(f"{remains.written} logical queues are still written at {broker}")
    physical = sorted(
        topic
        for topic, brokers in found.physical.items()
        if broker in brokers and _is_application_s(topic, found)
    )
    if physical:
        shown = ", ".join(physical[:TOPICS_SHOWN])
        more = f" and {len(physical) - TOPICS_SHOWN} more" if len(physical) > TOPICS_SHOWN else ""
        lines.append(f"topics without logical queues are still there: {shown}{more}")
    if remains.segments:
        lines.append(await _expiry(admin, found.brokers[broker], broker, remains.last_time_ms))
    for left in await remainders(admin, found.chains(), broker, found.brokers):
        lines.append(_left_text(left))
    if not lines:
        lines.append(f"{broker} can be switched off now: nothing needs it")
    return lines


def _left_text(left: Remainder) -> str:
    most = f", most of them {left.example}" if left.example else ""
    last = f", the last stored {moment_in_seconds(left.last_time_ms)}" if left.last_time_ms else ""
    return f"still there: {left.count} {left.what}{last}{most}"


def _is_application_s(topic: str, found: ClusterSurvey) -> bool:
    """Return False for topics that every broker has: the system's, and those of brokers' own
    names."""
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or is_system_topic(topic):
        return False
    of_brokers = {*found.brokers, *found.clusters, *map(reply_topic, found.clusters)}
    return topic not in of_brokers


async def _expiry(admin: AdminClient, address: str, broker: str, last_time_ms: int) -> str:
    config = await admin.config(address)
    text = config.get(RESERVED_KEY, "")
    hours = int(text) if text.isdigit() else DEFAULT_RESERVED_HOURS
    if not last_time_ms:
        return f"{broker} has messages that can be read for {hours} h after they were stored"
    until = moment_in_seconds(last_time_ms + hours * HOUR_MS)
    return (
        f"{broker} can be switched off once nobody reads it any more: its last message expires "
        f"after {until} ({RESERVED_KEY}={hours} h)"
    )
