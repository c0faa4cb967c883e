"""The choice of the policy entry of a subject that decides about a need.

Entries of the custom policies count before those of the default ones. Among several that match,
the nearest decides: one of the resource's kind before one of any, a whole name before a beginning
of it, a longer beginning before a shorter one; and of equal ones a denial. (5.3.3 means the same,
but there a shorter beginning counts before a longer one, and an allowance before a denial.)

Source: RocketMQ 5.3.3, AclAuthorizationHandler, Acl, Policy, PolicyEntry, IPAddressUtils.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, final

from ._resources import NAME_MAX, Action, Kind, Need, Resource

DECISIONS_REMEMBERED: Final = 64


@final
class PolicyType(StrEnum):
    """The types of policies, in the order in which they count."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


POLICY_TYPES: Final = {one.lower(): one for one in PolicyType}


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a policy: the actions on a resource that a subject is allowed or denied."""

    resource: Resource
    actions: tuple[Action, ...]
    networks: tuple[str, ...]
    """Addresses and networks from which it counts; none mean all."""
    is_allowed: bool

    def matches(self, need: Need, host: str) -> bool:
        """Return whether the entry is about a need of a request from ``host``."""
        return (
            self.resource.covers(need.kind, need.name)
            and (Action.ALL in self.actions or not need.actions.isdisjoint(self.actions))
            and (not self.networks or any(is_in(host, network) for network in self.networks))
        )

    @property
    def rank(self) -> tuple[bool, bool, int, bool]:
        """The place in the order of nearness; the least one decides."""
        resource = self.resource
        return resource.kind is Kind.ANY, resource.is_prefix, -len(resource.name), self.is_allowed


Policies = Mapping[PolicyType, Mapping[Resource, Entry]]
"""The entries of a subject, by type of policy and by resource."""


def decision(policies: Policies, need: Need, host: str) -> bool | None:
    """Return whether a need is allowed; None where no entry is about it."""
    for policy_type in PolicyType:
        entries = policies.get(policy_type, {}).values()
        matching = [entry for entry in entries if entry.matches(need, host)]
        if matching:
            return min(matching, key=lambda entry: entry.rank).is_allowed
    return None


@final
class Decider:
    """The decisions of one subject's policies; it remembers the last ones for short names."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._remembered = lru_cache(maxsize=DECISIONS_REMEMBERED)(self._decide)

    def decide(self, need: Need, host: str) -> bool | None:
        """Return the same as ``decision``."""
        return (self._remembered if len(need.name) <= NAME_MAX else self._decide)(need, host)

    def _decide(self, need: Need, host: str) -> bool | None:
        return decision(self._policies, need, host)


def merged(old: Policies, new: Iterable[tuple[PolicyType, Entry]]) -> Policies:
    """Return policies with some entries put in; one of the same resource is replaced."""
    result = {policy_type: dict(entries) for policy_type, entries in old.items()}
    for policy_type, entry in new:
        result.setdefault(policy_type, {})[entry.resource] = entry
    return result


def without(old: Policies, policy_type: PolicyType, resource: Resource) -> Policies:
    """Return policies without the entry of a resource."""
    result = {one: dict(entries) for one, entries in old.items()}
    result.get(policy_type, {}).pop(resource, None)
    return {one: entries for one, entries in result.items() if entries}


def is_network(text: str) -> bool:
    """Return whether a text is an address or a network."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def is_in(host: str, network: str) -> bool:
    """Return whether a literal address is in a network."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
