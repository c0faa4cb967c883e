"""Accounts and their permissions.

Source: RocketMQ 4.9.8, PlainAccessResource, Permission.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from lanemq.wire.bodies import DataVersion

from ._addresses import WhiteList
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
    """Addresses from which its requests may do everything, signed or not."""
    is_admin: bool
    default_topic_permission: int
    default_group_permission: int
    permissions: Mapping[str, int]
    """Topic, or retry topic of a group -> permission. An administrator without any may do
    everything; one with some may do what they say."""


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
