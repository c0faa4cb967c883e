"""Users and their policies, as tools of 5.x write and read them.

Source: RocketMQ 5.3.3, UserInfo, AclInfo.
"""

from dataclasses import dataclass, field
from typing import final

from ._body import Body


@final
@dataclass(frozen=True, slots=True)
class UserInfo(Body):
    """A user; in an update, None leaves a member as it is."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    user_type: str | None = None
    """``Super`` or ``Normal``."""
    user_status: str | None = None
    """``enable`` or ``disable``."""


@final
@dataclass(frozen=True, slots=True)
class PolicyEntryInfo(Body):
    """One entry of a policy: the actions on a resource that a subject is allowed or denied."""

    resource: str | None = None
    """``Topic:T``, ``Group:g*``, ``Cluster:*``, or ``*``."""
    actions: tuple[str, ...] = ()
    source_ips: tuple[str, ...] | None = None
    """Addresses or networks, ``10.0.0.0/8``; None means all."""
    decision: str | None = None
    """``Allow`` or ``Deny``."""


@final
@dataclass(frozen=True, slots=True)
class PolicyInfo(Body):
    """Entries of one type of policies: ``Custom`` ones count before ``Default`` ones."""

    policy_type: str | None = None
    entries: tuple[PolicyEntryInfo, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class AclInfo(Body):
    """The policies of a subject, ``User:name``."""

    subject: str | None = None
    policies: tuple[PolicyInfo, ...] = ()
