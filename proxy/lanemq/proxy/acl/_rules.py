"""Checks a request's signature, and the permissions of the account that signed it.

Texts are Apache's. The signature comes first: of a request that does not prove its sender,
nothing is read any further.

Source: RocketMQ 4.9.8, PlainPermissionManager.validate, checkPerm.
"""

from collections.abc import Iterable
from typing import Final

from lanemq.wire import (
    ACCESS_KEY_FIELD,
    DLQ_PREFIX,
    INNER_PRODUCER_PREFIXES,
    RETRY_PREFIX,
    SIGNATURE_FIELD,
    group_behind,
    has_only_offsets,
)
from lanemq.wire.frame import Frame
from lanemq.wire.kv import KeySpan, parse_span, span_text
from lanemq.wire.logical import SERVERS_FIELDS
from lanemq.wire.message import group_of_stage_group

from ..net._dispatch import not_supported
from ..net._turns import Steps
from ._accounts import DENY, PUB, SUB, Account, Accounts
from ._named import must_be_named
from ._needs import ADMIN, READERS, Need
from ._rights import Object, Touched, Use
from ._touched import parts_of

_PERMISSIONS: Final = {Use.SEND: PUB, Use.READ: SUB, Use.CONSUME: SUB, Use.UPDATE: SUB}


def refusal_of(accounts: Accounts, frame: Frame, host: str) -> str | Steps[str | None] | None:
    """Return why a request from ``host`` is refused; None for one that is let in. For one that
    names very much it is found in steps.

    Raises ``RemoteProtocolError`` where it cannot be read, and ``Refused``
    (REQUEST_CODE_NOT_SUPPORTED) for a code that declares nothing: no account may use it.
    """
    if accounts.white_list and accounts.white_list.admits(host):
        return None
    fields = frame.fields
    access_key = fields.get(ACCESS_KEY_FIELD)
    if access_key is None:
        return "No accessKey is configured"
    account = accounts.by_key.get(access_key)
    if account is None:
        return _no_account(access_key)
    is_vouched_for = _vouches(account, host)
    # A signature is looked at in any case: through a proxy, its address is every client's.
    if is_vouched_for and SIGNATURE_FIELD not in fields:
        return None
    if not account.signatures.is_signed(frame):
        return f"Check signature failed for accessKey={access_key}"
    return None if is_vouched_for else _lacking(account, frame)


def signer_of(accounts: Accounts, frame: Frame, host: str) -> str:
    """Return the account that signed a request from ``host`` which was let in; "" where the
    address was enough, since the name may then be anybody's."""
    if accounts.white_list and accounts.white_list.admits(host):
        return ""
    access_key = frame.fields.get(ACCESS_KEY_FIELD, "")
    if SIGNATURE_FIELD in frame.fields:
        return access_key
    account = accounts.by_key.get(access_key)
    return "" if account is not None and _vouches(account, host) else access_key


def mark_of(accounts: Accounts, access_key: str, host: str) -> str:
    """Return the mark of an account's secret; "" for an address that is let in without one."""
    if accounts.white_list and accounts.white_list.admits(host):
        return ""
    account = accounts.by_key.get(access_key)
    if account is None or _vouches(account, host):
        return ""
    return account.signatures.mark


def proof_of(accounts: Accounts, frame: Frame, host: str) -> str:
    """Return the mark of the secret that signed a request which was let in; "" for none.

    An address may be enough; who signs there all the same stays a member where it no longer is.
    """
    access_key = frame.fields.get(ACCESS_KEY_FIELD, "")
    account = accounts.by_key.get(access_key)
    if account is None:
        return ""
    is_checked = bool(mark_of(accounts, access_key, host))
    return account.signatures.mark if is_checked or account.signatures.is_signed(frame) else ""


def is_limited(accounts: Accounts, access_key: str, host: str) -> bool:
    """Return False if an account may do everything, as may requests from certain addresses."""
    if accounts.white_list and accounts.white_list.admits(host):
        return False
    account = accounts.by_key.get(access_key)
    if account is None:
        return True
    if _vouches(account, host):
        return False
    return not account.is_admin or bool(account.permissions)


def lacking_of(accounts: Accounts, access_key: str, touched: Touched) -> str | None:
    """Return the permission that an account lacks to touch an object; None if it lacks none."""
    account = accounts.by_key.get(access_key)
    if account is None:
        return _no_account(access_key)
    if touched.kind is Object.PRODUCERS:
        return _lacking_producers(accounts, account, touched)
    if touched.kind is Object.GROUP:
        return _lacks(account, RETRY_PREFIX + touched.name, SUB)
    if has_only_offsets(touched.name) and touched.use is not Use.UPDATE:
        return None if account.is_admin else f"No default permission for topic:{touched.name}"
    is_retry = touched.name.startswith(RETRY_PREFIX)  # who consumes as a group may write to it
    return _lacks(account, touched.name, SUB if is_retry else _PERMISSIONS[touched.use])


def _vouches(account: Account, host: str) -> bool:
    """Return whether an address alone is enough for an account."""
    return bool(account.white_list) and account.white_list.admits(host)


def _lacking(account: Account, frame: Frame) -> str | Steps[str | None] | None:
    """Return the permission that an account lacks for a request it has signed; None if it lacks
    none."""
    read = READERS.get(frame.code)
    if read is None:
        raise not_supported(frame.code)
    parts = parts_of(read, frame)
    if parts is not None:
        return _lacking_in_parts(account, frame, parts)
    return _lacks_any(account, frame, read(frame))


def _lacking_in_parts(
    account: Account, frame: Frame, parts: Iterable[tuple[Need, ...]]
) -> Steps[str | None]:
    for needs in parts:
        why = _lacks_any(account, frame, needs)
        if why is not None:
            return why
        yield None
    return None


def _lacks_any(account: Account, frame: Frame, needs: Iterable[Need]) -> str | None:
    if account.is_admin and not account.permissions:
        return None
    if not SERVERS_FIELDS.isdisjoint(frame.fields):
        return servers_only(frame)
    for resource, needed in needs:
        if needed == ADMIN:
            if account.is_admin:
                continue
            return (
                f"Need admin permission for request code={frame.code}, "
                f"but accessKey={account.access_key} is not"
            )
        why = _lacks(account, resource, needed)
        if why is not None:
            return why
    return None


def servers_only(frame: Frame) -> str:
    """Return the refusal of a client's request with a field by which servers speak for others."""
    name = min(SERVERS_FIELDS.intersection(frame.fields))
    return f"No permission for the field {name}: only servers, which may do everything, say it"


def _lacks(account: Account, resource: str | KeySpan, needed: int) -> str | None:
    """Return why an account may not use a topic, or a group by its retry topic.

    A group's dead letters and its stage records are the group's, as is whatever ``group_behind``
    leads to it, unless a permission names their topic or shadow group. Topics in which messages of
    all others wait, or their replies are kept, are read by accounts with a permission that names
    them. Who uses the topic of a namespace of keys touches all of these.
    """
    span = parse_span(resource) if isinstance(resource, str) else resource
    if span is not None:
        return _lacks_keys(account, span, needed)
    assert isinstance(resource, str), resource
    owned = account.permissions.get(resource)
    if owned is None and resource.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        needed = SUB if resource.startswith(DLQ_PREFIX) else needed
        resource = RETRY_PREFIX + group_behind(resource)
        owned = account.permissions.get(resource)
        staged = group_of_stage_group(resource.removeprefix(RETRY_PREFIX))
        if owned is None and staged is not None:
            resource = RETRY_PREFIX + group_behind(staged)
            owned = account.permissions.get(resource)
    is_group = resource.startswith(RETRY_PREFIX)
    if owned is None and must_be_named(resource, is_sent_to=needed == PUB):
        owned = DENY
    if owned is None:
        owned = account.default_group_permission if is_group else account.default_topic_permission
    if owned & needed:
        return None
    name = resource.removeprefix(RETRY_PREFIX)
    return f"No default permission for {'group' if is_group else 'topic'}:{name}"


def _lacks_keys(account: Account, span: KeySpan, needed: int) -> str | None:
    """Return why an account may not use keys."""
    keys = account.keys.get(span.namespace)
    if keys is None:
        is_allowed = bool(account.of_all(span.namespace) & needed)
    else:
        is_allowed = keys.allow(span, needed)
    return None if is_allowed else f"No default permission for topic:{span_text(span)}"


def _lacking_producers(accounts: Accounts, account: Account, touched: Touched) -> str | None:
    """Return why an account may not be, act for, or reply to a member of a producer group.

    It needs any permission on the group. A group that no account's permissions name is everyone's
    who may send to some topic; who replies need not.
    """
    group = touched.name
    if group.startswith(INNER_PRODUCER_PREFIXES):
        return None
    resource = RETRY_PREFIX + group_behind(group)
    owned = account.permissions.get(resource)
    if owned is None:
        owned = account.default_group_permission or None
    is_open = owned is None and resource not in accounts.named_groups
    if is_open and (touched.use is Use.REPLY or _sends_somewhere(account)):
        return None
    return None if owned else f"No default permission for group:{group}"


def _sends_somewhere(account: Account) -> bool:
    return bool(account.default_topic_permission & PUB) or any(
        permission & PUB and not resource.startswith(RETRY_PREFIX)
        for resource, permission in account.permissions.items()
    )


def _no_account(access_key: str) -> str:
    return f"No acl config for {access_key}"
