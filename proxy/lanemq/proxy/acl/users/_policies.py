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
from functools import lru_cache, partial
from typing import Final, final

from lanemq.wire import RETRY_PREFIX, group_behind
from lanemq.wire.kv import KeyRule, KeySpan, all_keys, parse_span
from lanemq.wire.requests import Action, Kind

from .._key_rules import KeyRules, Point
from .._unheard_names import group_never_found, topic_never_found
from ._resources import NAME_MAX, Need, Resource

DECISIONS_REMEMBERED: Final = 64
NAMESPACES_REMEMBERED: Final = 16
NETWORKS_REMEMBERED: Final = 4096
MAPPED_BITS: Final = 96
"""The bits in front of an IPv4 address in the one of IPv6 that stands for it."""


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
        return self.resource.covers(need.kind, need.name) and self.applies(need, host)

    def applies(self, need: Need, host: str) -> bool:
        """Return whether the entry is about the actions of a need, and about ``host``."""
        return self.is_about(need.actions) and self.counts_from(host)

    def is_about(self, actions: frozenset[Action]) -> bool:
        """Return whether the entry is about any of the actions."""
        return Action.ALL in self.actions or not actions.isdisjoint(self.actions)

    def counts_from(self, host: str) -> bool:
        """Return whether the entry is about requests from ``host``."""
        return not self.networks or any(is_in(host, network) for network in self.networks)

    @property
    def rank(self) -> tuple[bool, bool, int, bool]:
        """The place in the order of nearness; the least one decides."""
        resource = self.resource
        return resource.kind is Kind.ANY, resource.is_prefix, -len(resource.name), self.is_allowed


Policies = Mapping[PolicyType, Mapping[Resource, Entry]]
"""The entries of a subject, by type of policy and by resource."""


def decision(policies: Policies, need: Need, host: str) -> bool | None:
    """Return whether a need is allowed; None where no entry is about it.

    A group's dead letters and stage records are the group's, where no entry names them. Who uses
    the topic of a namespace of keys touches all of these.
    """
    span = parse_span(need.name) if need.kind is Kind.TOPIC else None
    if span is not None:
        return KeyPolicies(policies, span.namespace).decide(span, need, host)
    for policy_type in PolicyType:
        entries = policies.get(policy_type, {}).values()
        matching = [
            entry
            for entry in entries
            if entry.matches(need, host) and need.is_named_by(entry.resource)
        ]
        if matching:
            return min(matching, key=lambda entry: entry.rank).is_allowed
    owner = need.owner
    if owner is None or owner.owner is not None:  # else a name could nest without end
        return None
    return decision(policies, owner, host)


@final
class KeyPolicies:
    """The entries about the keys of one namespace, ordered for many decisions."""

    def __init__(self, policies: Policies, namespace: str) -> None:
        self._namespace = namespace
        self._about: dict[PolicyType, dict[KeyRule, Entry]] = {}
        self._around: dict[PolicyType, list[Entry]] = {}
        """Those about all keys of the namespace, and more, the nearest first."""
        whole = all_keys(namespace)
        for policy_type in PolicyType:
            about = self._about[policy_type] = {}
            around = self._around[policy_type] = []
            for entry in policies.get(policy_type, {}).values():
                keys = entry.resource.keys
                if keys is not None and keys[0] == namespace:
                    about[keys[1]] = entry
                elif entry.resource.covers(Kind.TOPIC, whole):
                    around.append(entry)
            around.sort(key=lambda entry: entry.rank)
        self._rules = KeyRules([rule for about in self._about.values() for rule in about])

    def decide(self, span: KeySpan, need: Need, host: str) -> bool | None:
        """Return whether a need of keys is allowed; None where no entry is about some of them."""
        found = [self._at(point, need, host) for point in self._rules.points(span)]
        if span.is_any:
            return True if True in found else False if False in found else None
        return next((one for one in found if not one), True)

    def _at(self, point: Point, need: Need, host: str) -> bool | None:
        for policy_type in PolicyType:
            about = self._about[policy_type]
            nearest = [about[rule] for rule in self._rules.about(point) if rule in about]
            for entry in (*nearest, *self._around[policy_type]):
                if entry.applies(need, host):
                    return entry.is_allowed
        return None


@final
class Decider:
    """The decisions of one subject's policies; it remembers the last ones for short names."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._remembered = lru_cache(maxsize=DECISIONS_REMEMBERED)(self._decide)
        self._keys = lru_cache(maxsize=NAMESPACES_REMEMBERED)(partial(KeyPolicies, policies))

    def decide(self, need: Need, host: str) -> bool | None:
        """Return the same as ``decision``."""
        return (self._remembered if len(need.name) <= NAME_MAX else self._decide)(need, host)

    def _decide(self, need: Need, host: str) -> bool | None:
        span = parse_span(need.name) if need.kind is Kind.TOPIC else None
        if span is not None and len(span.namespace) <= NAME_MAX:
            return self._keys(span.namespace).decide(span, need, host)
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


def never_matched(entry: Entry) -> str | None:
    """Return why an entry can never count, as far as its resource and its addresses say; None if
    it may."""
    resource = entry.resource
    why = None
    if resource.kind is Kind.TOPIC:
        if resource.name.startswith(RETRY_PREFIX):
            group = group_behind(resource.name)
            why = f"a retry topic is its group's: name {Kind.GROUP}:{group}"
        else:
            why = topic_never_found(resource.name, is_prefix=resource.is_prefix)
    elif resource.kind is Kind.GROUP:
        why = group_never_found(resource.name)
    if why is not None:
        return f"The resource is invalid: {why}"
    zoned = next((network for network in entry.networks if "%" in network), None)
    if zoned is None:
        return None
    return f"The source ip is invalid: {zoned} has a zone, which no address is compared by"


def is_in(host: str, network: str) -> bool:
    """Return whether a literal address is in a network; an IPv4 address is the one that IPv6 maps
    it to."""
    try:
        address, addresses = ipaddress.ip_address(host), _network(network)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address) in addresses


@lru_cache(maxsize=NETWORKS_REMEMBERED)
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Return the network of a text; of IPv4 where all of its addresses are mapped ones. Raises
    ``ValueError``."""
    network = ipaddress.ip_network(text, strict=False)
    if not isinstance(network, ipaddress.IPv6Network):
        return network
    mapped = network.network_address.ipv4_mapped
    if mapped is None or network.prefixlen < MAPPED_BITS:
        return network
    return ipaddress.IPv4Network((mapped, network.prefixlen - MAPPED_BITS), strict=False)
