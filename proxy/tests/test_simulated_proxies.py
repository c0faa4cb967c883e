"""Simulated clusters behind two proxies: `make sim PROXY=1` runs one."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from lanemq.proxy.gateway.kv import UpstreamKeys, _located
from lanemq.proxy.gateway.kv._topics import ClusterCandidates
from lanemq.proxy.gateway.order import AddedRequests, Passed, QueueOrder, extended
from lanemq.testkit.hypothesis_profile import EXPLORE
from lanemq.testkit.simulation._ledger import Violated
from lanemq.testkit.simulation._queue_lists import GROWING, Lists
from lanemq.testkit.simulation._simulate_proxies import simulate_proxies
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame

ROOT = Path(__file__).parents[2]
SEEDS: Sequence[int | None] = [None] * 4 if EXPLORE else [1]
"""None is a fresh one."""


def simulation(*arguments: str, status: int = 0) -> tuple[str, str]:
    """Run a simulation; returns what it printed, and its errors."""
    done = subprocess.run(
        [sys.executable, "-m", "lanemq.testkit.simulation", "--proxy", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},  # the kit is not installed
        check=False,
    )
    assert done.returncode == status, done.stderr[-4000:]
    return done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_of_any_seed_keeps_every_promise(seed: int | None) -> None:
    drawn = ("--seed", str(seed)) if seed is not None else ()
    (line,) = simulation(*drawn, "--steps", "4")[0].splitlines()
    assert " acknowledged (" in line


@pytest.mark.slow
def test_queues_move_and_brokers_are_drained_in_runs_of_moves() -> None:
    """Every promise holds where nothing moves, too."""
    lines, _ = simulation("--only", "moves", "--seed", "5", "--steps", "6", "--runs", "4")
    found = re.findall(r", (\d+) moves, (\d+) drains, ", lines)
    assert len(found) == 4
    assert sum(int(moves) for moves, _ in found) > 0
    assert sum(int(drains) for _, drains in found) > 0


@pytest.mark.slow
def test_a_seed_runs_the_same_way_again_also_as_one_of_several() -> None:
    """The growth of a topic, and the proxy that sees it first, follow from the seed."""
    arguments = ("--seed", "7", "--steps", "1", "--only", "grow")
    once, _ = simulation(*arguments)
    again, _ = simulation(*arguments, "--runs", "1", "--jobs", "2")
    assert ", 1 times grown" in once
    assert " trace " in once
    assert once == again


@pytest.mark.slow
def test_a_proxy_that_gives_a_broker_the_number_of_its_client_is_found() -> None:
    def passed(requests: AddedRequests, frame: Frame, topic_field: str, _: str) -> Passed:
        run = requests._run(frame.fields[topic_field])
        return requests._named(run.broker, frame)

    with (
        patch.object(AddedRequests, "_of_queue", passed),
        pytest.raises(Violated, match="was acknowledged, and"),
    ):
        simulate_proxies(7, 1, "grow")


@pytest.mark.slow
def test_an_order_that_is_written_without_a_look_at_the_one_before_is_found() -> None:
    put = UpstreamKeys.put

    async def put_anyway(
        keys: UpstreamKeys, name: bytes, value: bytes, *, expected: int | None = None
    ) -> int | None:
        assert expected is not None
        return await put(keys, name, value)

    with (
        patch.object(UpstreamKeys, "put", put_anyway),
        pytest.raises(Violated, match="lists of queues"),
    ):
        simulate_proxies(7, 5, "grow_apart")


@pytest.mark.slow
def test_proxies_that_begin_their_log_at_the_first_broker_they_hear_of_are_found() -> None:
    heard: dict[ClusterCandidates, str] = {}

    async def first(candidates: ClusterCandidates, topic: str, **_: object) -> str:
        """Return what a proxy hears of first: another broker than the other one has."""
        table = await candidates._admin.cluster()
        left = [name for name in sorted(table.broker_addr_table) if name not in heard.values()]
        return heard.setdefault(candidates, (left or sorted(table.broker_addr_table))[0])

    async def unknown(*_: object) -> None:
        """Name servers have been started without what was noted."""

    with (
        patch.object(_located, "chosen", first),
        patch.object(_located, "noted_broker", unknown),
        pytest.raises(Violated, match=r"broker1 and broker3|list of|tells|do not agree"),
    ):
        simulate_proxies(1, 3, "grow_apart")


def test_a_list_that_grows_at_its_end_keeps_the_promise() -> None:
    lists, order = Lists(), QueueOrder()
    added: tuple[str, ...] = ()
    for told in ({"a": 2, "c": 2}, {"a": 3, "c": 2}, {"a": 3, "b": 1, "c": 4}):
        order, added = extended(order, told, added)
        lists.note("one", GROWING, order)
    lists.note("another", GROWING, extended(QueueOrder(), {"a": 2, "c": 2}, ())[0])
    lists.check()
    assert lists.grown == 2
    assert {entry.own for entry in lists.of(GROWING)} == {
        MessageQueue(GROWING, name, number)
        for name, count in (("a", 3), ("b", 1), ("c", 4))
        for number in range(count)
    }
    assert lists.own(MessageQueue(GROWING, "~lanemq-000", 0)) == MessageQueue(GROWING, "a", 2)


def test_a_list_that_grows_elsewhere_or_gets_shorter_is_found() -> None:
    order, added = extended(QueueOrder(), {"a": 2, "c": 2}, ())
    long, _ = extended(order, {"a": 3}, added)
    other, _ = extended(order, {"c": 3}, added)
    for first, then in ((long, other), (other, long), (long, order)):
        lists = Lists()
        lists.note("one", GROWING, first)
        lists.note("one", GROWING, then)
        with pytest.raises(Violated, match="the list of growing"):
            lists.check()


def test_a_queue_that_no_proxy_has_a_place_for_is_found() -> None:
    lists = Lists()
    lists.own(MessageQueue(GROWING, "~lanemq-000", 0))
    with pytest.raises(Violated, match="has no place at any proxy"):
        lists.check()
