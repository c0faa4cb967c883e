"""``lanemq proxy``: a proxy in front of an Apache cluster."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import click
import trio

from ..net.transport._listen import hold_shared, offering
from ._http import OTHER_HTTP_PORT, chosen_port, http_options, with_http
from ._processes import ServerProcess, run_processes
from ._run import OTHER_PORT, DirectoryPath, Ready, given, run_until_signalled, server_options

DEFAULT_DATA = Path("lanemq-proxy-data")
NUMBERS_FILE = "brokers.json"


@click.command()
@click.option(
    "--upstream",
    required=True,
    help="The name servers of the cluster, host:port;host:port.",
)
@click.option("--host", help="The address to listen on.  [default: all]")
@click.option(
    "--advertise",
    help="The address that clients are told.  [default: --host, or the machine's]",
)
@click.option(
    "-p",
    "--port",
    type=int,
    help="The port for routes, where name servers have theirs; 0 takes a free one."
    "  [default: 9876]",
)
@click.option(
    "--broker-port",
    type=int,
    help="The port of the first broker, the next ones ten apart; 0 takes free ones."
    "  [default: 11911]",
)
@click.option(
    "--peer", "peers", multiple=True, help="The route port of another proxy; may be repeated."
)
@click.option(
    "--data",
    type=DirectoryPath(),
    help=f"A directory for the ports of brokers.  [default: ./{DEFAULT_DATA}]",
)
@click.option(
    "--keys", is_flag=True, help="Serve keys and values over topics of the cluster: lanemq kv."
)
@click.option(
    "--logical",
    is_flag=True,
    help="Let queues that topics get be seen at the end of their lists only.",
)
@click.option(
    "--moves",
    is_flag=True,
    help="With --logical: let queues move between brokers; all proxies of a cluster, or none.",
)
@click.option(
    "--settle-seconds",
    type=int,
    help="With --logical: how long a topic's queues are the same before their order is kept."
    "  [default: 60]",
)
@click.option(
    "--leave-seconds",
    type=int,
    help="Seconds that a proxy which stops serves on, if there are others.  [default: 35]",
)
@click.option(
    "--changes-from",
    help="Addresses whose tools may change name servers and move queues through this proxy, besides"
    " this machine's: 10.0.0.5,10.1.*.*",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="So many processes that share the ports, to use as many processors.",
)
@click.option("--worker", type=int, hidden=True, help="The number of this process among them.")
@click.option("--parent", type=int, hidden=True, help="End when this process does.")
@http_options(default="5557, or any where that is taken")
@server_options
def proxy(
    upstream: str,
    host: str | None,
    advertise: str | None,
    port: int | None,
    broker_port: int | None,
    peers: tuple[str, ...],
    data: Path | None,
    keys: bool,
    logical: bool,
    moves: bool,
    settle_seconds: int | None,
    leave_seconds: int | None,
    changes_from: str | None,
    workers: int,
    worker: int | None,
    parent: int | None,
    http_host: str,
    http_names: tuple[str, ...],
    http_port: int | None,
    tls_config: Path | None,
    as_json: bool,
    log_level: str,
) -> None:
    """Run a proxy in front of the brokers of an Apache cluster.

    With --workers N its connections are divided among N processes; number K, from 0 on, has its
    HTTP port K above --http-port.
    """
    options = given(
        upstream=upstream,
        bind_address=host,
        advertised_address=advertise,
        listen_port=port,
        broker_port=broker_port,
        peers=";".join(peers) or None,
        state_path=(data or DEFAULT_DATA) / NUMBERS_FILE,
        keys=keys,
        logical=logical,
        moves=moves,
        settle_seconds=settle_seconds,
        leave_seconds=leave_seconds,
        changes_from=changes_from,
        workers=workers,
        worker=worker,
        tls_config_file=tls_config,
    )
    if worker is not None or workers == 1:
        services = partial(_one, options, http_host, http_names, http_port)
    else:
        words = _as_given(click.get_current_context())
        services = partial(_several, options, words, workers)
    run_until_signalled(services, as_json=as_json, log_level=log_level, parent=parent)


@asynccontextmanager
async def _one(
    options: dict[str, object],
    http_host: str,
    http_names: tuple[str, ...],
    http_port: int | None,
) -> AsyncIterator[Ready]:
    """Run a proxy, or one of its workers."""
    from ..gateway import GatewayConfig, GatewayFamilies, open_gateway
    from ..net.http._pages import Pages

    config = GatewayConfig.load(None, options)
    with offering(OTHER_PORT):
        async with open_gateway(config) as running:
            brokers = {str(key): str(one.address) for key, one in running.brokers.ports.items()}
            ready = Ready(
                _lines(str(running.address), brokers),
                {"proxy": str(running.address), "brokers": brokers, "pid": os.getpid()},
            )
            pages = Pages(GatewayFamilies(running).all, lambda: running.routes.why_not_ready)
            at = chosen_port(http_host, http_port, config.listen_port, number=config.worker)
            with offering(OTHER_HTTP_PORT):
                async with with_http(
                    ready, pages, host=http_host, names=http_names, port=at
                ) as ready:
                    yield ready


@asynccontextmanager
async def _several(
    options: dict[str, object], words: Sequence[str], workers: int
) -> AsyncIterator[Ready]:
    """Run workers with the same options, and one by which each knows its number."""
    from ..gateway import BrokerNumbers, GatewayConfig

    config = GatewayConfig.load(None, options)
    processes = [
        ServerProcess(f"worker {number}", ["proxy", *words, f"--worker={number}"])
        for number in range(workers)
    ]
    with (
        offering(OTHER_PORT),
        closing(BrokerNumbers(config.state_path, is_locking=True)),
        hold_shared(config.bind_address, config.listen_port),
    ):
        async with run_processes(processes):
            facts = [process.facts for process in processes]
            at, brokers = facts[0]["proxy"], facts[0]["brokers"]
            yield Ready(
                (*_lines(at, brokers), *map(_worker_line, range(workers), facts)),
                {"proxy": at, "brokers": brokers, "pid": os.getpid(), "workers": facts},
            )
            async with trio.open_nursery() as nursery:  # a second signal cuts it short
                for process in processes:
                    nursery.start_soon(process.end)


def _as_given(context: click.Context) -> list[str]:
    """Return the options of a command as words, but for those that are of a process of its own."""
    words: list[str] = []
    for option in context.command.params:
        value = context.params.get(option.name or "")
        name = max(option.opts, key=len)
        if option.name in {"worker", "parent", "as_json"} or value is None or value is False:
            continue
        if value is True:
            words.append(name)
        else:
            words += [f"{name}={one}" for one in (value if isinstance(value, tuple) else (value,))]
    return words


def _worker_line(number: int, facts: Mapping[str, Any]) -> str:
    http = f", http {facts['http']}" if "http" in facts else ""
    return f"worker {number}: process {facts['pid']}{http}"


def _lines(address: str, brokers: Mapping[str, str]) -> tuple[str, ...]:
    return f"proxy {address}", *(f"broker {key} at {at}" for key, at in brokers.items())
