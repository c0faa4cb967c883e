"""``lanemq namesrv``: a name server alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from ..net.transport._listen import offering
from ._http import OTHER_HTTP_PORT, http_options, with_http
from ._run import OTHER_PORT, DirectoryPath, Ready, given, run_until_signalled, server_options


@click.command()
@click.option("-c", "config_file", type=click.Path(path_type=Path), help="A namesrv.conf.")
@click.option("--host", help="The address to listen on.  [default: all]")
@click.option("-p", "--port", type=int, help="The port; 0 takes a free one.  [default: 9876]")
@click.option(
    "--data",
    type=DirectoryPath(),
    help="A directory to keep key-value configuration and changed settings in.  [default: none]",
)
@http_options(default="none")
@server_options
def namesrv(
    config_file: Path | None,
    host: str | None,
    port: int | None,
    data: Path | None,
    http_host: str,
    http_names: tuple[str, ...],
    http_port: int | None,
    tls_config: Path | None,
    as_json: bool,
    log_level: str,
) -> None:
    """Run a name server, where brokers register and clients ask for routes."""

    @asynccontextmanager
    async def services() -> AsyncIterator[Ready]:
        from ..nameserver import NameServerConfig, NameServerFamilies, open_nameserver
        from ..net.http._pages import Pages

        options = given(
            bind_address=host,
            listen_port=port,
            kv_config_path=data and data / "kvConfig.json",
            config_store_path=data and data / "namesrv.properties",
            tls_config_file=tls_config,
        )
        config = NameServerConfig.load(config_file, options)
        with offering(f"{OTHER_PORT}, as does listenPort in the file of -c"):
            async with open_nameserver(config) as server:
                ready = Ready((f"name server {server.address}",), {"namesrv": server.address})
                pages = Pages(NameServerFamilies(budget=server.budget, routes=server.routes).all)
                with offering(OTHER_HTTP_PORT):
                    async with with_http(
                        ready, pages, host=http_host, names=http_names, port=http_port
                    ) as ready:
                        yield ready

    run_until_signalled(services, as_json=as_json, log_level=log_level)
