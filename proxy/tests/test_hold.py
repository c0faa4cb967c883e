"""A parked pull leaves exactly once: woken, expired, or dropped with its owner."""

import math
from collections import Counter
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from lanemq.proxy.sessions.state import _hold
from lanemq.proxy.sessions.state._crowd import ARRIVALS_MAX
from lanemq.proxy.sessions.state._hold import RECHECK_S, SLOT_S, Hold, Holds
from lanemq.testkit.calls import calls_of_this_thread

OWNERS = st.sampled_from(["a", "b", "c"])
TOPICS = st.sampled_from(["T", "U"])
QUEUE_IDS = st.integers(0, 1)
CODES = st.none() | st.frozensets(st.integers(0, 3), max_size=2)
TIMEOUTS_S = st.floats(0, 30)


def hold(owner: str = "a", **changes: object) -> Hold[str]:
    values: dict[str, object] = {
        "queue": ("T", 0),
        "queue_offset": 5,
        "tag_codes": None,
        "timeout_s": 15.0,
        "host": f"host of {owner}",
    }
    return Hold(
        owner=owner,
        again=lambda: None,
        deliver=lambda result: None,
        **(values | changes),  # type: ignore[arg-type]
    )


class HoldsMachine(RuleBasedStateMachine):
    """Against a model that scans: every parked pull with the time by which it must be out."""

    parked = Bundle("parked")

    def __init__(self) -> None:
        super().__init__()
        self.holds: Holds[str] = Holds(held_max=1000)
        self.now_s = 1000.0
        self.model: dict[Hold[str], float] = {}
        self.woken: list[Hold[str]] = []
        self.ends: dict[tuple[str, int], int] = {}

    @rule(
        target=parked,
        owner=OWNERS,
        topic=TOPICS,
        queue_id=QUEUE_IDS,
        codes=CODES,
        timeout_s=TIMEOUTS_S,
    )
    def park(
        self,
        owner: str,
        topic: str,
        queue_id: int,
        codes: frozenset[int] | None,
        timeout_s: float,
    ) -> object:
        new = hold(
            owner,
            queue=(topic, queue_id),
            queue_offset=self.ends.get((topic, queue_id), 0),
            tag_codes=codes,
            timeout_s=timeout_s,
        )
        is_first = self.holds.park(new, self.now_s)
        assert is_first == (not hasattr(self, f"known_{owner}"))
        setattr(self, f"known_{owner}", True)
        self.model[new] = self.now_s + timeout_s
        return multiple(new)

    @rule(topic=TOPICS, queue_id=QUEUE_IDS, tags_code=st.integers(0, 3))
    def arrive(self, topic: str, queue_id: int, tags_code: int) -> None:
        end = self.ends[topic, queue_id] = self.ends.get((topic, queue_id), 0) + 1
        self.holds.arrived(topic, queue_id, max_offset=end, tags_code=tags_code, now_s=self.now_s)
        while self.holds.is_behind:
            self.holds.catch_up(self.now_s)
        for parked, due_s in list(self.model.items()):
            if parked.queue != (topic, queue_id):
                continue
            if parked.tag_codes is None or tags_code in parked.tag_codes:
                del self.model[parked]
                self.woken.append(parked)
            else:
                self.model[parked] = min(due_s, self.now_s + RECHECK_S)

    @rule()
    def take_woken(self) -> None:
        assert self.holds.has_woken == bool(self.woken)
        assert self.holds.take_woken() == self.woken
        self.woken.clear()

    @rule(elapsed_s=st.floats(0, 20))
    def pass_time(self, elapsed_s: float) -> None:
        self.now_s += elapsed_s
        expired = self.holds.expire(self.now_s)
        assert len(set(expired)) == len(expired)
        for gone in expired:
            assert self.model.pop(gone) <= self.now_s + 1e-6, "answered too early"
        for due_s in self.model.values():
            assert due_s > self.now_s - SLOT_S - 1e-6, "answered too late"

    @rule(gone=parked)
    def forget(self, gone: Hold[str]) -> None:
        is_there = gone in self.model or gone in self.woken
        assert self.holds.forget(gone) == is_there
        self.model.pop(gone, None)
        if gone in self.woken:
            self.woken.remove(gone)

    @rule(owner=OWNERS, most=st.none() | st.integers(1, 3))
    def drop(self, owner: str, most: int | None) -> None:
        while dropped := self.holds.drop(owner, most=most):
            assert most is None or len(dropped) <= most
        self.model = {one: due_s for one, due_s in self.model.items() if one.owner != owner}
        self.woken = [one for one in self.woken if one.owner != owner]
        if hasattr(self, f"known_{owner}"):
            delattr(self, f"known_{owner}")

    @invariant()
    def everything_parked_is_counted(self) -> None:
        assert len(self.holds) == len(self.model)
        at = Counter(one.host for one in self.model)
        assert self.holds._hosts == at
        assert all(self.holds.held_at(host) == at[host] for host in at)

    @invariant()
    def the_alarm_is_set_for_the_earliest(self) -> None:
        next_s = self.holds.next_expiry_s()
        if self.model:
            assert next_s is not None
            assert next_s <= min(self.model.values()) + SLOT_S + 1e-6
        else:
            assert next_s is None


class CrowdedHoldsMachine(HoldsMachine):
    """The same where a step looks at no more than two pulls."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = patch.object(_hold, "LOOKS_OF_A_STEP", 2)
        self.patch.start()

    def teardown(self) -> None:
        self.patch.stop()


HoldsMachine.TestCase.settings = CrowdedHoldsMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None
)
TestHolds = HoldsMachine.TestCase
TestCrowdedHolds = CrowdedHoldsMachine.TestCase


def test_a_pull_expires_in_the_slot_of_its_timeout_and_not_before() -> None:
    holds: Holds[str] = Holds()
    parked = hold(timeout_s=15.0)
    holds.park(parked, 100.03)
    assert holds.expire(115.0) == []
    next_s = holds.next_expiry_s()
    assert next_s is not None
    assert math.isclose(next_s, 115.1)
    assert holds.expire(next_s) == [parked]


def test_messages_that_pass_by_unwanted_shorten_the_wait() -> None:
    holds: Holds[str] = Holds()
    parked = hold(tag_codes=frozenset({7}), timeout_s=15.0)
    holds.park(parked, 0.0)
    assert holds.arrived("T", 0, max_offset=6, tags_code=1, now_s=1.0)
    assert not holds.arrived("T", 0, max_offset=7, tags_code=1, now_s=2.0)
    assert holds.expire(5.9) == []
    assert holds.expire(6.0) == [parked]


def test_a_message_below_the_offset_wakes_nobody() -> None:
    holds: Holds[str] = Holds()
    holds.park(hold(queue_offset=9), 0.0)
    assert not holds.arrived("T", 0, max_offset=9, tags_code=0, now_s=0.0)
    assert not holds.has_woken


def test_pulls_that_come_and_go_leave_nothing_behind() -> None:
    holds: Holds[str] = Holds()
    for offset in range(10_000):
        holds.park(hold(queue_offset=offset), offset / 100_000)
        holds.arrived("T", 0, max_offset=offset + 1, tags_code=0, now_s=offset / 100_000)
        holds.take_woken()
    assert len(holds._slot_heap) <= 3
    assert sum(map(len, holds._slots.values())) == 0
    assert not holds._queues


def test_a_full_table_says_so() -> None:
    holds: Holds[str] = Holds(held_max=2)
    holds.park(hold("a"), 0.0)
    assert holds.has_place("b", "host of b")
    holds.park(hold("b"), 0.0)
    assert not holds.has_place("c", "host of c")


def park_all(holds: Holds[str], owner: str) -> int:
    while holds.has_place(owner, f"host of {owner}"):
        holds.park(hold(owner), 0.0)
    return holds.held_by(owner)


def test_one_owner_gets_a_fifth_and_many_leave_a_place_for_the_next() -> None:
    holds: Holds[str] = Holds(held_max=10_000)
    assert 0.19 < park_all(holds, "greedy") / holds.held_max < 0.21
    for number in range(30):
        park_all(holds, f"greedy {number}")
        assert holds.has_place("modest", "host of modest")
    assert not holds.has_place("greedy", "host of greedy")
    assert len(holds.drop("greedy")) > 1900
    assert holds.has_place("greedy", "host of greedy")


def test_all_owners_of_one_address_leave_a_quarter() -> None:
    holds: Holds[str] = Holds(held_max=1000)
    for number in range(100):
        owner = f"greedy {number}"
        while holds.has_place(owner, "greedy"):
            holds.park(hold(owner, host="greedy", timeout_s=5.0 + number), 0.0)
    assert 749 < holds.held_at("greedy") == len(holds) < 752
    assert not holds.has_place_at("greedy")
    assert park_all(holds, "modest") > 40
    holds.expire(7.0)
    assert holds.has_place("greedy 99", "greedy")


def test_pulls_with_one_judge_share_its_verdict_and_expire_where_there_is_no_time_for_it() -> None:
    judged: list[bytes] = []

    def judge(data: bytes) -> bool:
        judged.append(data)
        return data == b"wanted"

    holds: Holds[str] = Holds()
    for number in range(40):
        holds.park(hold(f"owner {number}", matches=judge), 0.0)
    holds.park(hold("other", matches=lambda data: True), 0.0)
    for properties in (b"not", b"wanted"):
        budget = iter([True])
        holds.arrived(
            "T",
            0,
            max_offset=6,
            tags_code=0,
            now_s=1.0,
            properties=lambda: properties,  # noqa: B023 - called at once
            may_judge=lambda: next(budget, False),  # noqa: B023 - as above
        )
    assert judged == [b"not", b"wanted"]
    assert len(holds.take_woken()) == 40
    (unjudged,) = holds.expire(1.0 + SLOT_S)
    assert unjudged.owner == "other"


MANY, STEP_CALLS = 20_000, 15_000
"""Pulls of one queue, and the calls that one step of a thousand of them takes at most."""


def crowd(**changes: object) -> Holds[str]:
    holds: Holds[str] = Holds(held_max=1_000_000)
    for number in range(MANY):
        holds.park(hold(f"owner {number % 50}", **changes), 0.0)
    return holds


def caught_up(holds: Holds[str]) -> list[Hold[str]]:
    """Look at all pulls, and return those that are woken; no step is long."""
    woken = list[Hold[str]]()
    while holds.has_woken:
        with calls_of_this_thread() as calls:
            if holds.is_behind:
                holds.catch_up(1.0)
            woken += holds.take_woken()
        assert calls.count <= STEP_CALLS
    return woken


@pytest.mark.parametrize("is_wanted", [True, False])
@pytest.mark.parametrize("messages", [1, 5, ARRIVALS_MAX + 9])
def test_no_step_looks_at_all_of_very_many_pulls_of_a_queue(messages: int, is_wanted: bool) -> None:
    holds = crowd(tag_codes=frozenset({7}))
    codes = [1] * (messages - 1) + [7 if is_wanted else 1]
    with calls_of_this_thread() as calls:
        for offset, code in enumerate(codes, 6):
            holds.arrived("T", 0, max_offset=offset, tags_code=code, now_s=1.0)
    assert calls.count <= STEP_CALLS
    assert len(caught_up(holds)) == (MANY if is_wanted or messages > ARRIVALS_MAX else 0)


def test_no_step_wakes_all_of_very_many_pulls() -> None:
    holds = crowd()
    other = hold(queue=("T", 1))
    holds.park(other, 0.0)
    with calls_of_this_thread() as calls:
        holds.wake("T", 0)
        holds.arrived("T", 1, max_offset=6, tags_code=1, now_s=1.0)
    assert calls.count <= STEP_CALLS
    assert holds.take_woken() == [other]
    assert len(caught_up(holds)) == MANY
    assert len(holds) == 0


def test_no_step_takes_all_of_very_many_pulls_whose_time_is_up() -> None:
    holds, expired = crowd(), 0
    while holds.next_expiry_s() is not None:
        with calls_of_this_thread() as calls:
            expired += len(holds.expire(16.0, most=1000))
        assert calls.count <= STEP_CALLS
    assert expired == MANY
    assert holds.expire(16.0, most=1000) == []


def test_no_step_drops_all_of_very_many_pulls_of_an_owner() -> None:
    holds, dropped, steps = crowd(), 0, 0
    while holds.held_by("owner 3"):
        with calls_of_this_thread() as calls:
            dropped += len(holds.drop("owner 3", most=100))
        assert calls.count <= STEP_CALLS // 10
        steps += 1
    assert dropped == 100 * steps == MANY // 50
    assert len(holds) == MANY - dropped


def test_pulls_that_go_while_all_are_looked_at_are_not_woken() -> None:
    holds = crowd()
    holds.arrived("T", 0, max_offset=6, tags_code=1, now_s=1.0)
    holds.catch_up(1.0)
    gone = holds.drop("owner 3")
    woken = caught_up(holds)
    assert len(woken) == MANY - len(gone)
    assert not set(gone) & set(woken)
