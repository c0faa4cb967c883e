"""Connection strings: ``rocketmq://[user:secret@]host:port[,host:port]/?group=…&tls=…``.

Errors name the part of the string that is wrong, and never show its secret.
"""

import dataclasses
import difflib
import os
import ssl
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, get_args
from urllib.parse import parse_qsl, unquote

from .._errors import InvalidName, WrongValue
from .._options import ClientOptions, LitePullOptions, ProducerOptions, PushOptions
from ..net._acl import Credentials
from ..net._discovery import VARIABLE, NameServersLike, parse_addresses
from ..net._remoting import RemotingOptions

SCHEME: Final = "rocketmq://"
URL_VARIABLE: Final = "LANEMQ_URL"
ACCESS_VARIABLE: Final = "LANEMQ_ACCESS_KEY"
SECRET_VARIABLE: Final = "LANEMQ_SECRET_KEY"
DEFAULT_PORT: Final = 9876
OURS: Final = ("group", "tls", "tls_ca", "tls_cert", "tls_key", "security_token")
"""Parameters that are no options of a client."""
SWITCHES: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def connect(
    group: str | None,
    name_servers: NameServersLike,
    settings: Mapping[str, Any],
    kind: type,
    environment: Mapping[str, str] = os.environ,
) -> tuple[str, NameServersLike, dict[str, Any]]:
    """Return group, name servers and settings, with what a connection string says of them.

    The string is ``name_servers``, or without these ``LANEMQ_URL``. What the caller gives takes
    precedence. Options of another ``kind`` of client are left out. Raises ``InvalidName`` and
    ``WrongValue``.
    """
    url = url_of(name_servers, environment)
    if url is None:
        return _named(group), name_servers, dict(settings)
    servers, found = parse_url(url, environment)
    named = found.pop("group", None)
    fields = _fields(kind)
    found = {name: value for name, value in found.items() if name in fields}
    return _named(group or named), servers, found | dict(settings)


def url_of(
    name_servers: NameServersLike, environment: Mapping[str, str] = os.environ
) -> str | None:
    """Return the connection string that ``name_servers`` is, or without these ``LANEMQ_URL``; None
    if there is none. Raises ``InvalidName`` for a variable that is something else."""
    if name_servers is None:
        url = environment.get(URL_VARIABLE, "").strip() or None
        if url is not None and not url.startswith(SCHEME):
            raise InvalidName(f"{URL_VARIABLE} must begin with {SCHEME}")
        return url
    if isinstance(name_servers, str) and name_servers.strip().startswith(SCHEME):
        return name_servers.strip()
    return None


def connect_without_group(
    name_servers: NameServersLike,
    credentials: Credentials | None,
    tls: ssl.SSLContext | None,
    environment: Mapping[str, str] = os.environ,
) -> tuple[NameServersLike, Credentials | None, ssl.SSLContext | None]:
    """Return name servers, account and TLS of a client that is in no group, with what a connection
    string says of them; its other parameters are for other clients.

    What the caller gives takes precedence. Raises as ``connect``.
    """
    url = url_of(name_servers, environment)
    if url is None:
        return name_servers, credentials, tls
    servers, found = parse_url(url, environment)
    return servers, credentials or found.get("credentials"), tls or found.get("tls")


def has_account(url: str) -> bool:
    """Say whether a connection string names an account."""
    return "@" in url.removeprefix(SCHEME).partition("?")[0].partition("/")[0]


def _named(group: str | None) -> str:
    if group is None:
        raise InvalidName(
            f"no group given: pass it, or write {SCHEME}host:port/?group=my-group as name_servers"
            f" or in {URL_VARIABLE}"
        )
    return group


def parse_url(
    url: str, environment: Mapping[str, str] = os.environ
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the addresses of a connection string, and its settings by the names of options.

    Raises ``InvalidName`` and ``WrongValue``, which name the part that is wrong.
    """
    rest, _, query = url.removeprefix(SCHEME).partition("?")
    if "#" in rest or "#" in query:
        raise InvalidName("connection string: '#' must be written as %23")
    authority, _, path = rest.partition("/")
    if path:
        raise InvalidName(f"connection string: nothing can follow the hosts but '/?', not {path!r}")
    user, at, hosts = authority.rpartition("@")
    settings = _parameters(query)
    token = settings.pop("security_token", "")
    credentials = _credentials(user, token, environment) if at else _of_environment(environment)
    if credentials is not None:
        settings["credentials"] = credentials
    elif token:
        raise WrongValue("connection string: security_token needs user:secret@ before the hosts")
    return _addresses(hosts), settings


def _credentials(user: str, token: str, environment: Mapping[str, str]) -> Credentials:
    name, colon, secret = user.partition(":")
    if not colon:
        secret = environment.get(SECRET_VARIABLE, "")
    if not name or not secret:
        missing = "user" if not name else "secret"
        raise WrongValue(
            f"connection string: the {missing} is missing before '@': write user:secret@host:port,"
            f" with '@', ':' and '/' as %40, %3A and %2F (or set {SECRET_VARIABLE})"
        )
    try:
        return Credentials(
            access_key=unquote(name, errors="strict"),
            secret_key=unquote(secret, errors="strict") if colon else secret,
            security_token=token or None,
        )
    except UnicodeDecodeError:
        raise WrongValue("connection string: user or secret is not UTF-8 once unescaped") from None


def _of_environment(environment: Mapping[str, str]) -> Credentials | None:
    access, secret = environment.get(ACCESS_VARIABLE), environment.get(SECRET_VARIABLE)
    if not access and not secret:
        return None
    if not access or not secret:
        raise WrongValue(f"set both {ACCESS_VARIABLE} and {SECRET_VARIABLE}, or none of them")
    return Credentials(access_key=access, secret_key=secret)


def _addresses(hosts: str) -> tuple[str, ...]:
    addresses = []
    for host in filter(None, hosts.replace(";", ",").split(",")):
        bare = host.rpartition("]")[2] if host.startswith("[") else host
        addresses.append(host if ":" in bare else f"{host}:{DEFAULT_PORT}")
    if not addresses:
        raise InvalidName(f"connection string: no host: write {SCHEME}host:port/")
    try:
        return parse_addresses(addresses)
    except InvalidName as error:
        raise InvalidName(f"connection string: {error}") from None


def _parameters(query: str) -> dict[str, Any]:
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict"
        )
    except ValueError:
        raise WrongValue(
            "connection string: after '?' write name=value&name=value, in UTF-8"
        ) from None
    known: dict[str, Any] = {}
    for kind in (ProducerOptions, PushOptions, LitePullOptions):
        known |= _fields(kind)
    given: dict[str, str] = {}
    for name, text in pairs:
        if name in given:
            raise WrongValue(f"connection string: {name} is there twice")
        if name not in OURS and name not in known:
            close = difflib.get_close_matches(name, [*OURS, *known], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise WrongValue(f"connection string: there is no option {name!r}{hint}")
        given[name] = text
    settings: dict[str, Any] = {
        name: _value(name, known[name], text) for name, text in given.items() if name not in OURS
    }
    for name in ("group", "security_token"):
        if name in given:
            settings[name] = given[name]
    context = _tls(given)
    if context is not None:
        settings["tls"] = context
    return settings


def _fields(kind: type) -> dict[str, Any]:
    """Return the options of a kind of client that a text can say, with their types."""
    found: dict[str, Any] = {}
    for owner in (kind, ClientOptions, RemotingOptions):
        for one in dataclasses.fields(owner):
            kinds = [k for k in get_args(one.type) if k is not type(None)] or [one.type]
            if kinds[0] in (bool, int, float, str) or _is_enum(kinds[0]):
                found[one.name] = kinds[0]
    return found | {"credentials": None, "tls": None}


def _is_enum(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _value(name: str, kind: Any, text: str) -> Any:  # noqa: ANN401 - of an option's type
    if kind is None:
        raise WrongValue(f"connection string: {name} is not written as a parameter")
    if kind is str:
        return text
    if kind is bool:
        return _switch(name, text)
    if _is_enum(kind):
        names = {one.name.lower(): one for one in kind}
        if text.lower() not in names:
            raise WrongValue(
                f"connection string: {name} must be one of {', '.join(names)}, not {text!r}"
            )
        return names[text.lower()]
    try:
        return int(text) if kind is int and len(text) < 20 else float(text)
    except ValueError:
        raise WrongValue(f"connection string: {name} must be a number, not {text!r}") from None


def _switch(name: str, text: str) -> bool:
    if text.lower() not in SWITCHES:
        raise WrongValue(f"connection string: {name} must be true or false, not {text!r}")
    return SWITCHES[text.lower()]


def _tls(given: Mapping[str, str]) -> ssl.SSLContext | None:
    files = [name for name in ("tls_ca", "tls_cert", "tls_key") if name in given]
    if not _switch("tls", given.get("tls", "true" if files else "false")):
        if files:
            raise WrongValue(f"connection string: {files[0]} needs tls=true")
        return None
    if "tls_key" in given and "tls_cert" not in given:
        raise WrongValue("connection string: tls_key needs tls_cert")
    part = "tls_ca"
    try:
        context = ssl.create_default_context(cafile=given.get("tls_ca"))
        if "tls_cert" in given:
            part = "tls_cert or tls_key"
            context.load_cert_chain(given["tls_cert"], given.get("tls_key"))
    except (OSError, ValueError) as error:  # ssl's errors are among them
        raise WrongValue(f"connection string: {part} cannot be read: {error}") from None
    return context


__all__ = ["VARIABLE", "connect", "parse_url"]
