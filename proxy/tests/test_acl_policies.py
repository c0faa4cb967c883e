"""The policy that decides is the one that a second description of the rules gives.

The description follows Apache 5.3.3 (`AclAuthorizationHandler`, `Resource`, `PolicyEntry`,
`Environment`) in what matches: kinds, whole names, beginnings and any, actions, addresses, custom
policies before default ones. Of several that match it sorts as docs/server.md says, where 5.3.3
sorts otherwise (docs/interop.md).
"""

from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.acl.users._policies import (
    Decider,
    Policies,
    PolicyType,
    decision,
    is_in,
    merged,
)
from lanemq.proxy.acl.users._resources import Resource, group_need, topic_need
from lanemq.proxy.acl.users._table import entries_of
from lanemq.wire.bodies import PolicyEntryInfo, PolicyInfo
from lanemq.wire.requests import Action

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
    assert decision(policies, need, host) is says
    decider = Decider(policies)
    for _ in range(2):
        assert decider.decide(need, host) is says


@given(RULES, st.sampled_from(NAMES), st.sampled_from(HOSTS))
def test_the_order_in_which_policies_were_made_does_not_matter(
    rules: list[Rule], name: str, host: str
) -> None:
    once = list({(rule.policy, rule.resource.lower()): rule for rule in rules}.values())
    need = topic_need(name, Action.PUB)
    assert decision(made_of(once), need, host) is decision(made_of(once[::-1]), need, host)


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
