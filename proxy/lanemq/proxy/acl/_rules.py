"""Checks a request's signature, and the permissions of the account that signed it.

Texts are Apache's. The signature comes first: of a request that does not prove its sender,
nothing is read any further.

Source: RocketMQ 4.9.8, PlainPermissionManager.validate, checkPerm.
"""

from lanemq.wire import ACCESS_KEY_FIELD, RETRY_PREFIX, SystemTopic
from lanemq.wire.frame import Frame

from ._accounts import PUB, Account, Accounts
from ._needs import ADMIN_CODES, needs_of

_TRACE = (str(SystemTopic.TRACE), PUB)


def refusal_of(accounts: Accounts, frame: Frame, host: str) -> str | None:
    """Return why a request from ``host`` is refused; None for one that is let in.

    Raises ``RemoteProtocolError`` where it cannot be read.
    """
    if accounts.white_list and accounts.white_list.admits(host):
        return None
    fields = frame.fields
    access_key = fields.get(ACCESS_KEY_FIELD)
    if access_key is None:
        return "No accessKey is configured"
    account = accounts.by_key.get(access_key)
    if account is None:
        return f"No acl config for {access_key}"
    if account.white_list and account.white_list.admits(host):
        return None
    if not account.signatures.is_signed(frame):
        return f"Check signature failed for accessKey={access_key}"
    return _lacking(account, frame)


def _lacking(account: Account, frame: Frame) -> str | None:
    """Return the permission that an account lacks for a request it has signed; None if it lacks
    none."""
    needs = needs_of(frame)
    if _TRACE in needs:
        return None  # every account may send traces
    if frame.code in ADMIN_CODES and not account.is_admin:
        return (
            f"Need admin permission for request code={frame.code}, "
            f"but accessKey={account.access_key} is not"
        )
    permissions = account.permissions
    if account.is_admin and not permissions:
        return None
    for resource, needed in needs:
        is_group = resource.startswith(RETRY_PREFIX)
        owned = permissions.get(resource)
        if owned is None:
            owned = (
                account.default_group_permission if is_group else account.default_topic_permission
            )
        if not owned & needed:
            name = resource.removeprefix(RETRY_PREFIX)
            return f"No default permission for {'group' if is_group else 'topic'}:{name}"
    return None
