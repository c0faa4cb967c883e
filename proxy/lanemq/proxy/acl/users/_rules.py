"""The judgement of a request by users and policies, in the words of 5.3.3.

Source: RocketMQ 5.3.3, DefaultAuthenticationHandler, UserAuthorizationHandler,
AclAuthorizationHandler.
"""

from collections.abc import Mapping

from lanemq.wire import ACCESS_KEY_FIELD
from lanemq.wire.frame import Frame

from ._needs import needs_of
from ._table import SUBJECT_PREFIX, User, UserStatus, UserType


def stranger(users: Mapping[str, User], frame: Frame) -> str | None:
    """Return the reason why a sender is not authenticated; None if it is."""
    name = frame.fields.get(ACCESS_KEY_FIELD, "")
    if not name:
        return "username cannot be null."
    user = users.get(name)
    if user is None:
        return f"User:{name} is not found."
    if user.status is UserStatus.DISABLE:
        return f"User:{name} is disabled."
    return None if user.signatures.is_signed(frame) else "check signature failed."


def lacking(users: Mapping[str, User], frame: Frame, host: str, cluster: str) -> str | None:
    """Return the reason why the sender may not make a request; None if it may.

    Raises ``RemoteProtocolError`` for a request that cannot be read.
    """
    name = frame.fields.get(ACCESS_KEY_FIELD, "")
    needs = needs_of(frame, cluster)
    if not needs:
        return None
    user = users.get(name)
    if user is None:
        return f"User:{name} not found."
    if user.user_type is UserType.SUPER:
        return None
    for need in needs:
        is_allowed = user.decider.decide(need, host)
        if not is_allowed:
            why = "no matched policies." if is_allowed is None else "the decision is deny."
            return (
                f"{SUBJECT_PREFIX}{name} has no permission to access {need.key} from {host}, {why}"
            )
    return None
