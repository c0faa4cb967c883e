"""proxyStatus: what proxies of lanemq report about themselves."""

import click

from lanemq.local import print_line
from lanemq.wire import ResponseCode
from lanemq.wire.bodies import ProxyMoves, ProxyStatus

from ..._errors import BrokerUnreachable, RefusedByBroker, RequestTimedOut
from .._client import AdminClient
from .command._command import Output, command, fail

BROKER_COLUMNS = "{:<20}  {:<22} {:<22} {:>6} {:>12} {:>12} {:>9}  {}"
PROXY_COLUMNS = "{:<22}  {:<22}  {}"
WORKER_COLUMNS = "{:<8}  {:>9} {:>13} {:>8}  {}"
TOPIC_COLUMNS = "{:<32}  {:>7}  {}"
GROUP_COLUMNS = "{:<32}  {:<32}  {:>8} {:>8}  {}"
MOVE_COLUMNS = "{:<32}  {:>6}  {:<20}  {}"
KEY_COLUMNS = "{:<20}  {:>9} {:>12} {:>12} {:>8} {:>12}  {}"


@command("proxyStatus")
@click.option("-p", "--proxyAddr", "proxy", help="This proxy's port for routes.  [default: all -n]")
async def proxy_status(admin: AdminClient, out: Output, *, proxy: str | None) -> object:
    """Show what proxies in front of a cluster report about themselves."""
    addresses = admin.name_servers if proxy is None else (proxy.strip(),)
    found: list[ProxyStatus] = []
    for address in addresses:
        try:
            status = await admin.proxy_status(address)
        except (BrokerUnreachable, RequestTimedOut) as error:
            if len(addresses) == 1:
                raise
            print_line(str(error), err=True)  # the others are shown all the same
            continue
        except RefusedByBroker as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            fail(
                f"{address} is no proxy of lanemq, or an older one: give the port for routes of a "
                "proxy with -n or -p"
            )
        _write(out, status)
        found.append(status)
    if not found:
        fail("no proxy answers: are they running, are the addresses right?")
    return found


def _write(out: Output, status: ProxyStatus) -> None:
    state = "stops" if status.leaving else "serves"
    out.line(f"proxy {status.name}: {state}, {status.connections} connections of clients")
    servers = ";".join(status.name_servers)
    out.line(f"name servers {servers}: {status.problem or 'answer'}")
    out.line(
        f"longest turn of the loop: {status.longest_turn_ms} ms, longer than 100 ms: "
        f"{status.held_turns}"
    )
    out.line()
    out.line(
        BROKER_COLUMNS.format(
            "#Broker",
            "#Address",
            "#Upstream",
            "#Links",
            "#Requests",
            "#Answers",
            "#Refused",
            "#State",
        )
    )
    for broker in status.brokers:
        state = broker.problem or ("ok" if broker.listed else "no name server lists it")
        out.line(
            BROKER_COLUMNS.format(
                f"{broker.broker_name}/{broker.broker_id}",
                broker.address,
                broker.upstream,
                broker.links,
                broker.requests,
                broker.answers,
                broker.refused,
                state,
            )
        )
    if status.proxies:
        out.line()
        out.line(PROXY_COLUMNS.format("#Other Proxy", "#Name", "#State"))
    for other in status.proxies:
        state = (other.problem or "ok") if other.name else "does not answer, or stops"
        out.line(PROXY_COLUMNS.format(other.address, other.name, state))
    _write_workers(out, status)
    _write_logs(out, status)
    if status.queue_log is not None:
        _write_topics(out, status)
    if status.moves is not None:
        _write_moves(out, status.moves)


def _write_workers(out: Output, status: ProxyStatus) -> None:
    if status.workers:
        out.line()
        out.line(WORKER_COLUMNS.format("#Worker", "#Process", "#Connections", "#Turn", "#State"))
    for worker in status.workers:
        out.line(
            WORKER_COLUMNS.format(
                worker.number,
                worker.pid or "-",
                worker.connections,
                f"{worker.longest_turn_ms} ms",
                worker.problem or "ok",
            )
        )


def _write_logs(out: Output, status: ProxyStatus) -> None:
    if status.keys or status.queue_log is not None:
        out.line()
        out.line(
            KEY_COLUMNS.format(
                "#Keys", "#Partition", "#Applied", "#End", "#Lag", "#Snapshot", "#State"
            )
        )
    for log in (*status.keys, *(() if status.queue_log is None else (status.queue_log,))):
        out.line(
            KEY_COLUMNS.format(
                log.namespace,
                log.partition,
                log.applied,
                log.end,
                log.lag,
                "-" if log.snapshot is None else log.snapshot,
                log.problem or "ok",
            )
        )


def _write_moves(out: Output, moves: ProxyMoves) -> None:
    out.line()
    out.line(f"lease of this proxy: {moves.lease_seconds} s, {moves.problem or 'ok'}")
    proxies = ", ".join(one.name for one in moves.leases)
    out.line(
        f"leases: {proxies or 'none'}; messages sent again: {moves.sent_again}; passed over, "
        f"since their clients had sent them again: {moves.passed_over}"
    )
    for stand in moves.stands:
        also = f", {stand.target} is to" if stand.target else ""
        done = ", which nobody has to read any more" if stand.done else ""
        done = ", which is forgotten" if stand.forgotten else done
        out.line(f"{stand.at} stands in for {stand.broker_name}{done}{also}")
    if moves.queues:
        out.line()
        out.line(MOVE_COLUMNS.format("#Topic", "#Queue", "#State", "#Parts"))
    for one in moves.queues:
        parts = ", ".join(
            f"{part.broker_name} {part.queue_id}: {part.begin}-"
            + ("" if part.end < 0 else f"{part.end - 1}")
            + (f" ({part.lost} lost)" if part.lost else "")
            for part in one.parts
        )
        state = f"to {one.target}" if one.target else "ok"
        out.line(MOVE_COLUMNS.format(one.topic, one.index, state, parts))


def _write_topics(out: Output, status: ProxyStatus) -> None:
    out.line()
    out.line(f"topics in an order other than the cluster's: {status.topics_in_other_order}")
    if status.topics:
        out.line()
        out.line(TOPIC_COLUMNS.format("#Topic", "#Queues", "#Added queues"))
    for topic in status.topics:
        added = ", ".join(
            f"{one.added_broker}: {one.broker_name} {one.start}-{one.start + one.count - 1}"
            for one in topic.added
        )
        out.line(TOPIC_COLUMNS.format(topic.topic, topic.queues, added))
    if status.direct_groups:
        out.line()
        out.line(GROUP_COLUMNS.format("#Topic", "#Group", "#Proxied", "#Direct", "#Direct members"))
    for group in status.direct_groups:
        ids = ", ".join(group.direct_ids)
        more = ", …" if len(group.direct_ids) < group.direct else ""
        twice = ": queues are divided twice" if group.proxied else ""
        out.line(
            GROUP_COLUMNS.format(
                group.topic, group.group, group.proxied, group.direct, ids + more + twice
            )
        )
