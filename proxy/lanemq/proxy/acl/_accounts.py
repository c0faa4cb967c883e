"""Accounts and their permissions.

Source: RocketMQ 4.9.8, PlainAccessResource, Permission.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from lanemq.wire import RETRY_PREFIX
from lanemq.wire.bodies import DataVersion
from lanemq.wire.kv import KeyRule, all_keys, parse_rule

from ._addresses import WhiteList
from ._key_rules import KeyPermissions
from ._signature_check import SignatureCheck

DENY: Final = 0
PUB: Final = 1
SUB: Final = 2

PERMISSIONS: Final = {
    "DENY": DENY,
    "PUB": PUB,
    "SUB": SUB,
    "PUB|SUB": PUB | SUB,
    "SUB|PUB": PUB | SUB,
}
"""Permissions as files write them -> their bits."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """An account of a client."""

    access_key: str
    signatures: SignatureCheck
    """The check by its secret key, which is nowhere else."""
    white_list: WhiteList
    """Addresses from which its requests may do everything, signed or not; never wrongly signed."""
    is_admin: bool
    default_topic_permission: int
    default_group_permission: int
    permissions: Mapping[str, int]
    """Topic, keys of a namespace, or retry topic of a group -> permission. An administrator
    without any may do everything; one with some may do what they say."""
    keys: Mapping[str, KeyPermissions] = field(init=False)
    """Namespace -> the permissions for its keys, where some name keys of it."""

    def __post_init__(self) -> None:
        found: dict[str, dict[KeyRule, int]] = {}
        for resource, permission in self.permissions.items():
            named = parse_rule(resource)
            if named is not None:
                found.setdefault(named[0], {})[named[1]] = permission
        keys = {one: KeyPermissions(rules, self.of_all(one)) for one, rules in found.items()}
        object.__setattr__(self, "keys", keys)

    def of_all(self, namespace: str) -> int:
        """Return the permission for the keys of a namespace that no other names."""
        return self.permissions.get(all_keys(namespace), self.default_topic_permission)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Accounts:
    """All accounts of a broker."""

    by_key: Mapping[str, Account]
    white_list: WhiteList
    """Addresses from which every request is let in."""
    versions: Mapping[str, DataVersion] = field(default_factory=dict)
    """Path of each file -> the version of its last change by a tool; without one, the time of its
    last change."""
    named_groups: frozenset[str] = field(init=False)
    """The retry topics of the groups that permissions of any account name, denials too."""

    def __post_init__(self) -> None:
        named = frozenset(
            resource
            for account in self.by_key.values()
            for resource in account.permissions
            if resource.startswith(RETRY_PREFIX)
        )
        object.__setattr__(self, "named_groups", named)
