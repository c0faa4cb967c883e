"""Names in permissions and policies that can never count, since no topic or group has them.

A rule with such a name was meant for another one, and whoever wrote a denial believes it holds.
"""

import re
from typing import Final

from lanemq.wire import (
    DLQ_PREFIX,
    LMQ_PREFIX,
    MAX_GROUP_CHARACTERS,
    REPLY_POSTFIX,
    RETRY_PREFIX,
    has_only_offsets,
)
from lanemq.wire.kv import parse_rule

_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_.-]+")
"""Characters of topics; a point is in those that are called after a broker or a cluster."""
_UNSEEN: Final = re.compile(r"[\s\x00-\x1f\x7f]")
NAME_MAX: Final = MAX_GROUP_CHARACTERS


def topic_never_found(name: str, *, is_prefix: bool = False) -> str | None:
    """Return why no topic has a name, or with ``is_prefix`` one that begins so; None if some
    may."""
    if parse_rule(name + "*" * is_prefix) is not None:
        return None
    if has_only_offsets(name):
        return (
            f"no topic is called {name!r}: offsets are kept so, which belong to the topic or group"
        )
    if name.startswith(LMQ_PREFIX) or name.endswith(REPLY_POSTFIX):
        return _too_long("topic", name)  # clients, or the name of the cluster, choose the letters
    if name and not _TOPIC.fullmatch(name):
        return (
            f"no topic is called {name!r}: it has characters other than letters, digits, "
            "% | _ . and -"
        )
    return _too_long("topic", name)


def group_never_found(name: str) -> str | None:
    """Return why no group has a name, or one that begins so; None if some may. (Producers may
    give their groups names that consumers may not.)"""
    if name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return f"{name!r} is the name of a topic: name the group without the prefix"
    if _UNSEEN.search(name):
        return f"no group is called {name!r}: it has blanks, or characters that cannot be seen"
    return _too_long("group", name)


def _too_long(kind: str, name: str) -> str | None:
    if len(name) <= NAME_MAX:
        return None
    return f"no {kind} has a name of {len(name)} characters: {NAME_MAX} are the most"
