"""The settings of TLS, under Apache's names.

Source: RocketMQ 4.9.8 and 5.3.3, TlsSystemConfig, TlsHelper, NettyClientConfig. Apache takes
``tls.server.mode`` and ``tls.enable`` from the command line alone, the others also from a file;
here all of them may stand in either.
"""

import dataclasses
import enum
from pathlib import Path
from typing import Any, Final

from .._settings import ConfigError, Settings, apache_key, parse_properties, read_file, setting
from ..net.transport._tls import TlsMode

_PREFIX = "tls."
_UNUSED_KEYS = frozenset({"tls.test.mode.enable", "tls.server.authClient"})
"""The second one because certificates that clients show are always checked. (Apache takes any,
unless it is true.)"""


class ClientAuth(enum.Enum):
    """The server's demand for clients' own certificates."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"

    @classmethod
    def _missing_(cls, value: object) -> "ClientAuth | None":
        wanted = str(value).strip().lower()
        return next((one for one in cls if one.value == wanted), None)


class NoCertificate(ConfigError):  # noqa: N818 - a state of the settings
    """A server that takes connections with TLS alone has no certificate."""


@dataclasses.dataclass(kw_only=True, slots=True)
class PortTlsSettings(Settings):
    """The settings of any server for TLS at its ports. Files are PEM."""

    tls_config_file: Path | None = setting(None, key="tls.config.file")
    """A file with more of these keys, which win. Apache's default is
    ``/etc/rocketmq/tls.properties``; here there is none."""
    tls_server_mode: TlsMode = setting(TlsMode.PERMISSIVE, key="tls.server.mode")
    """``disabled`` closes connections with TLS, ``enforcing`` those without."""
    tls_server_cert_path: Path | None = setting(None, key="tls.server.certPath")
    """The server's certificate, and those between it and its authority. Without it nobody can
    connect with TLS."""
    tls_server_key_path: Path | None = setting(None, key="tls.server.keyPath")
    tls_server_key_password: str | None = setting(None, key="tls.server.keyPassword", secret=True)
    tls_server_need_client_auth: ClientAuth = setting(
        ClientAuth.NONE, key="tls.server.need.client.auth"
    )
    """``require`` lets in only clients with a certificate."""
    tls_server_trust_cert_path: Path | None = setting(None, key="tls.server.trustCertPath")
    """The authorities of clients' certificates."""

    @classmethod
    def other_apache_keys(cls) -> frozenset[str]:
        return _UNUSED_KEYS

    @classmethod
    def completed(cls, values: dict[str, Any]) -> dict[str, Any]:
        path = values.get("tls_config_file")
        if path:
            properties = parse_properties(read_file(path), source=str(path))
            for key in properties:
                if not key.startswith(_PREFIX) or key == "tls.config.file":
                    raise ConfigError(f"{path}: {key!r} does not belong in a file of TLS settings")
            values = values | cls._values(properties, source=str(path))
        # At Apache an empty path or password counts as not set.
        return {
            name: value
            for name, value in values.items()
            if not name.startswith("tls_") or value not in (Path(), "")
        }

    def check(self) -> None:
        _check_pair(self, "tls_server_cert_path", "tls_server_key_path")
        if self.tls_server_mode is TlsMode.ENFORCING and self.tls_server_cert_path is None:
            raise NoCertificate(
                "tls.server.mode is enforcing, but there is no certificate: name one in "
                "tls.server.certPath and its key in tls.server.keyPath"
            )
        wants = self.tls_server_need_client_auth
        if wants is not ClientAuth.NONE and self.tls_server_trust_cert_path is None:
            raise ConfigError(
                f"tls.server.need.client.auth is {wants.value}, but no authorities are named: "
                "set tls.server.trustCertPath to the file with their certificates"
            )


@dataclasses.dataclass(kw_only=True, slots=True)
class TlsSettings(PortTlsSettings):
    """The settings for TLS of a server that connects to others, too."""

    tls_enable: bool | None = setting(None, key="tls.enable")
    """Another name of ``use_tls``, which has the value."""
    use_tls: bool | None = setting(None, key="useTLS")
    """Connect to name servers and other brokers with TLS. Default: true where ``tls_server_mode``
    is ``enforcing``."""
    tls_client_cert_path: Path | None = setting(None, key="tls.client.certPath")
    """The certificate to show there."""
    tls_client_key_path: Path | None = setting(None, key="tls.client.keyPath")
    tls_client_key_password: str | None = setting(None, key="tls.client.keyPassword", secret=True)
    tls_client_auth_server: bool | None = setting(None, key="tls.client.authServer")
    """Check the certificates of these servers, but as at Apache not the names in them. Default:
    true where ``tls_client_trust_cert_path`` is there. (Apache's is false.)"""
    tls_client_trust_cert_path: Path | None = setting(None, key="tls.client.trustCertPath")
    """The authorities of these servers. Default: the system's."""

    def check(self) -> None:
        given = {self.tls_enable, self.use_tls} - {None}
        if len(given) > 1:
            raise ConfigError(
                "tls.enable and useTLS are two names of one switch, and have different values: "
                "give one of them"
            )
        if given:
            self.use_tls, self.tls_enable = True in given, None
        PortTlsSettings.check(self)
        _check_pair(self, "tls_client_cert_path", "tls_client_key_path")

    @property
    def connects_with_tls(self) -> bool:
        """The value of ``use_tls`` with its default applied."""
        if self.use_tls is None:
            return self.tls_server_mode is TlsMode.ENFORCING
        return self.use_tls

    @property
    def checks_servers(self) -> bool:
        """The value of ``tls_client_auth_server`` with its default applied."""
        if self.tls_client_auth_server is None:
            return self.tls_client_trust_cert_path is not None
        return self.tls_client_auth_server


LINK_KEYS: Final = frozenset(
    apache_key(one)
    for one in dataclasses.fields(TlsSettings)
    if one.name not in PortTlsSettings.__dataclass_fields__
)
"""The keys that say how a server connects to others: without effect at one that does not."""


def _check_pair(settings: PortTlsSettings, certificate: str, key: str) -> None:
    """Raise ``ConfigError`` if a certificate is there without its key, or the other way round."""
    if (getattr(settings, certificate) is None) != (getattr(settings, key) is None):
        there, missing = certificate, key
        if getattr(settings, certificate) is None:
            there, missing = key, certificate
        raise ConfigError(f"{_key(there)} needs {_key(missing)} beside it")


def _key(name: str) -> str:
    return next(apache_key(one) for one in dataclasses.fields(TlsSettings) if one.name == name)
