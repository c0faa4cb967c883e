"""Options that every command has for servers with accounts or TLS."""

import os
import ssl
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import click
from click.core import ParameterSource

from ....net._acl import Credentials
from ....opening._url import has_account, url_of

ENVIRONMENT = "NAMESRV_ADDR"
NO_NAME_SERVERS = f"no name server: give -n HOST:PORT or set {ENVIRONMENT}, as 127.0.0.1:9876"
ACCOUNT = ("access_key", "secret_key", "security_token")
FILE = click.Path(dir_okay=False, path_type=Path)


@final
@dataclass(frozen=True, slots=True)
class Access:
    """Arguments of ``open_admin``, made of the options."""

    credentials: Credentials | None
    tls: ssl.SSLContext | None


def access_options() -> list[click.Parameter]:
    """Return the options, new ones for each command."""
    return [
        click.Option(
            ["--access-key", "access_key"],
            envvar="LANEMQ_ACCESS_KEY",
            show_envvar=True,
            metavar="NAME",
            help="Account, for servers with aclEnable=true.",
        ),
        click.Option(
            ["--secret-key", "secret_key"],
            envvar="LANEMQ_SECRET_KEY",
            show_envvar=True,
            metavar="SECRET",
            help="Its secret; better in the environment, since others may see command lines.",
        ),
        click.Option(
            ["--security-token", "security_token"],
            envvar="LANEMQ_SECURITY_TOKEN",
            show_envvar=True,
            metavar="TOKEN",
            help="Of a temporary account.",
        ),
        click.Option(["--tls", "tls"], is_flag=True, help="Connect with TLS."),
        click.Option(
            ["--tls-ca", "tls_ca"],
            type=FILE,
            metavar="FILE",
            help="With TLS: trust these authorities (PEM), not the system's.",
        ),
        click.Option(
            ["--tls-cert", "tls_cert"],
            type=FILE,
            metavar="FILE",
            help="With TLS: our own certificate (PEM).",
        ),
        click.Option(
            ["--tls-key", "tls_key"],
            type=FILE,
            metavar="FILE",
            help="The key of --tls-cert, if it is not in the same file.",
        ),
        click.Option(
            ["--tls-no-verify", "tls_no_verify"],
            is_flag=True,
            help="With TLS: trust anyone.",
        ),
    ]


def name_servers_option(*names: str) -> click.Option:
    """Return the option with the name servers, for ``take_name_servers``."""
    return click.Option(
        [*names, "name_servers"],
        envvar=ENVIRONMENT,
        show_envvar=True,
        metavar="HOST:PORT;...",
        help="Name servers, joined by semicolons, or a connection string rocketmq://HOST; "
        "without this option LANEMQ_URL may have one, and comes first.",
    )


def take_name_servers(options: MutableMapping[str, Any]) -> str:
    """Remove the name servers from ``options`` and return them: those of the command line, else of
    ``LANEMQ_URL``, else of ``NAMESRV_ADDR``; an empty text if there are none.

    An account that a connection string names takes precedence over one of the environment, as in
    programs; one of the command line over both. Raises ``InvalidName``.
    """
    given: str = options.pop("name_servers") or ""
    context = click.get_current_context()
    if context.get_parameter_source("name_servers") is not ParameterSource.COMMANDLINE:
        given = url_of(None) or given
    url = url_of(given)
    if url is not None and has_account(url):
        for name in ACCOUNT:
            if context.get_parameter_source(name) is ParameterSource.ENVIRONMENT:
                options[name] = None
    return given


def take_access(options: MutableMapping[str, Any]) -> Access:
    """Take these options out of ``options``. Raises ``click.UsageError`` for a wrong use."""
    account = {name: options.pop(name) for name in ACCOUNT}
    tls, authorities = options.pop("tls"), options.pop("tls_ca")
    certificate, key = options.pop("tls_cert"), options.pop("tls_key")
    trusts_anyone = options.pop("tls_no_verify")
    if key is not None and certificate is None:
        raise click.UsageError("--tls-key belongs to --tls-cert")
    if trusts_anyone and authorities is not None:
        raise click.UsageError("--tls-no-verify trusts anyone: leave --tls-ca out")
    context = None
    if tls or authorities or certificate or trusts_anyone:
        context = _context(authorities, certificate, key, trusts_anyone=trusts_anyone)
    return Access(_credentials(**account), context)


def _credentials(
    access_key: str | None, secret_key: str | None, security_token: str | None
) -> Credentials | None:
    if not access_key and not secret_key:
        if security_token:
            raise click.UsageError("--security-token belongs to --access-key and --secret-key")
        return None
    if not access_key or not secret_key:
        raise click.UsageError("--access-key and --secret-key belong together")
    return Credentials(
        access_key=access_key, secret_key=secret_key, security_token=security_token or None
    )


def _context(
    authorities: Path | None, certificate: Path | None, key: Path | None, *, trusts_anyone: bool
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authorities)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        files = ", ".join(os.fspath(file) for file in (authorities, certificate, key) if file)
        raise click.UsageError(f"{files}: no certificates or keys that fit: {error}") from error
    if trusts_anyone:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
