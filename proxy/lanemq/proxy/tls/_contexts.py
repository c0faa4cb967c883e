"""OpenSSL contexts made of files; what cannot be used is an error that names the file.

Source: RocketMQ 4.9.8, TlsHelper.buildSslContext.
"""

import ssl
from pathlib import Path

from .._settings import ConfigError, read_file
from ..net.transport._tls import TlsMode
from ._tls_settings import ClientAuth, PortTlsSettings, TlsSettings

_BEGIN_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_PRIVATE_KEY = b"PRIVATE KEY-----"


def server_context(settings: PortTlsSettings) -> ssl.SSLContext | None:
    """Return the certificate of a server and its rules for clients; None without a certificate.

    Raises ``ConfigError``.
    """
    certificate, key = settings.tls_server_cert_path, settings.tls_server_key_path
    if settings.tls_server_mode is TlsMode.DISABLED or certificate is None or key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client that comes back shows its certificate again, and a new one is looked at again.
    context.num_tickets = 0
    _load_own(context, certificate, key, settings.tls_server_key_password, "tls.server")
    asks, authorities = settings.tls_server_need_client_auth, settings.tls_server_trust_cert_path
    if asks is not ClientAuth.NONE and authorities is not None:
        _load_authorities(context, authorities)
        context.verify_mode = ssl.CERT_REQUIRED if asks is ClientAuth.REQUIRE else ssl.CERT_OPTIONAL
    return context


def client_context(settings: PortTlsSettings) -> ssl.SSLContext | None:
    """Return the rules for servers that this one connects to; None for plain connections.

    As Apache's, it does not look for whom a certificate is: brokers know each other by addresses,
    which certificates rarely have. Raises ``ConfigError``.
    """
    if not isinstance(settings, TlsSettings) or not settings.connects_with_tls:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if not settings.checks_servers:
        context.verify_mode = ssl.CERT_NONE
    elif settings.tls_client_trust_cert_path is not None:
        _load_authorities(context, settings.tls_client_trust_cert_path)
    else:
        context.load_default_certs()
    certificate, key = settings.tls_client_cert_path, settings.tls_client_key_path
    if certificate is not None and key is not None:
        _load_own(context, certificate, key, settings.tls_client_key_password, "tls.client")
    return context


def files_of(settings: PortTlsSettings) -> tuple[Path, ...]:
    """Return the files that the contexts are made of."""
    files = [
        settings.tls_server_cert_path,
        settings.tls_server_key_path,
        settings.tls_server_trust_cert_path,
    ]
    if isinstance(settings, TlsSettings):
        files += [
            settings.tls_client_cert_path,
            settings.tls_client_key_path,
            settings.tls_client_trust_cert_path,
        ]
    return tuple(path for path in files if path is not None)


def _load_own(
    context: ssl.SSLContext, certificate: Path, key: Path, password: str | None, prefix: str
) -> None:
    if _BEGIN_CERTIFICATE not in read_file(certificate):
        raise ConfigError(f"{certificate} ({prefix}.certPath) is not a certificate in PEM")
    if _PRIVATE_KEY not in read_file(key):
        raise ConfigError(f"{key} ({prefix}.keyPath) is not a private key in PEM")
    asked = False

    def give() -> str:  # OpenSSL would ask at the terminal otherwise
        nonlocal asked
        asked = True
        return password or ""

    try:
        context.load_cert_chain(certificate, key, give)
    except ssl.SSLError as error:
        raise ConfigError(_why(error, certificate, key, prefix, is_locked=asked)) from error
    except OSError as error:
        raise ConfigError(f"cannot read {certificate} or {key}: {error.strerror}") from error


def _why(error: ssl.SSLError, certificate: Path, key: Path, prefix: str, *, is_locked: bool) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return (
            f"{key} ({prefix}.keyPath) is not the key of the certificate in {certificate}: "
            "put the two that belong together there"
        )
    if is_locked:
        return (
            f"{key} ({prefix}.keyPath) is encrypted, and {prefix}.keyPassword does not open it: "
            "give its password there"
        )
    reason = (error.reason or "it cannot be decoded").replace("_", " ").lower()
    return f"{certificate} and {key} cannot be used as certificate and key: {reason}"


def _load_authorities(context: ssl.SSLContext, path: Path) -> None:
    text = read_file(path)
    try:
        if _BEGIN_CERTIFICATE not in text:
            raise ConfigError(f"{path} has no certificates in PEM")
        context.load_verify_locations(cadata=text.decode("ascii", "ignore"))
    except ssl.SSLError as error:
        reason = (error.reason or "it cannot be decoded").replace("_", " ").lower()
        raise ConfigError(f"{path} has a certificate that cannot be used: {reason}") from error
