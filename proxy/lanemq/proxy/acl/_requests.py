"""Tools' requests about the accounts in files (50 to 53), for administrators.

What could not be read afterwards is refused, and so is what would let in nobody at all; Apache's
brokers write it down. Texts are theirs, but for secrets, which no answer repeats. Request 54 of
4.9.7 and before, which shows them, is as unknown here as at 4.9.8.

Source: RocketMQ 4.9.8, AdminBrokerProcessor, PlainPermissionManager, Permission.checkResourcePerms.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from attrs import define

from lanemq.local import get_logger
from lanemq.wire import Refused, RequestCode, fastjson
from lanemq.wire.bodies import DataVersion
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    CreateAccessConfig,
    DeleteAccessConfig,
    GetBrokerAclConfigResponse,
    UpdateGlobalWhiteAddrsConfig,
)

from .._settings import ConfigError
from ..net._dispatch import Handlers, typed
from ..net._session import Session
from ._accounts import PERMISSIONS
from ._addresses import PATTERNS_MAX, parse_patterns
from ._control import AccountControl
from ._files import Edit
from ._key_rules import checked_resource
from ._keys import CHARACTERS_LEAST, WHITE_ADDRESS, WHITE_ADDRESSES

if TYPE_CHECKING:
    from ._account_text import AccountText

LOGGER = get_logger("lanemq.proxy.acl", by_peers=True)

PUT_FAILED: Final = 209
DELETE_FAILED: Final = 210
WHITE_ADDRESSES_FAILED: Final = 211
"""Response codes of 4.x, which in 5.x say other things (``ResponseCode``)."""

ACCOUNTS_MAX: Final = 10_000
"""Accounts that requests make: a file is read and written whole at each change."""

PERMISSIONS_MAX: Final = 1000
"""Topics, or groups, that one request may give an account permissions of."""
PERMISSION_CHARACTERS_MAX: Final = 1000
"""Characters of one of them: a name has 255 at most."""

_ACCOUNT_FAILED: Final = "The accesskey[{}] corresponding to accessConfig has been {} failed."
_WHITE_FAILED: Final = "The globalWhiteAddresses[{}] has been updated failed."

Texts = Mapping[Path, "AccountText"]


@final
@define(eq=False, kw_only=True, repr=False)
class AccountRequests:
    """The handlers of requests about accounts."""

    _control: AccountControl
    _broker: str
    """The broker's address."""
    _names: tuple[str, str]
    """The names of its cluster and itself."""
    _now_ms: Callable[[], int]

    async def put(self, header: CreateAccessConfig, frame: Frame, session: Session) -> Frame:
        """Create an account, or change the fields that the request names."""
        from ._account_text import AccountChange

        failed = PUT_FAILED
        key = header.access_key
        try:
            change = AccountChange(
                access_key=key,
                secret_key=_checked_secret(header),
                white_address=_checked_address(header.white_remote_address),
                is_admin=header.admin,
                default_topic_permission=header.default_topic_perm,
                default_group_permission=header.default_group_perm,
                topic_permissions=_checked_permissions(header.topic_perms),
                group_permissions=_checked_permissions(header.group_perms),
            )
        except ValueError as error:
            raise Refused(failed, str(error)) from None

        def put(texts: Texts) -> Iterable[Path]:
            path = next((one for one, text in texts.items() if text.has(key)), None)
            if path is None:
                path = self._control.main_file
                if len(self._control.accounts.by_key) >= ACCOUNTS_MAX:
                    raise ConfigError(f"there are {ACCOUNTS_MAX} accounts already, the most")
            texts[path].put(change)
            return [path]

        await self._change(put, failed)
        LOGGER.info("account %r changed by %s", key, session.peer)
        return frame.reply()

    async def delete(self, header: DeleteAccessConfig, frame: Frame, session: Session) -> Frame:
        """Delete an account, wherever it is."""
        failed = DELETE_FAILED
        key = header.access_key

        def delete(texts: Texts) -> Iterable[Path]:
            # The file that counts comes last: until then the account is what it was.
            paths = [one for one, text in reversed(list(texts.items())) if text.has(key)]
            if not paths:
                raise ConfigError(_ACCOUNT_FAILED.format(key, "deleted"))
            for path in paths:
                texts[path].remove(key)
            return paths

        await self._change(delete, failed)
        LOGGER.info("account %r deleted by %s", key, session.peer)
        return frame.reply()

    async def set_white_addresses(
        self, header: UpdateGlobalWhiteAddrsConfig, frame: Frame, session: Session
    ) -> Frame:
        """Replace the addresses of one file that need no account; ``plain_acl.yml`` by default."""
        failed = WHITE_ADDRESSES_FAILED
        addresses = _split(header.global_white_addrs)
        try:
            if len(addresses) > PATTERNS_MAX:
                raise ValueError(f"{len(addresses)} addresses, at most {PATTERNS_MAX} are taken")
            for address in addresses:
                parse_patterns(address)
        except ValueError as error:
            raise Refused(failed, f"{WHITE_ADDRESSES}: {error}") from None
        wanted = header.acl_file_full_path

        def set_addresses(texts: Texts) -> Iterable[Path]:
            path = Path(wanted) if wanted else self._control.main_file
            if path not in texts:
                raise ConfigError(_WHITE_FAILED.format(header.global_white_addrs))
            texts[path].set_white_addresses(addresses)
            return [path]

        await self._change(set_addresses, failed)
        LOGGER.info("%s set to %r by %s", WHITE_ADDRESSES, addresses, session.peer)
        return frame.reply()

    def versions(self, frame: Frame, session: Session) -> Frame:
        """Answer the version of each file, in a field."""
        versions = self._control.accounts.versions
        cluster, name = self._names
        main = versions.get(str(self._control.main_file), DataVersion())
        header = GetBrokerAclConfigResponse(
            version=main.encode().decode(),
            broker_name=name,
            broker_addr=self._broker,
            cluster_name=cluster,
            all_acl_file_version=fastjson.dumps(
                {path: version.to_json() for path, version in versions.items()}
            ).decode(),
        )
        return frame.reply(fields=header.to_fields())

    async def _change(self, edit: Edit, failed: int) -> None:
        try:
            await self._control.change(edit, self._now_ms())
        except ConfigError as error:
            raise Refused(failed, str(error)) from None
        except OSError as error:
            LOGGER.error("the files of accounts cannot be changed: %s", error)
            what = f"the files of accounts cannot be changed: {error.strerror}"
            raise Refused(failed, what) from None


def register(
    handlers: Handlers,
    control: AccountControl,
    *,
    broker: str,
    names: tuple[str, str],
    now_ms: Callable[[], int],
) -> None:
    """Register the requests about the accounts of ``control``; the rest as ``AccountRequests``."""
    requests = AccountRequests(control=control, broker=broker, names=names, now_ms=now_ms)
    handlers.add(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, typed(CreateAccessConfig, requests.put))
    handlers.add(RequestCode.DELETE_ACL_CONFIG, typed(DeleteAccessConfig, requests.delete))
    handlers.add(
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        typed(UpdateGlobalWhiteAddrsConfig, requests.set_white_addresses),
    )
    handlers.add(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, requests.versions)


def _split(text: str) -> list[str]:
    """Split at commas as Java does, without the empty parts at the end."""
    kept = text.rstrip(",")
    return kept.split(",") if kept or not text else []


def _checked_secret(header: CreateAccessConfig) -> str:
    secret = header.secret_key
    if secret is None or min(len(header.access_key), len(secret)) < CHARACTERS_LEAST:
        shown = "null" if secret is None else "******"
        raise ValueError(
            f"The accessKey={header.access_key} and secretKey={shown} cannot be null and length "
            "should longer than 6"
        )
    return secret


def _checked_address(text: str | None) -> str | None:
    if text is not None:
        try:
            parse_patterns(text)
        except ValueError as error:
            raise ValueError(f"{WHITE_ADDRESS}: {error}") from None
    return text


def _checked_permissions(text: str | None) -> Sequence[str] | None:
    if text is None:
        return None
    count = text.count(",") + 1
    if count > PERMISSIONS_MAX:
        raise ValueError(f"{count} permissions, at most {PERMISSIONS_MAX} are taken at once")
    entries = _split(text)
    for entry in entries:
        if len(entry) > PERMISSION_CHARACTERS_MAX:
            raise ValueError(
                f"a permission of {len(entry)} characters, at most {PERMISSION_CHARACTERS_MAX}"
            )
        parts = [part for part in entry.split("=") if part]
        if len(parts) != 2:
            raise ValueError(
                f"Parse Resource format error for {entry}.\n"
                "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
            )
        checked_resource(parts[0].strip())  # what a file may not have must not get into one
        if parts[1].strip() not in PERMISSIONS:
            raise ValueError(
                f"Parse resource permission error for {entry}.\n"
                "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
            )
    return entries
