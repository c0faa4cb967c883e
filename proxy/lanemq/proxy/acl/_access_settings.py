"""The settings of a broker for access control: accounts of 4.x, users of 5.x.

Source: RocketMQ 4.9.8, BrokerConfig, PlainPermissionManager; 5.3.3, AuthConfig.
"""

import dataclasses
import os
from pathlib import Path
from typing import TypeVar

import msgspec

from lanemq.sdk import BrokerCredentials, Credentials

from .._settings import ConfigError, Settings, setting

CredentialsT = TypeVar("CredentialsT", bound=Credentials)


def _home() -> Path | None:
    """Return the directory of the environment variable ROCKETMQ_HOME."""
    home = os.environ.get("ROCKETMQ_HOME")
    return Path(home) if home else None


class _Account(msgspec.Struct, rename="camel"):
    """The value of innerClientAuthenticationCredentials."""

    access_key: str
    secret_key: str


class _User(msgspec.Struct):
    """The value of initAuthenticationUser."""

    access_key: str = msgspec.field(name="username")
    secret_key: str = msgspec.field(name="password")


def _credentials(
    text: str, form: type[_Account | _User], key: str, kind: type[CredentialsT]
) -> CredentialsT | None:
    """Read credentials; None where there are none. Raises ``ConfigError``."""
    if not text:
        return None
    try:
        found = msgspec.json.decode(text, type=form)
        return kind(access_key=found.access_key, secret_key=found.secret_key)
    except (msgspec.MsgspecError, ValueError):
        members = ",".join(f'"{name}":"…"' for name in form.__struct_encode_fields__)
        raise ConfigError(f"{key} must be {{{members}}}") from None


def _codes(text: str, key: str) -> frozenset[int]:
    """Read request codes with commas between. Raises ``ConfigError``."""
    try:
        return frozenset(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ConfigError(f"{key} is {text!r}: it must be request codes, as 10,310") from None


# No slots here: those of two bases cannot become those of one class.
@dataclasses.dataclass(kw_only=True)
class AccessSettings(Settings):
    """The settings for accounts and users."""

    acl_enable: bool = setting(False)
    """Serve only requests from accounts in the files below ``rocketmq_home``, and from addresses in
    their white lists."""
    rocketmq_home: Path | None = dataclasses.field(default_factory=_home)
    """The directory with ``conf/plain_acl.yml`` and ``conf/acl``. Default: the environment variable
    ROCKETMQ_HOME."""
    authentication_enabled: bool = setting(False)
    """Serve only requests from a user, as in 5.x. Users are kept in the store, and managed by tools
    (``createUser``)."""
    authorization_enabled: bool = setting(False)
    """Require policies for what users do (``createAcl``)."""
    init_authentication_user: str = setting("", secret=True)
    """The first user, who may do everything: ``{"username":"…","password":"…"}``. Created at a
    start if it does not exist."""
    authentication_whitelist: str = setting("")
    """Request codes, with commas between, that need no user."""
    authorization_whitelist: str = setting("")
    """Request codes, with commas between, that need a user and no policy."""
    inner_client_authentication_credentials: str = setting("", secret=True)
    """The account by which this broker signs its requests to other brokers:
    ``{"accessKey":"…","secretKey":"…"}``, as in 5.3.3. At a broker with ``acl_enable`` it has to be
    an administrator's; with ``authentication_enabled`` it is created at a start if it does not
    exist, and may do everything."""

    def check_access(self) -> None:
        """Raise ``ConfigError`` for settings that do not go together."""
        if self.acl_enable and self.rocketmq_home is None:
            raise ConfigError(
                "aclEnable is true, but no accounts are configured: set rocketmqHome, or the "
                "environment variable ROCKETMQ_HOME, to the directory with conf/plain_acl.yml"
            )
        if self.acl_enable and self.authentication_enabled:
            raise ConfigError(
                "aclEnable (accounts of 4.x) and authenticationEnabled (users of 5.x) exclude each "
                "other: set one of them to false"
            )
        if self.authorization_enabled and not self.authentication_enabled:
            raise ConfigError(
                "authorizationEnabled needs authenticationEnabled, without which nobody checks who "
                "sends a request: set both"
            )
        _ = self.inner_credentials, self.first_user, self.codes_open_to_all
        _ = self.codes_open_to_users

    @property
    def inner_credentials(self) -> BrokerCredentials | None:
        """The account in ``inner_client_authentication_credentials``; None where there is none.

        Raises ``ConfigError`` for a text that is something else.
        """
        text = self.inner_client_authentication_credentials
        key = "innerClientAuthenticationCredentials"
        return _credentials(text, _Account, key, BrokerCredentials)

    @property
    def first_user(self) -> Credentials | None:
        """The user in ``init_authentication_user``; None where there is none.

        Raises ``ConfigError`` for a text that is something else.
        """
        text = self.init_authentication_user
        return _credentials(text, _User, "initAuthenticationUser", Credentials)

    @property
    def codes_open_to_all(self) -> frozenset[int]:
        """The request codes in ``authentication_whitelist``. Raises ``ConfigError``."""
        return _codes(self.authentication_whitelist, "authenticationWhitelist")

    @property
    def codes_open_to_users(self) -> frozenset[int]:
        """The request codes in ``authorization_whitelist``. Raises ``ConfigError``."""
        return _codes(self.authorization_whitelist, "authorizationWhitelist")

    @property
    def checks_requests(self) -> bool:
        """True if requests need an account or a user."""
        return self.acl_enable or self.authentication_enabled
