"""Drained brokers that are gone, by what name servers list."""

from types import SimpleNamespace
from typing import Any

import pytest

from lanemq.proxy.gateway.moves._stands import GONE_S, Stand, Stands
from lanemq.proxy.gateway.order import MovedQueue, Part

DONE = Stand("a", is_done=True)
MOVED = MovedQueue((Part("b", 0, 4), Part("a", 2)))


class Time:
    now_s = 1000.0


def stands_of(time: Time, stand: Stand = DONE) -> Stands:
    keys: Any = SimpleNamespace(watch=lambda _: None, get=lambda _: SimpleNamespace(version=7))
    stands = Stands(keys, now_s=lambda: time.now_s)
    stands._known["b"] = stand
    return stands


def test_a_broker_is_gone_after_a_minute_and_its_return_is_told_once() -> None:
    time = Time()
    stands = stands_of(time)
    assert not stands.is_gone("b")
    for listed in (["a", "b"], ["a"]):
        assert not stands.note_listed(listed)
        time.now_s += GONE_S - 1
        assert not stands.note_listed(listed)
        assert not stands.gone_parts(MOVED)
    # A name server that has lost its table for a while takes nothing back.
    assert not stands.note_listed(["a", "b"])
    time.now_s += 2
    assert not stands.note_listed(["a"])
    time.now_s += GONE_S
    assert stands.gone_parts(MOVED) == {0}
    assert not stands.note_listed(["a"])
    assert stands.note_listed(["a", "b"]) == {"b": 7}
    assert not stands.gone_parts(MOVED)
    assert not stands.note_listed(["a", "b"])


def test_a_broker_that_a_proxy_has_not_seen_is_gone_at_once() -> None:
    stands = stands_of(Time())
    assert not stands.note_listed(["a"])
    assert stands.gone_parts(MOVED) == {0}
    assert stands.note_listed(["a", "b"]) == {"b": 7}


@pytest.mark.parametrize(
    ("stand", "gone"), [(Stand("a"), set()), (Stand("a", is_done=True, is_forgotten=True), {0})]
)
def test_only_what_is_done_is_taken_back(stand: Stand, gone: set[int]) -> None:
    stands = stands_of(Time(), stand)
    for listed in (["a"], ["a", "b"]):
        assert not stands.note_listed(listed)
        assert stands.gone_parts(MOVED) == gone
