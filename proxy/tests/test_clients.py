"""The registry knows a client from its heartbeat until its connection, group or time ends."""

from collections.abc import Mapping
from functools import partial

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lanemq.proxy.acl import Sender
from lanemq.proxy.net._turns import all_steps
from lanemq.proxy.sessions.state._clients import CLIENT_LIFE_S, ClientRegistry
from lanemq.proxy.sessions.state._members import (
    MEMBER_BYTES,
    ConsumerGroup,
    subscription_bytes,
)
from lanemq.wire.bodies import (
    ConsumerData,
    ConsumerIdList,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)

SESSIONS = st.sampled_from(["s1", "s2", "s3"])
GROUP_NAMES = ["g", "h"]
GROUPS = st.sampled_from(GROUP_NAMES)


def heartbeat(
    client_id: str,
    *,
    consumers: dict[str, list[str]] | None = None,
    producers: tuple[str, ...] = (),
) -> HeartbeatData:
    return HeartbeatData(
        client_id=client_id,
        consumer_data_set=tuple(
            ConsumerData(
                group_name=group,
                subscription_data_set=tuple(SubscriptionData(topic) for topic in topics),
            )
            for group, topics in (consumers or {}).items()
        ),
        producer_data_set=tuple(ProducerData(group) for group in producers),
    )


class RegistryMachine(RuleBasedStateMachine):
    """Against a flat model: (kind, group, session) -> time last heard of."""

    def __init__(self) -> None:
        super().__init__()
        self.charged: dict[str, int] = {}
        self.left: dict[tuple[str, str], tuple[ConsumerGroup[str], int]] = {}
        self.registry: ClientRegistry[str] = ClientRegistry(self.charge, self.leave)
        self.now_s = 0.0
        self.members: dict[tuple[str, str, str], float] = {}

    def charge(self, session: str, size_bytes: int) -> None:
        self.charged[session] = self.charged.get(session, 0) + size_bytes

    def leave(self, session: str, group: ConsumerGroup[str], paid: Mapping[str, int]) -> None:
        for topic, size_bytes in paid.items():
            self.left[group.name, topic] = group, size_bytes
            group.left[topic] = partial(self.left.pop, (group.name, topic))

    @rule()
    def run_short_of_memory(self) -> None:
        left, self.left = self.left, {}
        for (_, topic), (group, _) in left.items():
            group.drop_subscriptions([topic])

    @invariant()
    def those_pay_who_brought_what_is_kept(self) -> None:
        found = [self.registry.consumer_group(name) for name in GROUP_NAMES]
        groups = [group for group in found if group is not None]
        members_bytes = len(self.members) * (MEMBER_BYTES + len("gid-s1"))
        paid = [size for group in groups for mine in group.paid.values() for size in mine.values()]
        assert sum(self.charged.values()) == members_bytes + sum(paid)
        for group in groups:
            assert group.paid.keys() <= group.clients.keys()
            assert all(group.paid.values())
            payers = {topic: one for one, mine in group.paid.items() for topic in mine}
            assert group.payers == payers
            assert {*payers, *group.left} == group.subscriptions.keys()
            assert payers.keys().isdisjoint(group.left)
            for topic, kept in group.subscriptions.items():
                paid_bytes = (
                    group.paid[payers[topic]][topic]
                    if topic in payers
                    else self.left[group.name, topic][1]
                )
                assert paid_bytes == subscription_bytes(kept)
        assert self.left.keys() == {(group.name, topic) for group in groups for topic in group.left}
        there = {session for _, _, session in self.members}
        assert all((paid > 0) == (session in there) for session, paid in self.charged.items())

    @rule(
        session=SESSIONS,
        consumers=st.sets(GROUPS),
        producers=st.sets(GROUPS),
        version=st.integers(1, 3),
        text=st.sampled_from(["a", "b", "a" * 1000]),
    )
    def beat(
        self, session: str, consumers: set[str], producers: set[str], version: int, text: str
    ) -> None:
        subscription = SubscriptionData("T", text, sub_version=version)
        data = HeartbeatData(
            f"id-{session}",
            consumer_data_set=tuple(
                ConsumerData(group, subscription_data_set=(subscription,))
                for group in sorted(consumers)
            ),
            producer_data_set=tuple(map(ProducerData, sorted(producers))),
        )
        found = [self.registry.consumer_group(name) for name in consumers]
        bare = [group.name for group in found if group is not None and not group.subscriptions]
        changed = self.registry.heartbeat(
            session, data, language="JAVA", version=409, now_s=self.now_s
        )
        new = [group for group in consumers if ("c", group, session) not in self.members]
        assert changed == sorted({*new, *bare})
        for group in consumers:
            self.members["c", group, session] = self.now_s
        for group in producers:
            self.members["p", group, session] = self.now_s

    @rule(session=SESSIONS, group=GROUPS)
    def unregister(self, session: str, group: str) -> None:
        changed = self.registry.unregister(session, producer_group=group, consumer_group=group)
        was_consumer = self.members.pop(("c", group, session), None) is not None
        self.members.pop(("p", group, session), None)
        assert changed == ([group] if was_consumer else [])

    @rule(session=SESSIONS)
    def close(self, session: str) -> None:
        changed = self.registry.closed(session)
        gone = [key for key in self.members if key[2] == session]
        assert sorted(changed) == sorted(group for kind, group, _ in gone if kind == "c")
        for key in gone:
            del self.members[key]

    @rule(elapsed_s=st.sampled_from([0.0, 30.0, CLIENT_LIFE_S, CLIENT_LIFE_S + 1]))
    def pass_time(self, elapsed_s: float) -> None:
        self.now_s += elapsed_s
        departed = all_steps(self.registry.expire(self.now_s))
        gone = [key for key, seen in self.members.items() if self.now_s - seen > CLIENT_LIFE_S]
        assert set(departed.sessions) == {session for _, _, session in gone}
        assert set(departed.changed_groups) == {group for kind, group, _ in gone if kind == "c"}
        for key in gone:
            del self.members[key]

    @invariant()
    def the_groups_are_those_of_the_model(self) -> None:
        for name in ("g", "h"):
            consumers = {s for kind, group, s in self.members if (kind, group) == ("c", name)}
            producers = {s for kind, group, s in self.members if (kind, group) == ("p", name)}
            group = self.registry.consumer_group(name)
            assert set(self.registry.sessions_of(name)) == consumers
            assert (group is not None) == bool(consumers)
            if group is not None:
                assert group.client_ids() == sorted(f"id-{session}" for session in consumers)
                listed = ConsumerIdList.decode(group.listed()).consumer_id_list
                assert list(listed) == group.client_ids()
            assert {client.session for client in self.registry.producers(name)} == producers

    @invariant()
    def producers_are_found_by_their_ids(self) -> None:
        for session in ("s1", "s2", "s3"):
            is_producer = any(("p", group, session) in self.members for group in ("g", "h"))
            found = self.registry.producer_session(f"id-{session}")
            assert found == (session if is_producer else None)

    @invariant()
    def nothing_is_kept_of_those_who_left(self) -> None:
        assert set(self.registry._sessions) == {session for _, _, session in self.members}
        assert set(self.registry._producers_by_id) == {
            f"id-{session}" for kind, _, session in self.members if kind == "p"
        }


RegistryMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None
)
TestRegistry = RegistryMachine.TestCase


def beat(registry: ClientRegistry[str], session: str, data: HeartbeatData) -> list[str]:
    return registry.heartbeat(session, data, language="JAVA", version=409, now_s=0.0)


def test_one_client_on_two_connections_is_one_member_of_the_list() -> None:
    registry: ClientRegistry[str] = ClientRegistry()
    beat(registry, "s1", heartbeat("id", consumers={"g": ["T"]}))
    beat(registry, "s2", heartbeat("id", consumers={"g": ["T"]}))
    group = registry.consumer_group("g")
    assert group is not None
    assert group.client_ids() == ["id"]
    assert set(registry.sessions_of("g")) == {"s1", "s2"}


def test_a_producer_on_two_connections_is_found_at_the_one_heard_from_last() -> None:
    registry: ClientRegistry[str] = ClientRegistry()
    for session in ("s1", "s2", "s1"):
        beat(registry, session, heartbeat("id", producers=("g", "h")))
    assert registry.producer_session("id") == "s1"
    registry.unregister("s1", producer_group="g", consumer_group=None)
    assert registry.producer_session("id") == "s1", "it is still in another group"
    registry.closed("s1")
    assert registry.producer_session("id") == "s2"
    registry.closed("s2")
    assert registry.producer_session("id") is None


def test_a_topic_that_a_heartbeat_leaves_out_is_dropped_and_counts_as_a_change() -> None:
    registry: ClientRegistry[str] = ClientRegistry()
    assert beat(registry, "s", heartbeat("id", consumers={"g": ["T", "U"]})) == ["g"]
    assert beat(registry, "s", heartbeat("id", consumers={"g": ["T", "U"]})) == []
    assert beat(registry, "s", heartbeat("id", consumers={"g": ["T"]})) == ["g"]
    group = registry.consumer_group("g")
    assert group is not None
    assert set(group.subscriptions) == {"T"}
    assert registry.consumer_groups() == (group,)


def test_what_another_member_brought_stays_its_own_while_the_group_keeps_it() -> None:
    """A member that names less of a lower version would pay for less than is kept."""
    charged = dict[str, int]()

    def charge(session: str, size_bytes: int) -> None:
        charged[session] = charged.get(session, 0) + size_bytes

    registry: ClientRegistry[str] = ClientRegistry(charge)
    long = tuple(SubscriptionData(f"T{n}", "x" * 16_000, sub_version=9) for n in range(10))
    short = tuple(SubscriptionData(f"T{n}", "*", sub_version=1) for n in range(10))
    for session, subscriptions in (("long", long), ("short", short)):
        consumer = ConsumerData("g", subscription_data_set=subscriptions)
        beat(registry, session, HeartbeatData(session, consumer_data_set=(consumer,)))
    assert charged["long"] >= 10 * 16_000
    assert 0 < charged["short"] < 10_000
    few = ConsumerData("g", subscription_data_set=short[:4])
    beat(registry, "short", HeartbeatData("short", consumer_data_set=(few,)))
    assert 4 * 16_000 <= charged["long"] < 10 * 16_000 * 64 / 2
    registry.closed("long")
    assert charged["long"] == 0
    registry.closed("short")
    assert charged["short"] == 0


def test_only_a_newer_version_of_a_subscription_replaces_the_known_one() -> None:
    registry: ClientRegistry[str] = ClientRegistry()
    group = None
    for version, text, expected in ((5, "A", "A"), (4, "B", "A"), (5, "C", "A"), (6, "D", "D")):
        subscription = SubscriptionData("T", text, sub_version=version)
        data = HeartbeatData(
            "id", consumer_data_set=(ConsumerData("g", subscription_data_set=(subscription,)),)
        )
        beat(registry, "s", data)
        group = registry.consumer_group("g")
        assert group is not None
        assert group.subscriptions["T"].sub_string == expected


def test_a_client_id_stays_with_the_account_that_had_it_first() -> None:
    """Also against a connection that was in the group before, by another id or account."""
    registry: ClientRegistry[str] = ClientRegistry()

    def claim(session: str, client_id: str, account: str, now_s: float) -> None:
        data = heartbeat(client_id, consumers={"g": ["T"]})
        sender = Sender(account, "mark")
        registry.heartbeat(session, data, language="JAVA", version=409, now_s=now_s, sender=sender)

    def found(client_id: str, *unfit: str) -> str | None:
        group = registry.consumer_group("g")
        assert group is not None
        client = group.find(client_id, lambda client: client.sender.name not in unfit)
        return None if client is None else client.session

    claim("stranger", "other", "stranger", 0.0)
    claim("owner", "id", "owner", 1.0)
    claim("stranger", "id", "stranger", 2.0)
    assert found("id") == "owner"
    claim("again", "id", "owner", 3.0)
    claim("stranger", "id", "stranger", 4.0)
    assert found("id") == "again", "another connection of its account"
    assert found("id", "owner") == "stranger", "its account has no rights any more"
    assert found("id", "owner", "stranger") is None
    claim("owner", "id", "third", 5.0)
    assert found("id") == "stranger", "it has it longer than the others now"
    assert found("nobody's") is None
