"""The choice of the policy entry of a subject that decides about a need.

Entries of the custom policies count before those of the default ones. Among several that match,
the nearest decides: one of the resource's kind before one of any, a whole name before a beginning
of it, a longer beginning before a shorter one; and of equal ones a denial. (5.3.3 means the same,
but there a shorter beginning counts before a longer one, and an allowance before a denial.)

Source: RocketMQ 5.3.3, AclAuthorizationHandler, Acl, Policy, PolicyEntry, IPAddressUtils.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, final

from lanemq.wire import RETRY_PREFIX, group_behind
from lanemq.wire.kv import KeyRule, KeySpan, all_keys, parse_span
from lanemq.wire.requests import Action, Kind

from .._key_rules import Decision, KeyDecisions
from .._unheard_names import group_never_found, topic_never_found
from ._resources import EVERYTHING, NAME_MAX, Need, Resource

DECISIONS_REMEMBERED: Final = 64
HOSTS_REMEMBERED: Final = 1024
NETWORKS_REMEMBERED: Final = 4096
MAPPED_BITS: Final = 96
"""The bits in front of an IPv4 address in the one of IPv6 that stands for it."""
_SENDING: Final = frozenset({Action.PUB})


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

    def applies(self, need: Need, host: str) -> bool:
        """Return whether the entry is about the actions of a need, and about ``host``."""
        return self.is_about(need.actions) and self.counts_from(host)

    def is_about(self, actions: frozenset[Action]) -> bool:
        """Return whether the entry is about any of the actions."""
        return Action.ALL in self.actions or not actions.isdisjoint(self.actions)

    def counts_from(self, host: str) -> bool:
        """Return whether the entry is about requests from ``host``."""
        return not self.networks or _is_in_any(host, self.networks)


Policies = Mapping[PolicyType, Mapping[Resource, Entry]]
"""The entries of a subject, by type of policy and by resource."""


@final
class _OfType:
    """The entries of one type of policy, found by the name of a resource: with one look for each
    length of the beginnings, however many they are."""

    def __init__(self, entries: Mapping[Resource, Entry]) -> None:
        self._entries = entries
        lengths: dict[Kind, set[int]] = {}
        for resource in entries:
            if resource.is_prefix:
                lengths.setdefault(resource.kind, set()).add(len(resource.name))
        self._lengths = {kind: sorted(found, reverse=True) for kind, found in lengths.items()}

    def about(self, kind: Kind, name: str) -> Iterator[Entry]:
        """Iterate over the entries that cover a name of a kind, the nearest first."""
        resources = [Resource(kind, name, False)]
        lengths = self._lengths.get(kind, ())
        resources += [Resource(kind, name[:n], True) for n in lengths if n <= len(name)]
        resources.append(EVERYTHING)
        for resource in resources:
            entry = self._entries.get(resource)
            if entry is not None:
                yield entry


@final
class Decider:
    """The decisions of one subject's policies; it remembers the last ones for short names.

    What it takes for one hardly grows with the number of entries: a request may have thousands of
    names.
    """

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._types = {one: _OfType(policies.get(one, {})) for one in PolicyType}
        self._keys: dict[str, dict[PolicyType, dict[KeyRule, Entry]]] = {}
        """Those about some keys of a namespace, by namespace."""
        for policy_type in PolicyType:
            for resource, entry in policies.get(policy_type, {}).items():
                if (keys := resource.keys) is not None:
                    of_namespace = self._keys.setdefault(keys[0], {})
                    of_namespace.setdefault(policy_type, {})[keys[1]] = entry
        self._remembered = lru_cache(maxsize=DECISIONS_REMEMBERED)(self._decide)
        self._of_keys = lru_cache(maxsize=DECISIONS_REMEMBERED)(self._no_keys)
        self.sends_from = lru_cache(maxsize=DECISIONS_REMEMBERED)(self._sends_from)
        """Returns whether any entry allows to send to some topic, from a host."""

    def decide(self, need: Need, host: str) -> bool | None:
        """Return whether a need is allowed; None where no entry is about it.

        A group's dead letters and stage records are the group's, where no entry names them. Who
        uses the topic of a namespace of keys touches all of these.
        """
        if need.keys is not None:
            return self._decide_keys(need.keys, need.actions, host)
        return (self._remembered if len(need.name) <= NAME_MAX else self._decide)(need, host)

    def names_group(self, group: str) -> bool:
        """Return whether an entry, a denial too, names a group, or the beginning of its name."""
        return any(
            entry.resource.kind is Kind.GROUP and entry.resource.name
            for of_type in self._types.values()
            for entry in of_type.about(Kind.GROUP, group)
        )

    def _decide(self, need: Need, host: str) -> bool | None:
        span = parse_span(need.name) if need.kind is Kind.TOPIC else None
        if span is not None:
            return self._decide_keys(span, need.actions, host)
        for of_type in self._types.values():
            for entry in of_type.about(need.kind, need.name):
                if entry.applies(need, host) and need.is_named_by(entry.resource):
                    return entry.is_allowed
        owner = need.owner
        if owner is None or owner.owner is not None:  # else a name could nest without end
            return None
        return self._decide(owner, host)

    def _decide_keys(self, span: KeySpan, actions: frozenset[Action], host: str) -> Decision:
        """Return whether a need of keys is allowed; None where no entry is about some of them."""
        namespace, made = span.namespace, self._of_keys(actions, host)
        decisions = made.get(namespace)
        if decisions is None:
            decisions = self._key_decisions(namespace, actions, host)
            if namespace in self._keys:  # peers name any number of others
                made[namespace] = decisions
        return decisions.about(span)

    def _key_decisions(self, namespace: str, actions: frozenset[Action], host: str) -> KeyDecisions:
        def counts(entry: Entry) -> bool:
            return entry.is_about(actions) and entry.counts_from(host)

        about, layers = self._keys.get(namespace, {}), []
        for policy_type, of_type in self._types.items():
            named = about.get(policy_type, {})
            rules = {rule: entry.is_allowed for rule, entry in named.items() if counts(entry)}
            around = filter(counts, of_type.about(Kind.TOPIC, all_keys(namespace)))
            layers.append((rules, next((entry.is_allowed for entry in around), None)))
        return KeyDecisions(layers)

    @staticmethod
    def _no_keys(actions: frozenset[Action], host: str) -> dict[str, KeyDecisions]:
        """Return the decisions about keys by namespace, which are made when they are needed."""
        return {}

    def _sends_from(self, host: str) -> bool:
        return any(
            entry.is_allowed
            and resource.kind in (Kind.TOPIC, Kind.ANY)
            and entry.is_about(_SENDING)
            and entry.counts_from(host)
            for entries in self._policies.values()
            for resource, entry in entries.items()
        )


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


@lru_cache(maxsize=HOSTS_REMEMBERED)
def _is_in_any(host: str, networks: tuple[str, ...]) -> bool:
    return any(is_in(host, network) for network in networks)


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
