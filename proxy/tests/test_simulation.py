"""Whole clusters under a simulated clock: `make sim` runs one, and says how to see it again."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.net import _connection
from lanemq.sdk import TransactionState
from lanemq.sdk.admin import open_admin
from lanemq.testkit.cases import first
from lanemq.testkit.hypothesis_profile import EXPLORE
from lanemq.testkit.logical.cluster import TOPIC as LOGICAL_TOPIC
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.testkit.proxy.turns import measuring_modules
from lanemq.testkit.simulation._deeds import Deeds
from lanemq.testkit.simulation._determinism import determined_by
from lanemq.testkit.simulation._ledger import Acknowledged, Delivered, Ledger, Violated
from lanemq.testkit.simulation._network import End, Network
from lanemq.testkit.simulation._transactions import Decisions, all_ended
from lanemq.wire.bodies import MessageQueue

ROOT = Path(__file__).parents[2]
QUEUE = MessageQueue("T", "broker1", 0)
SEEDS: Sequence[int | None] = [None] * 4 if EXPLORE else [1, 2, 3, 4]
"""None is a fresh one."""


def simulation(*arguments: str) -> str:
    command = [sys.executable, "-m", "lanemq.testkit.simulation", *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},  # the kit is not installed
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("seed", first(2, SEEDS))
def test_a_run_of_any_seed_keeps_every_promise(seed: int | None) -> None:
    drawn = ("--seed", str(seed)) if seed is not None else ()
    (line,) = simulation(*drawn, "--steps", "10").splitlines()
    assert " acknowledged (" in line


@pytest.mark.slow
def test_transactions_end_as_they_were_decided() -> None:
    line = simulation("--seed", "6", "--steps", "1", "--transactions")
    assert ", 0 transactions committed" not in line


@pytest.mark.slow
def test_keys_have_an_explanation_while_their_partitions_move() -> None:
    """Through crashes, lost power, partitions of the network, migrations and a drain."""
    line = simulation("--seed", "5", "--steps", "6", "--keys")
    assert " answers about keys and " in line
    assert ", 0 answers about keys" not in line
    assert " 0 moves of partitions" not in line


@pytest.mark.slow
@pytest.mark.parametrize("more", first(1, [["--keys"], []]))
def test_a_seed_runs_the_same_way_again(more: Sequence[str]) -> None:
    once, again = (simulation("--seed", "1004", "--steps", "4", *more) for _ in range(2))
    assert " trace " in once  # of every byte that was sent, and when
    assert once == again
    assert once != simulation("--seed", "8", "--steps", "1")


@pytest.mark.slow
def test_one_misfortune_alone_may_happen() -> None:
    line = simulation("--seed", "5", "--steps", "1", "--only", "go_past")
    assert "; go_past 1; trace " in line


@pytest.mark.slow
def test_no_send_fails_because_all_name_servers_forget_everything() -> None:
    """Those of a client that knows logical queues, and of one that is served by listeners."""
    line = simulation("--seed", "1", "--steps", "3", "--only", "forget_name_servers")
    assert "; forget_name_servers 3; trace " in line


def test_no_clock_of_the_machine_and_no_address_of_an_object_is_part_of_a_run() -> None:
    """The loop measures its turns by the simulated clock, and a host's connections have an order
    of their own.
    """

    async def run() -> list[float]:
        network = Network(Random(1))
        broken: list[End] = []
        async with trio.open_nursery() as nursery:
            with network.listening("10.0.0.2", 1, lambda stream, peer, port: None):
                dial = network.dialer("10.0.0.1")
                ends = [await dial("10.0.0.2", 1) for _ in range(50)]
                with patch.object(End, "break_off", lambda end: broken.append(end)):
                    network.go_down("10.0.0.1")
            nursery.cancel_scope.cancel()
        assert [end for end in broken if end in ends] == ends
        measured: Callable[[], float] = vars(_connection)["perf_counter"]
        assert measured is trio.current_time
        before = measured()
        sum(range(1_000_000))
        return [before, measured()]

    with determined_by(1):
        before, after = trio.run(run, clock=MockClock(autojump_threshold=0))
    assert before == after


def test_all_that_servers_measure_follows_the_clock_of_a_run() -> None:
    """A broker's answer has the times of its writes, so they are part of a run."""
    sources = [
        path for part in ("proxy", "storage") for path in (ROOT / part / "lanemq").rglob("*.py")
    ]
    measuring = {path for path in sources if "perf_counter" in path.read_text()}
    with determined_by(1):
        modules = measuring_modules()
        assert {vars(module)["perf_counter"] for module in modules} == {trio.current_time}
    assert {Path(str(module.__file__)) for module in modules} == measuring


def test_the_books_find_a_message_that_never_arrived() -> None:
    ledger = Ledger([Acknowledged("s", 0, QUEUE, 0), Acknowledged("s", 1, QUEUE, 1)])
    ledger.delivered["g"] = [Delivered("s", 0, QUEUE, 0)]
    assert ledger.missing("g") == {Acknowledged("s", 1, QUEUE, 1)}


def test_the_books_find_what_was_delivered_though_it_was_rolled_back() -> None:
    ledger = Ledger(rolled_back={("s", 1)})
    ledger.delivered["g"] = [Delivered("s", 0, QUEUE, 0)]
    ledger.check_rolled_back()
    ledger.delivered["g"].append(Delivered("s", 1, QUEUE, 1))
    with pytest.raises(Violated, match="which was rolled back"):
        ledger.check_rolled_back()


async def test_a_committed_message_has_to_arrive_and_is_unknown_until_it_is_decided(
    autojump_clock: MockClock,
) -> None:
    ledger = Ledger()
    decisions = Decisions(ledger)
    key = ("s", 0)
    decisions.begin(key)
    assert decisions.state(key) is TransactionState.UNKNOWN
    now_s = trio.current_time()
    assert decisions.make(key, is_commit=True, at_s=now_s + 5) is TransactionState.UNKNOWN
    assert {ack[:2] for ack in ledger.missing("g")} == {key}
    await decisions.all_made()
    assert trio.current_time() >= now_s + 5
    assert decisions.state(key) is TransactionState.COMMIT
    ledger.deliver("g", Delivered("s", 0, QUEUE, 7))
    assert not ledger.missing("g")
    rolled_back = decisions.make(("s", 1), is_commit=False, at_s=trio.current_time())
    assert rolled_back is TransactionState.ROLLBACK
    assert ledger.rolled_back == {("s", 1)}


@pytest.mark.slow
async def test_a_broker_that_keeps_a_half_message_for_ever_is_found(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster("broker1") as cluster:
        brokers = list(cluster.brokers.values())
        await all_ended(brokers)
        properties = {"TRAN_MSG": "true", "PGROUP": "nobody"}
        answer = await cluster.send(await cluster.normal(0), properties=properties, flagged=False)
        assert answer.code == 0
        with pytest.raises(Violated, match="broker1 has 1"):
            await all_ended(brokers)
        await trio.sleep(15 * 30)  # by then it has asked for the last time
        with pytest.raises(Violated, match="broker1 has put half messages aside"):
            await all_ended(brokers)


def test_the_books_find_a_place_that_was_given_twice() -> None:
    ledger = Ledger([Acknowledged("s", 0, QUEUE, 5), Acknowledged("t", 0, QUEUE, 5)])
    with pytest.raises(Violated, match="was given to"):
        ledger.check_places()


def test_a_copy_elsewhere_is_not_the_message_that_was_acknowledged() -> None:
    acks = [Acknowledged("s", 0, QUEUE, 5), Acknowledged("s", 1, QUEUE, -1)]
    ledger = Ledger(list(acks))
    ledger.delivered["g"] = [Delivered("s", 0, QUEUE, 6), Delivered("s", 1, QUEUE, 7)]
    assert ledger.missing("g") == {acks[0]}


def test_the_books_find_what_was_stored_out_of_order() -> None:
    ledger = Ledger([Acknowledged("s", 0, QUEUE, 5), Acknowledged("s", 1, QUEUE, 4)])
    with pytest.raises(Violated, match="was acknowledged before"):
        ledger.check_order()


def test_the_books_let_an_orderly_group_repeat_but_not_skip() -> None:
    ledger = Ledger()
    ledger.delivered["g"] = [Delivered("s", n, QUEUE, n) for n in (0, 1, 2, 1, 2, 3)]
    ledger.check_delivered_order("g")
    ledger.delivered["g"].append(Delivered("s", 5, QUEUE, 5))
    with pytest.raises(Violated, match="before the messages 4 to 4"):
        ledger.check_delivered_order("g")


async def test_the_books_find_two_owners_at_once_but_where_the_lock_was_forgotten(
    autojump_clock: MockClock,
) -> None:
    """A client trusts the lock of a broker that was killed for 30 s after it renewed it last."""
    ledger = Ledger()
    ledger.may_share("g", QUEUE, trio.current_time() + 30)
    with ledger.works_on("g", QUEUE):
        with ledger.works_on("g", QUEUE), ledger.works_on("another", QUEUE):
            await trio.sleep(29)
        ledger.check_owners()
        await trio.sleep(2)
        with ledger.works_on("g", QUEUE), pytest.raises(Violated, match="two members of a group"):
            ledger.check_owners()


async def test_the_books_let_a_member_whose_lock_has_ended_finish_what_it_handles() -> None:
    ledger, locked = Ledger(), {"first"}
    with ledger.works_on("g", QUEUE, lambda: "first" in locked):
        locked.clear()
        with ledger.works_on("g", QUEUE, lambda: "second" in locked):
            ledger.check_owners()
            locked.add("second")
            with ledger.works_on("g", QUEUE), pytest.raises(Violated, match="two members"):
                ledger.check_owners()


def test_the_books_know_where_a_message_was_appended_again() -> None:
    """Behind what was sent after it: its old place is another message's now."""
    acks = [Acknowledged("s", 0, QUEUE, 5), Acknowledged("s", 1, QUEUE, 5)]
    ledger = Ledger(list(acks))
    ledger.delivered["g"] = [Delivered("s", 0, QUEUE, 5), Delivered("s", 1, QUEUE, 5)]
    ledger.moved("s", 0, QUEUE, 5, 6)
    ledger.check_places()
    ledger.check_order()
    assert ledger.missing("g") == {Acknowledged("s", 0, QUEUE, 6)}


async def test_a_queue_that_one_admin_closes_while_another_opens_it_is_one_that_may_be_closed(
    autojump_clock: MockClock,
) -> None:
    """The one that opens it hears of that last, and knows nothing of the other."""
    async with mapped_cluster("broker1", "broker2") as cluster:
        await cluster.fill(await cluster.normal(1), 1)
        broker = cluster.brokers["broker2"]
        deeds = Deeds(Random(1), 2, sorted(cluster.brokers), topic=LOGICAL_TOPIC)

        async def change(host: str, number: int) -> None:
            dial = cluster.network.dialer(host)
            async with open_admin(name_servers=cluster.name_server.address, dial=dial) as admin:
                await deeds.number(admin, number)

        def is_open() -> bool:
            chain = broker.running.context.logical.mappings[LOGICAL_TOPIC].chain(1)
            return chain.normal is not None

        await change("10.0.9.7", 1)
        assert deeds.closed == {1}
        assert not is_open()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(change, "10.0.9.7", 2)
            while not is_open():  # noqa: ASYNC110 - there is nothing that would say so
                await trio.sleep(0.0001)  # less than an answer takes
            cluster.network.part("10.0.9.7", broker.host)
            await change("10.0.9.8", 1)
            cluster.network.join()
        assert not is_open()
        assert deeds.closed == {1}
