"""``lanemq serve``: name server and broker in one process."""

import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..net.transport._listen import offering
from ._http import DEFAULT_PORT, OTHER_HTTP_PORT, chosen_port, http_options, with_http
from ._run import (
    OTHER_BROKER_PORT,
    OTHER_PORT,
    DirectoryPath,
    Ready,
    given,
    run_until_signalled,
    server_options,
)
from ._store_kinds import claim_default_store, refuse_fleet_stores, refuse_lone_store

if TYPE_CHECKING:
    from ..broker import BrokerConfig
    from ..nameserver import NameServer, NameServerConfig, NameServerFamilies
    from ..net.http._pages import Pages
    from ..net.limits._budget import Budget
    from ..process import RunningBroker
    from ..tls import SelfSigned

LOOPBACK = "127.0.0.1"
NAME_SERVER_PORT = 9876
OWN_BROKERS_MS = 5000
"""Milliseconds to wait for lanemq's own brokers, which register within 2 s after their name
server's start."""


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
    help="The broker's main port. Its VIP port is two below, those of its logical listener are "
    "from 4 to 15 above.  [default: 10911]",
)
@click.option(
    "--data",
    type=DirectoryPath(),
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
@click.option(
    "--tls",
    "makes_certificates",
    is_flag=True,
    help="Take connections with TLS only, with a certificate made for trying it out.",
)
@http_options(default=f"{DEFAULT_PORT}; any that is free with --port 0, or if it is taken")
@server_options
def serve(
    host: str | None,
    port: int,
    broker_port: int | None,
    data: Path | None,
    config_file: Path | None,
    brokers: int,
    makes_certificates: bool,
    http_host: str,
    http_names: tuple[str, ...],
    http_port: int | None,
    tls_config: Path | None,
    as_json: bool,
    log_level: str,
) -> None:
    """Run a name server and a broker. Options win over the file, which takes Apache's keys.

    With --brokers N the brokers are processes of their own, to use N processors. Every topic is
    on all of them, and clients see its queues as logical ones, whatever broker they are on. The
    K-th has its store in broker-K below the store directory, and its ports 20 * (K - 1) above.

    With --tls an authority and a certificate are made in the directory tls of the store directory,
    unless they are there, and what clients need is printed.
    """

    @asynccontextmanager
    async def services() -> AsyncIterator[Ready]:
        from ..nameserver import NameServerFamilies, open_nameserver
        from ..net.http._pages import Pages
        from ..net.limits._budget import Budget
        from ._fleet import serve_fleet

        options = given(
            listen_port=0 if port == 0 and broker_port is None else broker_port,
            store_path_root_dir=data,
            tls_config_file=tls_config,
        )
        config, files = _configured(config_file, options, host, brokers, makes_certificates)
        claim_default_store(config.store_path_root_dir, is_given=data is not None)
        budget = Budget(config.peer_memory_bytes)
        async with AsyncExitStack() as stack:
            with offering(OTHER_PORT):
                name_server = await stack.enter_async_context(
                    open_nameserver(_name_server_config(config, port), budget=budget)
                )
            # The broker reaches it inside this machine, whatever it listens on.
            near = LOOPBACK if config.listens_everywhere else config.bind_address
            servers = (f"{near}:{name_server.port}", *config.name_servers)
            config = replace(config, namesrv_addr=";".join(servers))
            opening: AbstractAsyncContextManager[tuple[Ready, Pages]]
            own = NameServerFamilies(budget=budget, routes=name_server.routes)
            if brokers > 1:
                fleet = serve_fleet(config, brokers, name_server.address, config_file, log_level)
                opening = _fleet_with_pages(fleet, Pages(own.all))
            else:
                opening = _one_broker(config, name_server, budget, own, has_others=len(servers) > 1)
            with offering(OTHER_BROKER_PORT.format(option="--broker-port")):
                ready, pages = await stack.enter_async_context(opening)
            at = chosen_port(http_host, http_port, port)
            with offering(OTHER_HTTP_PORT):
                served = with_http(ready, pages, host=http_host, names=http_names, port=at)
                ready = await stack.enter_async_context(served)
            yield _with_tls(ready, files)

    run_until_signalled(services, as_json=as_json, log_level=log_level)


def _refuse_other_stores(root: Path, brokers: int) -> None:
    """Raise ``ConfigError`` where the stores are those of another number of brokers."""
    if brokers > 1:
        refuse_lone_store(root, brokers)
    else:
        refuse_fleet_stores(root, keeps="--brokers {count} goes on with them")


def _configured(
    config_file: Path | None,
    options: dict[str, object],
    host: str | None,
    brokers: int,
    makes_certificates: bool,
) -> "tuple[BrokerConfig, SelfSigned | None]":
    """Read the configuration, and make certificates if that is asked for."""
    from .._settings import ConfigError, parse_properties, read_file
    from ..broker import BrokerConfig
    from ..net.transport._tls import TlsMode
    from ..tls import make_self_signed

    properties: dict[str, str] = {}
    if config_file is not None:
        properties = parse_properties(read_file(config_file), source=str(config_file))
    if host is not None or "bindAddress" not in properties:
        options["bind_address"] = host or LOOPBACK
    source = str(config_file or "configuration")
    if not makes_certificates:
        config = BrokerConfig.from_properties(properties, options, source=source)
        _refuse_other_stores(config.store_path_root_dir, brokers)
        return config, None
    mode = TlsMode.ENFORCING
    if properties.get("tls.server.mode", mode.value) == mode.value:
        properties.pop("tls.server.mode", None)  # there is no certificate yet to enforce it with
        config = BrokerConfig.from_properties(properties, options, source=source)
    else:
        config = BrokerConfig.from_properties(properties, options, source=source)
        mode = config.tls_server_mode
    for key, value in (
        ("tls.config.file", config.tls_config_file),
        ("tls.server.certPath", config.tls_server_cert_path),
        ("tls.server.mode", "disabled" if mode is TlsMode.DISABLED else None),
    ):
        if value is not None:
            raise ConfigError(f"--tls makes certificates, and {key} is {value}: leave one out")
    _refuse_other_stores(config.store_path_root_dir, brokers)
    hosts = ["localhost", LOOPBACK, "::1", socket.gethostname(), config.advertised_host]
    if not config.listens_everywhere:
        hosts.append(config.bind_address)
    files = make_self_signed(config.store_path_root_dir / "tls", hosts, mode=TlsMode(mode))
    options["tls_config_file"] = files.properties
    return BrokerConfig.from_properties(properties, options, source=source), files


def _name_server_config(config: "BrokerConfig", port: int) -> "NameServerConfig":
    """Make the configuration of the broker's own name server: with the same TLS."""
    from ..nameserver import NameServerConfig
    from ..tls import PortTlsSettings

    own = config.store_path_root_dir / "namesrv"
    return NameServerConfig(
        bind_address=config.bind_address,
        listen_port=port,
        kv_config_path=own / "kvConfig.json",
        config_store_path=own / "namesrv.properties",
        logical_queue_wait_time=OWN_BROKERS_MS,
        **{one.name: getattr(config, one.name) for one in fields(PortTlsSettings)},
    )


@asynccontextmanager
async def _one_broker(
    config: "BrokerConfig",
    name_server: "NameServer",
    budget: "Budget",
    own: "NameServerFamilies",
    *,
    has_others: bool,
) -> "AsyncIterator[tuple[Ready, Pages]]":
    """Run a broker in this process. ``has_others``: whether it has other name servers, too."""
    from ..process import broker_pages, open_broker

    def is_alone() -> bool:
        return not has_others and name_server.known.names <= {config.broker_name}

    async with open_broker(config, budget=budget, is_alone=is_alone) as broker:
        yield _ready(config, name_server, broker), broker_pages(broker.broker, own.all)


@asynccontextmanager
async def _fleet_with_pages(
    fleet: AbstractAsyncContextManager[Ready], pages: "Pages"
) -> "AsyncIterator[tuple[Ready, Pages]]":
    async with fleet as ready:
        yield ready, pages


def _ready(config: "BrokerConfig", name_server: "NameServer", broker: "RunningBroker") -> Ready:
    return Ready(
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


def _with_tls(ready: Ready, files: "SelfSigned | None") -> Ready:
    """Add to the output what clients need for certificates that were made."""
    if files is None:
        return ready
    facts = {
        "tls_authority": str(files.authority),
        "tls_client_properties": str(files.client_properties),
    }
    lines = (
        f"TLS: clients trust {files.authority}",
        f"  lanemq admin ... --tls-ca {files.authority}",
        f"  Python: tls=ssl.create_default_context(cafile={str(files.authority)!r})",
        f"  Java: -Dtls.enable=true -Dtls.config.file={files.client_properties}",
    )
    return Ready((*ready.lines, *lines), {**ready.facts, **facts})
