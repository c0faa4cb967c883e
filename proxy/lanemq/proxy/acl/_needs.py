"""The permissions that a request of a 4.x account needs: for each topic and group, PUB or SUB.

A group is named by its retry topic, and a retry topic needs the group, to write to it as well:
that is how consumers give back messages to brokers that refuse send-backs. lanemq asks for more
than Apache's brokers of 4.9, which check a dozen requests and let every account make all others:
see docs/security.md.

Source: RocketMQ 4.9.8, PlainAccessValidator.parse, Permission; 5.3.3,
DefaultAuthorizationContextBuilder, for batches and lite pulls.
"""

from collections.abc import Callable
from typing import Final

from lanemq.wire import RETRY_PREFIX, SystemTopic, has_only_offsets
from lanemq.wire.kv import KeySpan
from lanemq.wire.requests import Kind, Right, Touch

from ._accounts import PUB, SUB
from ._touched import keeps_offsets, readers

ADMIN: Final = 4
"""The need of an administrator; no topic or group has this permission."""
_PERMISSIONS: Final = {Right.READ: SUB, Right.WRITE: PUB, Right.USE: PUB | SUB, Right.ADMIN: ADMIN}
_TRACE: Final = str(SystemTopic.TRACE)

Need = tuple[str | KeySpan, int]
"""A topic, the retry topic of a group, or keys, and the permissions of which one suffices."""


def _need_of(touch: Touch, kind: Kind) -> Callable[[str], tuple[Need, ...]]:
    right = touch.account
    if right is Right.NONE:
        return lambda name: ()
    if right is Right.ADMIN or kind is Kind.CLUSTER:
        return lambda name: (("", ADMIN),)
    permission, is_of_offsets = _PERMISSIONS[right], keeps_offsets(touch)
    if kind is Kind.GROUP:
        return lambda name: ((RETRY_PREFIX + name, permission),)

    def topic(name: str) -> tuple[Need, ...]:
        if has_only_offsets(name) and not is_of_offsets:
            return (("", ADMIN),)
        if name.startswith(RETRY_PREFIX):
            return ((name, SUB),)
        if name == _TRACE and permission == PUB:
            return ()  # every account may send traces
        return ((name, permission),)

    return topic


def _need_of_keys(touch: Touch) -> Callable[[KeySpan], Need]:
    permission = _PERMISSIONS[touch.account]
    return lambda span: (span, permission)


READERS: Final = readers(_need_of, _need_of_keys)
"""Code -> the reader of the permissions that its requests need; codes that are missing declare
nothing, and accounts may not use them."""
