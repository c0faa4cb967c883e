"""The policy that decides is the one that a second description of the rules gives.

The description follows Apache 5.3.3 (`AclAuthorizationHandler`, `Resource`, `PolicyEntry`,
`Environment`) in what matches: kinds, whole names, beginnings and any, actions, addresses, custom
policies before default ones. Of several that match it sorts as docs/server.md says, where 5.3.3
sorts otherwise (docs/interop.md).
"""

from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.acl.users import _policies
from lanemq.proxy.acl.users._policies import (
    Decider,
    Entry,
    Policies,
    PolicyType,
    is_in,
    merged,
)
from lanemq.proxy.acl.users._resources import Need, Resource, group_need, keys_need, topic_need
from lanemq.proxy.acl.users._rules import names_group
from lanemq.proxy.acl.users._table import User, UserType, entries_of
from lanemq.wire.bodies import PolicyEntryInfo, PolicyInfo
from lanemq.wire.kv import KeySpan, after_key, all_keys, parse_span
from lanemq.wire.requests import Action, Kind

NAMES: Final = ("a", "ab", "abc", "b", "ba")
HOSTS: Final = ("10.0.0.1", "10.0.1.1", "11.0.0.1", "::1", "fe80::1")
NETWORKS: Final = ("10.0.0.0/24", "10.0.0.0/8", "10.0.0.1", "0.0.0.0/0", "::/0", "::1", "fe80::/10")
RESOURCES: Final = (
    "*",
    *(f"{kind}:{name}" for kind in ("Topic", "group") for name in ("*", *NAMES)),
    *(f"{kind}:{name}*" for kind in ("topic", "Group") for name in NAMES),
    "Cluster:*",
    "Cluster:a",
)


class Rule(NamedTuple):
    """One entry, as its writer means it."""

    policy: str
    resource: str
    actions: tuple[str, ...]
    networks: tuple[str, ...]
    is_allowed: bool


RULES: Final = st.lists(
    st.builds(
        Rule,
        st.sampled_from(["Custom", "Default"]),
        st.sampled_from(RESOURCES),
        st.lists(
            st.sampled_from(["Pub", "Sub", "Get", "Update", "All"]), min_size=1, max_size=3
        ).map(tuple),
        st.lists(st.sampled_from(NETWORKS), max_size=2).map(tuple),
        st.booleans(),
    ),
    max_size=8,
)


def made_of(rules: list[Rule]) -> Policies:
    """Return the rules as tools write them, one request after the other."""
    policies: Policies = {}
    for rule in rules:
        decision_text = "Allow" if rule.is_allowed else "Deny"
        entry = PolicyEntryInfo(rule.resource, rule.actions, rule.networks or None, decision_text)
        policies = merged(policies, entries_of((PolicyInfo(rule.policy, (entry,)),)))
    return policies


def expected(rules: list[Rule], kind: str, name: str, wanted: set[str], host: str) -> bool | None:
    """Return what the rules say about any one of the wanted actions on a topic or a group."""
    last = {(rule.policy, rule.resource.lower()): rule for rule in rules}  # the others are replaced
    for policy in ("Custom", "Default"):
        candidates = []
        for rule in last.values():
            of_kind, _, pattern = rule.resource.lower().partition(":")
            is_any = rule.resource == "*"
            if rule.policy != policy or not (is_any or of_kind == kind):
                continue
            if not (
                is_any
                or pattern == name
                or (pattern.endswith("*") and name.startswith(pattern[:-1]))
            ):
                continue
            if "All" not in rule.actions and not wanted & set(rule.actions):
                continue
            if rule.networks and not any(
                ip_address(host) in ip_network(network) for network in rule.networks
            ):
                continue
            nearness = 99 if pattern == name else -1 if is_any else len(pattern) - 1
            candidates.append((nearness, not rule.is_allowed))
        if candidates:
            return not max(candidates)[1]
    return None


@given(
    RULES,
    st.sampled_from(["topic", "group"]),
    st.sampled_from(NAMES),
    st.sets(st.sampled_from(["Pub", "Sub", "Get", "Update"]), min_size=1, max_size=2),
    st.sampled_from(HOSTS),
)
def test_the_policy_that_decides_is_the_one_described(
    rules: list[Rule], kind: str, name: str, wanted: set[str], host: str
) -> None:
    need = (topic_need if kind == "topic" else group_need)(
        name, *(Action(one) for one in sorted(wanted))
    )
    policies = made_of(rules)
    says = expected(rules, kind, name, wanted, host)
    decider = Decider(policies)
    for _ in range(2):
        assert decider.decide(need, host) is says


@given(RULES, st.sampled_from(NAMES), st.sampled_from(HOSTS))
def test_the_order_in_which_policies_were_made_does_not_matter(
    rules: list[Rule], name: str, host: str
) -> None:
    once = list({(rule.policy, rule.resource.lower()): rule for rule in rules}.values())
    need = topic_need(name, Action.PUB)
    there, back = (Decider(made_of(order)) for order in (once, once[::-1]))
    assert there.decide(need, host) is back.decide(need, host)


# Found by name, and not by a walk over all entries


def covers(resource: Resource, kind: Kind, name: str) -> bool:
    """Return whether a resource is, or contains, a name of a kind."""
    if resource.kind is Kind.ANY:
        return True
    if resource.kind is not kind:
        return False
    return name.startswith(resource.name) if resource.is_prefix else name == resource.name


def rank(entry: Entry) -> tuple[bool, bool, int, bool]:
    """Return the place in the order of nearness; the least one decides."""
    resource = entry.resource
    return resource.kind is Kind.ANY, resource.is_prefix, -len(resource.name), entry.is_allowed


def walked(policies: Policies, need: Need, host: str) -> bool | None:
    """Return the decision about a need that a walk over all entries finds."""
    span = parse_span(need.name) if need.kind is Kind.TOPIC else None
    if span is not None:
        return walked_keys(policies, need, host)
    for policy_type in PolicyType:
        matching = [
            entry
            for entry in policies.get(policy_type, {}).values()
            if covers(entry.resource, need.kind, need.name)
            and entry.applies(need, host)
            and need.is_named_by(entry.resource)
        ]
        if matching:
            return min(matching, key=rank).is_allowed
    owner = need.owner
    return None if owner is None or owner.owner is not None else walked(policies, owner, host)


def walked_keys(policies: Policies, need: Need, host: str) -> bool | None:
    span = parse_span(need.name)
    assert span is not None
    entries = {one: list(policies.get(one, {}).values()) for one in PolicyType}
    named = [entry.resource.keys for found in entries.values() for entry in found]
    rules = [keys[1] for keys in named if keys is not None and keys[0] == span.namespace]

    def at(key: bytes) -> bool | None:
        for found in entries.values():
            nearest: list[tuple[int, tuple[bool, bool, int, bool], Entry]] = []
            for entry in found:
                keys = entry.resource.keys
                if keys is not None and keys[0] == span.namespace:
                    rule = keys[1]
                    if key.startswith(rule.key) if rule.is_prefix else key == rule.key:
                        length = len(rule.key) if rule.is_prefix else len(rule.key) + 1
                        nearest.append((-length, rank(entry), entry))
                elif covers(entry.resource, Kind.TOPIC, all_keys(span.namespace)):
                    nearest.append((1, rank(entry), entry))
            for _, _, entry in sorted(nearest, key=lambda one: one[:2]):
                if entry.applies(need, host):
                    return entry.is_allowed
        return None

    # The keys at which one rule or another begins or ends to be about them.
    ends = [after_key(rule.key) if rule.is_prefix else rule.key + b"\0" for rule in rules]
    places = {span.begin, *(rule.key for rule in rules), *(end for end in ends if end)}
    is_in_span = [key for key in sorted(places) if not span.end or key < span.end]
    said = [at(key) for key in is_in_span if key >= span.begin]
    if span.is_any:
        return True if True in said else False if False in said else None
    return next((one for one in said if not one), True)


ENTRY_NAMES: Final = (
    *("a", "ab", "abc", "b", "%DLQ%a", "%DLQ%", "%", "%STAGE%a", "SCHEDULE_TOPIC_XXXX"),
    *("%KV%n", "%KV%", "%KV%m", "%KV%n/a", "%KV%n/ab", "%KV%n/b", "%KV%m/a"),
)
NEED_NAMES: Final = (
    *ENTRY_NAMES,
    *("", "abcd", "%DLQ%ab", "%DLQ%%DLQ%a", "%STAGE%|x|a", "%BROKER_STAGE%a", "c_REPLY_TOPIC"),
    *("%KV%n/a*", "%KV%n/* to b", "%KV%n/a to b", "%KV%n (any key)", "%KV%o", "%KV%n/abc"),
    "a" * 300,
)
MANY: Final = st.lists(
    st.builds(
        Rule,
        st.sampled_from(["Custom", "Default"]),
        st.one_of(
            st.sampled_from(["*", "Any", "any:*", "Topic:*", "Group:*", "Cluster:*"]),
            st.builds(
                "{}:{}{}".format,
                st.sampled_from(["Topic", "Group", "Cluster"]),
                st.sampled_from(ENTRY_NAMES),
                st.sampled_from(["", "*"]),
            ),
        ),
        st.lists(
            st.sampled_from(["Pub", "Sub", "Get", "Update", "All"]), min_size=1, max_size=3
        ).map(tuple),
        st.lists(st.sampled_from(NETWORKS), max_size=2).map(tuple),
        st.booleans(),
    ),
    max_size=40,
)
NEEDS: Final = st.builds(
    Need,
    st.sampled_from([Kind.TOPIC, Kind.GROUP, Kind.CLUSTER]),
    st.sampled_from(NEED_NAMES),
    st.frozensets(
        st.sampled_from([Action.PUB, Action.SUB, Action.GET, Action.UPDATE]), min_size=1, max_size=2
    ),
    keys=st.none(),
)


def user_of(policies: Policies) -> User:
    return replace(User.make("u", "secret", UserType.NORMAL), policies=policies)


@given(MANY, st.lists(NEEDS, min_size=1, max_size=20), st.sampled_from(HOSTS))
def test_what_is_found_by_name_is_what_a_walk_over_all_entries_finds(
    rules: list[Rule], needs: list[Need], host: str
) -> None:
    policies = made_of(rules)
    user = user_of(policies)
    entries = [entry for found in policies.values() for entry in found.values()]
    for need in needs:
        assert user.decider.decide(need, host) is walked(policies, need, host)
        assert names_group({"u": user}, need.name) is any(
            entry.resource.kind is Kind.GROUP
            and entry.resource.name
            and covers(entry.resource, Kind.GROUP, need.name)
            for entry in entries
        )
    assert user.decider.sends_from(host) is any(
        entry.is_allowed
        and entry.resource.kind in (Kind.TOPIC, Kind.ANY)
        and entry.is_about(frozenset({Action.PUB}))
        and entry.counts_from(host)
        for entry in entries
    )


class Counted(dict[Resource, Entry]):
    """Entries that count how many of them are looked at."""

    looks = 0

    def get(self, *key: Any) -> Any:  # noqa: ANN401 - as of a dictionary
        self.looks += 1
        return super().get(*key)

    def values(self) -> Any:  # noqa: ANN401
        self.looks += len(self)
        return super().values()

    def items(self) -> Any:  # noqa: ANN401
        self.looks += len(self)
        return super().items()


@pytest.mark.parametrize("name", ["x{}", "%DLQ%x{}", "%KV%x{}", "%KV%x{}/key"])
def test_a_decision_about_one_of_many_names_looks_at_few_of_many_entries(name: str) -> None:
    """A request may name thousands of topics, and a user have a thousand entries."""
    resources = ["Topic:*", *(f"Topic:t{n:03}" for n in range(500))]
    resources += [f"Topic:beginning{n:03}*" for n in range(490)]
    entries = Counted()
    for resource in resources:
        ((_, made),) = entries_of(
            (PolicyInfo("Custom", (PolicyEntryInfo(resource, ("All",), None, "Allow"),)),)
        )
        entries[made.resource] = made
    decider = user_of({PolicyType.CUSTOM: entries}).decider
    entries.looks = 0
    for number in range(100):
        decider.decide(topic_need(name.format(number), Action.SUB), "10.0.0.1")
        decider.names_group(f"g{number}")
        decider.sends_from("10.0.0.1")
    assert entries.looks < 2000


def test_entries_about_keys_are_looked_at_once_for_many_spans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request may have thousands of spans of keys, each with a thousand entries in it."""
    looks, counts_from = 0, Entry.counts_from

    def counting(entry: Entry, host: str) -> bool:
        nonlocal looks
        looks += 1
        return counts_from(entry, host)

    monkeypatch.setattr(Entry, "counts_from", counting)
    rules = [Rule("Custom", f"Topic:%KV%n/k{n:03}*", ("Sub",), (), True) for n in range(950)]
    rules += [Rule("Custom", f"Topic:%KV%n{n}/k*", ("Sub",), (), True) for n in range(100)]
    rules.append(Rule("Custom", "Topic:%KV%n", ("Sub",), (), True))
    decider = Decider(made_of(rules))
    for number in range(1000):
        name = f"%KV%n/k to k949{number:03}"
        assert decider.decide(topic_need(name, Action.SUB), "10.0.0.1") is True
        span = KeySpan("n", b"k", b"k949%03d" % number)
        assert decider.decide(keys_need(span, frozenset({Action.SUB})), "10.0.0.1") is True
        name = f"%KV%n{number % 100}/k{number}"
        assert decider.decide(topic_need(name, Action.SUB), "10.0.0.1") is True
    assert looks <= len(rules)


def test_the_addresses_of_an_entry_are_compared_once_for_many_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0

    def counting(host: str, network: str) -> bool:
        nonlocal compared
        compared += 1
        return is_in(host, network)

    monkeypatch.setattr(_policies, "is_in", counting)
    networks = tuple(f"10.8.{n // 250}.{n % 250}" for n in range(900))
    decider = Decider(made_of([Rule("Custom", "Topic:*", ("Sub",), networks, True)]))
    for number in range(100):
        assert decider.decide(topic_need(f"t{number}", Action.SUB), "10.8.3.149") is True
    assert compared <= len(networks)


@pytest.mark.parametrize(
    ("network", "host", "is_in_it"),
    [
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "10.0.0.2", False),
        ("::ffff:a00:1", "10.0.0.1", True),
        ("::ffff:10.0.0.0/104", "10.9.9.9", True),
        ("::ffff:10.0.0.0/104", "11.0.0.1", False),
        ("::ffff:0:0/96", "11.0.0.1", True),
        ("0:0:0:0:0:ffff:10.0.0.9/112", "10.0.7.7", True),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),
        ("::ffff:10.0.0.0/104", "::ffff:10.0.0.1", True),
        ("::/0", "10.0.0.1", False),
        ("::/0", "fe80::1", True),
        ("0.0.0.0/0", "10.0.0.1", True),
    ],
)
def test_an_ipv4_address_is_the_one_that_ipv6_maps_it_to(
    network: str, host: str, is_in_it: bool
) -> None:
    assert is_in(host, network) is is_in_it


@pytest.mark.parametrize("text", ["Topic:a*b", "Topic:*b", "Topic:a**", "Group:*a*", "**", ""])
def test_a_star_ends_a_resource(text: str) -> None:
    assert Resource.parse(text) is None


@pytest.mark.parametrize("policy", list(PolicyType))
def test_types_of_policies_are_read_in_any_case(policy: PolicyType) -> None:
    entry = PolicyEntryInfo("TOPIC:a", ("pub",), None, "DENY")
    ((read, made),) = entries_of((PolicyInfo(policy.upper(), (entry,)),))
    assert (read, made.resource.key, made.is_allowed) == (policy, "Topic:a", False)
