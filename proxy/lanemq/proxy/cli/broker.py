"""``lanemq broker``: a broker alone."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from ..net.transport._listen import offering
from ._http import OTHER_HTTP_PORT, http_options, with_http
from ._run import (
    OTHER_BROKER_PORT,
    DirectoryPath,
    Ready,
    given,
    run_until_signalled,
    server_options,
)
from ._store_kinds import claim_default_store, refuse_fleet_stores

KEEPS_FLEET = (
    "`lanemq serve --brokers {count}` goes on with them, and --data {first} with the first alone"
)


@click.command()
@click.option("-c", "config_file", type=click.Path(path_type=Path), help="A broker.conf.")
@click.option("-n", "--namesrv", help="Name servers, host:port;host:port.")
@click.option("--name", help="The broker's name.  [default: the host's]")
@click.option("--host", help="The address to listen on.  [default: all]")
@click.option("-p", "--port", type=int, help="The main port; 0 takes a free one.  [default: 10911]")
@click.option(
    "--data",
    type=DirectoryPath(),
    help="The store directory.  [default: ./lanemq-data]",
)
@click.option(
    "--allow-missing-queue-files",
    is_flag=True,
    help="Start without queue files that are gone since the last stop, with their messages:"
    " allowMissingQueueFiles.",
)
@click.option("--parent", type=int, hidden=True, help="End when this process does.")
@http_options(default="none")
@server_options
def broker(
    config_file: Path | None,
    namesrv: str | None,
    name: str | None,
    host: str | None,
    port: int | None,
    data: Path | None,
    allow_missing_queue_files: bool,
    parent: int | None,
    http_host: str,
    http_names: tuple[str, ...],
    http_port: int | None,
    tls_config: Path | None,
    as_json: bool,
    log_level: str,
) -> None:
    """Run a broker. Options win over the file, which takes Apache's keys."""

    @asynccontextmanager
    async def services() -> AsyncIterator[Ready]:
        from ..broker import BrokerConfig
        from ..process import broker_pages, open_broker

        options = given(
            namesrv_addr=namesrv,
            broker_name=name,
            bind_address=host,
            listen_port=port,
            store_path_root_dir=data,
            tls_config_file=tls_config,
            allow_missing_queue_files=allow_missing_queue_files or None,
        )
        config = BrokerConfig.load(config_file, options)
        claim_default_store(config.store_path_root_dir, is_given=data is not None)
        refuse_fleet_stores(config.store_path_root_dir, keeps=KEEPS_FLEET)
        # A process with a parent is one of a fleet, where `--port` is the name server's.
        option = "--port" if parent is None else "--broker-port"
        with offering(OTHER_BROKER_PORT.format(option=option)):
            async with open_broker(config) as running:
                ready = Ready(
                    (f"broker {running.name} {running.address}",),
                    {
                        "broker": str(running.address),
                        "broker_name": running.name,
                        "vip_port": running.vip_port,
                        "logical_listener": running.logical_text,
                        "data": str(config.store_path_root_dir),
                        "pid": os.getpid(),
                    },
                )
                pages = broker_pages(running.broker)
                with offering(OTHER_HTTP_PORT):
                    async with with_http(
                        ready, pages, host=http_host, names=http_names, port=http_port
                    ) as ready:
                        yield ready

    run_until_signalled(services, as_json=as_json, log_level=log_level, parent=parent)
