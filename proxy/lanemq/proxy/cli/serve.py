"""``lanemq serve``: name server and broker in one process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import click

from ._run import Ready, run_until_signalled, server_options

LOOPBACK = "127.0.0.1"
NAME_SERVER_PORT = 9876
OWN_BROKERS_MS = 5000
"""A broker of lanemq registers within 2 s after its name server has started."""


@click.command()
@click.option(
    "--host", help=f"The address to listen on and to tell clients.  [default: {LOOPBACK}]"
)
@click.option(
    "-p",
    "--port",
    type=int,
    default=NAME_SERVER_PORT,
    show_default=True,
    help="The name server's port; 0 takes free ports, the broker's too.",
)
@click.option(
    "--broker-port",
    type=int,
    help="The broker's main port; its VIP port is two below.  [default: 10911]",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The store directory.  [default: ./lanemq-data]",
)
@click.option("-c", "config_file", type=click.Path(path_type=Path), help="A broker.conf.")
@click.option(
    "--brokers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="So many broker processes, as one set of logical queues.",
)
@server_options
def serve(
    host: str | None,
    port: int,
    broker_port: int | None,
    data: Path | None,
    config_file: Path | None,
    brokers: int,
    as_json: bool,
    log_level: str,
) -> None:
    """Run a name server and a broker. Options win over the file, which takes Apache's keys.

    With --brokers N the brokers are processes of their own, to use N processors. Every topic is
    on all of them, and clients see its queues as logical ones, whatever broker they are on. The
    K-th has its store in broker-K below the store directory, and its ports 20 * (K - 1) above.
    """

    @asynccontextmanager
    async def services() -> AsyncIterator[Ready]:
        from .._settings import parse_properties, read_file
        from ..broker import BrokerConfig, open_broker
        from ..nameserver import NameServerConfig, open_nameserver
        from ._fleet import serve_fleet

        properties: dict[str, str] = {}
        if config_file is not None:
            properties = parse_properties(read_file(config_file), source=str(config_file))
        given: dict[str, object] = {}
        if host is not None or "bindAddress" not in properties:
            given["bind_address"] = host or LOOPBACK
        if broker_port is not None or port == 0:
            given["listen_port"] = broker_port or 0
        if data is not None:
            given["store_path_root_dir"] = data
        config = BrokerConfig.from_properties(
            properties, given, source=str(config_file or "configuration")
        )
        own = config.store_path_root_dir / "namesrv"
        name_server_config = NameServerConfig(
            bind_address=config.bind_address,
            listen_port=port,
            kv_config_path=own / "kvConfig.json",
            config_store_path=own / "namesrv.properties",
            logical_queue_wait_time=OWN_BROKERS_MS,
        )
        async with open_nameserver(name_server_config) as name_server:
            # The broker reaches it inside this machine, whatever it listens on.
            near = LOOPBACK if config.listens_everywhere else config.bind_address
            servers = (f"{near}:{name_server.port}", *config.name_servers)
            config = replace(config, namesrv_addr=";".join(servers))
            if brokers > 1:
                async with serve_fleet(
                    config, brokers, name_server.address, config_file, log_level
                ) as fleet:
                    yield fleet
                return
            async with open_broker(config) as broker:
                yield Ready(
                    (
                        f"name server {name_server.address}",
                        f"broker {broker.name} {broker.address}",
                    ),
                    {
                        "namesrv": name_server.address,
                        "broker": str(broker.address),
                        "broker_name": broker.name,
                        "vip_port": broker.vip_port,
                        "logical_listener": broker.logical_text,
                        "data": str(config.store_path_root_dir),
                    },
                )

    run_until_signalled(services, as_json=as_json, log_level=log_level)
