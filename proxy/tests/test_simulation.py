"""Whole clusters under a simulated clock: `make sim` runs one, and says how to see it again."""

import subprocess
import sys
from pathlib import Path

import pytest

from lanemq.proxy.simulation._ledger import Acknowledged, Delivered, Ledger, Violated
from lanemq.wire import MessageQueue

ROOT = Path(__file__).parents[2]
QUEUE = MessageQueue("T", "broker1", 0)
BUDGET_S = 40


def simulation(*arguments: str) -> str:
    command = [sys.executable, "-m", "lanemq.proxy.simulation", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
def test_fresh_seeds_keep_every_promise() -> None:
    lines = simulation("--seconds", str(BUDGET_S)).splitlines()
    assert lines
    for line in lines:
        assert " acknowledged (" in line


@pytest.mark.slow
def test_a_seed_runs_the_same_way_again() -> None:
    once, again = (simulation("--seed", "7", "--steps", "8") for _ in range(2))
    assert once == again
    assert once != simulation("--seed", "8", "--steps", "8")


def test_the_books_find_a_message_that_never_arrived() -> None:
    ledger = Ledger([Acknowledged("s", 0, QUEUE, 0), Acknowledged("s", 1, QUEUE, 1)])
    ledger.delivered["g"] = [Delivered("s", 0, QUEUE, 0)]
    assert ledger.missing("g") == {Acknowledged("s", 1, QUEUE, 1)}


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
