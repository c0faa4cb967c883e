"""The judgement of a request by users and policies, in the words of 5.3.3.

Source: RocketMQ 5.3.3, DefaultAuthenticationHandler, UserAuthorizationHandler,
AclAuthorizationHandler.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from lanemq.wire import ACCESS_KEY_FIELD, INNER_PRODUCER_PREFIXES, RETRY_PREFIX
from lanemq.wire.frame import Frame
from lanemq.wire.logical import SERVERS_FIELDS
from lanemq.wire.requests import Action

from ...net._dispatch import not_supported
from ...net._turns import Steps
from .._rights import Object, Touched, Use
from .._rules import servers_only
from .._touched import Reader
from ._needs import readers_at
from ._resources import Need, group_need, progress_need, topic_need
from ._table import SUBJECT_PREFIX, User, UserType

Claimed = Callable[[str], bool]
"""Returns whether a policy of any user names a group."""

_ACTIONS: Final = {
    Use.SEND: (Action.PUB,),
    Use.READ: (Action.SUB, Action.GET),
    Use.CONSUME: (Action.SUB,),
    Use.UPDATE: (Action.UPDATE,),
}


def stranger(users: Mapping[str, User], frame: Frame) -> str | None:
    """Return the reason why a sender is not authenticated; None if it is."""
    name = frame.fields.get(ACCESS_KEY_FIELD, "")
    if not name:
        return "username cannot be null."
    user = users.get(name)
    if user is None:
        return f"User:{name} is not found."
    if not user.is_let_in:
        return _disabled(name)
    return None if user.signatures.is_signed(frame) else "check signature failed."


def lacking(
    users: Mapping[str, User], frame: Frame, host: str, cluster: str, *, name: str
) -> str | None:
    """Return the reason why the user ``name`` may not make a request; None if it may.

    Raises ``RemoteProtocolError`` for a request that cannot be read, and ``Refused``
    (REQUEST_CODE_NOT_SUPPORTED) for a code that declares nothing: no user may use it.
    """
    return _lacks_any(users, frame, host, reader_at(cluster, frame)(frame), name)


def lacking_in_parts(
    users: Mapping[str, User],
    frame: Frame,
    host: str,
    parts: Iterable[tuple[Need, ...]],
    *,
    name: str,
) -> Steps[str | None]:
    """Do ``lacking`` in steps, of which each judges a part of the needs."""
    for needs in parts:
        why = _lacks_any(users, frame, host, needs, name)
        if why is not None:
            return why
        yield None
    return None


def reader_at(cluster: str, frame: Frame) -> Reader[Need]:
    """Return the reader of a request's needs. Raises ``Refused`` as ``lacking``."""
    read = readers_at(cluster).get(frame.code)
    if read is None:
        raise not_supported(frame.code)
    return read


def _lacks_any(
    users: Mapping[str, User], frame: Frame, host: str, needs: tuple[Need, ...], name: str
) -> str | None:
    is_servers = not SERVERS_FIELDS.isdisjoint(frame.fields)
    if not (needs or is_servers):
        return None
    user = users.get(name)
    if user is None:
        return f"User:{name} not found."
    if user.user_type is UserType.SUPER:
        return None
    if is_servers:
        return servers_only(frame)
    for need in needs:
        why = _lacks(user, need, host)
        if why is not None:
            return why
    return None


def is_limited(users: Mapping[str, User], name: str) -> bool:
    """Return False if a user may do everything."""
    user = users.get(name)
    return user is None or user.user_type is not UserType.SUPER or not user.is_let_in


def lacking_of(
    users: Mapping[str, User], name: str, host: str, claimed: Claimed, touched: Touched
) -> str | None:
    """Return the reason why a user may not touch an object; None if it may.

    ``claimed`` says whether a policy of any user names a group.
    """
    user = users.get(name)
    if user is None:
        return f"User:{name} not found."
    if not user.is_let_in:
        return _disabled(name)
    if touched.kind is Object.PRODUCERS:
        return _lacking_producers(user, touched, host, claimed)
    of_topic = progress_need if touched.use is Use.UPDATE else topic_need
    need = group_need if touched.kind is Object.GROUP else of_topic
    actions = _ACTIONS[touched.use]
    if touched.name.startswith(RETRY_PREFIX):  # who consumes as a group may write to it
        actions = (Action.SUB,) if touched.use is Use.SEND else (Action.SUB, *actions)
    return _lacks(user, need(touched.name, *actions), host)


def names_group(users: Mapping[str, User], group: str) -> bool:
    """Return whether a policy of any user, a denial too, names a group, or the beginning of its
    name."""
    return any(user.decider.names_group(group) for user in users.values())


def _lacking_producers(user: User, touched: Touched, host: str, claimed: Claimed) -> str | None:
    """Return why a user may not be, act for, or reply to a member of a producer group.

    It needs Pub or Sub on the group. A group that no policy names is everyone's who may send to
    some topic; who replies need not.
    """
    group = touched.name
    if group.startswith(INNER_PRODUCER_PREFIXES):
        return None
    need = group_need(group, Action.PUB, Action.SUB)
    is_open = user.decider.decide(need, host) is None and not claimed(need.name)
    if is_open and (touched.use is Use.REPLY or user.decider.sends_from(host)):
        return None
    return _lacks(user, need, host)


def _disabled(name: str) -> str:
    return f"User:{name} is disabled."


def _lacks(user: User, need: Need, host: str) -> str | None:
    is_allowed = user.decider.decide(need, host)
    if is_allowed:
        return None
    why = "no matched policies." if is_allowed is None else "the decision is deny."
    subject = f"{SUBJECT_PREFIX}{user.name}"
    return f"{subject} has no permission to access {need.key} from {host}, {why}"
