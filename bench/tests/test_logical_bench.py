"""The benches of logical queues: their arithmetic, their output, and short runs."""

import json
import struct

import pytest
from click.testing import CliRunner
from rich.console import Console

from lanemq.bench._results import Machine
from lanemq.bench.cli import bench
from lanemq.bench.logical._commands import (
    show_listeners_bench,
    show_logical_bench,
    show_migrate_bench,
)
from lanemq.bench.logical._migrate import pause_figures
from lanemq.bench.logical._pauses import (
    account,
    acknowledged_in,
    decode_times,
    longest_gap_ns,
    percentile,
    pieces,
    usual_gap_ns,
)
from lanemq.bench.logical._results import ListenersBench, LogicalBench, MigrateBench, Migrations
from lanemq.bench.logical._translation import LOGICAL_MEASURES

MACHINE = Machine("a processor", 2, 7.7, "Linux", "3.11", 0.1)
TIMES = {0: [10, 20, 30, 130, 140], 1: [15, 25, 35, 95, 145]}


def test_times_are_read_sender_by_sender() -> None:
    data = struct.pack(">7q", 4, 3, 10, 20, 30, 5, 0)
    assert {sender: list(stored) for sender, stored in decode_times(data).items()} == {
        4: [10, 20, 30],
        5: [],
    }


def test_a_pause_belongs_to_every_window_that_it_touches() -> None:
    assert longest_gap_ns(TIMES, (0, 20)) == 10
    assert longest_gap_ns(TIMES, (0, 31)) == 100, "it began in the window"
    assert longest_gap_ns(TIMES, (100, 150)) == 100, "it ended in the window"
    assert longest_gap_ns(TIMES, (60, 70)) == 100, "nothing was acknowledged in the window"
    assert longest_gap_ns({0: []}, (0, 100)) == 0


def test_what_is_usual_is_the_median_gap() -> None:
    assert usual_gap_ns(TIMES, (0, 30)) == 10


def test_a_window_is_cut_into_pieces_of_a_length() -> None:
    assert pieces((0, 100), 40) == [(0, 40), (40, 80)]
    assert pieces((0, 100), 400) == [(0, 100)]


def test_acknowledgements_are_counted_in_a_window() -> None:
    assert acknowledged_in(TIMES, (20, 36)) == 4


def test_the_account_tells_lost_messages_from_those_that_come_twice_or_late() -> None:
    sent = {0: 4, 1: 2}
    assert account(sent, [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (0, 3)]).lost == 0
    found = account(sent, [(0, 0), (0, 2), (0, 1), (0, 2), (1, 1)])
    assert (found.lost, found.duplicated, found.out_of_order) == (2, 1, 1)
    assert account({0: 1}, [(0, 0), (0, 1)]).lost == 0, "stored as its sender stopped"


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert percentile([float(n) for n in range(1, 201)], 0.99) == 198.0
    assert percentile([5.0], 0.5) == 5.0
    assert pause_figures([1.0, 2.0, 9.0]) == (2.0, 9.0, 9.0)


def test_people_see_the_listener_beside_the_direct_way() -> None:
    result = LogicalBench(
        machine=MACHINE,
        rounds=1,
        samples={way: {key: [900.0] for key in LOGICAL_MEASURES} for way in ("listener", "direct")},
        ratios=dict.fromkeys(LOGICAL_MEASURES, 0.9),
        processor_us={
            way: {key: [12.5] for key in LOGICAL_MEASURES} for way in ("listener", "direct")
        },
    )
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        show_logical_bench(console, result)
    assert "send_64" in capture.get()
    assert "0.90" in capture.get()
    assert "12.5 / 12.5" in capture.get()


def test_people_see_what_two_listeners_carry_beside_one() -> None:
    rates = {"one": [1000.0, 1100.0, 900.0], "two": [1500.0, 1400.0, 1600.0]}
    spent = {"one": [80.0], "two": [75.5]}
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        show_listeners_bench(console, ListenersBench(MACHINE, 3, 4, rates, 1.5, spent))
    shown = capture.get()
    assert "4 clients" in shown
    assert "1.50" in shown
    assert "1,400 - 1,600" in shown
    assert "75.5 / 80.0" in shown


def test_people_see_pauses_with_and_without_migrations_and_what_was_lost() -> None:
    seen = Migrations(
        took_ms=[50.0],
        pauses_ms=[20.0, 30.0],
        quiet_ms=[10.0],
        rates={"here": [1000.0], "there": [800.0], "migrating": [810.0]},
        rate_kept=0.9,
        sent=5000,
        failed=0,
        lost=0,
        duplicated=3,
        out_of_order=0,
    )
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        show_migrate_bench(console, MigrateBench(MACHINE, 16, 2, {"java": seen}))
    shown = capture.get()
    assert "25 / 30 / 30 ms" in shown
    assert "0.90" in shown
    assert "5,000" in shown


@pytest.mark.slow
def test_a_short_run_with_the_sdk_loses_nothing() -> None:
    arguments = ["migrate", "--client", "sdk", "--migrations", "3", "--threads", "4", "--json"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    seen = json.loads(result.stdout)["clients"]["sdk"]
    assert len(seen["took_ms"]) == len(seen["pauses_ms"]) == 3
    assert seen["sent"] > 0
    assert (seen["lost"], seen["duplicated"], seen["out_of_order"]) == (0, 0, 0)


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_a_short_run_with_java_loses_nothing() -> None:
    arguments = ["migrate", "--client", "java", "--migrations", "3", "--json"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    seen = json.loads(result.stdout)["clients"]["java"]
    assert (seen["lost"], seen["out_of_order"]) == (0, 0)


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_a_short_run_measures_the_listener_beside_the_direct_way() -> None:
    arguments = ["logical", "--rounds", "1", "--seconds", "1", "--warm-up", "0.3", "--json"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert list(printed["ratios"]) == list(LOGICAL_MEASURES)
    assert set(printed["samples"]) == {"listener", "direct"}


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_a_short_run_measures_two_listeners_beside_one() -> None:
    arguments = ["listeners", "--clients", "2", "--rounds", "1", "--seconds", "0.5"]
    result = CliRunner().invoke(
        bench, [*arguments, "--warm-up", "0.3", "--json"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert {side: len(rates) for side, rates in printed["rates"].items()} == {"one": 1, "two": 1}
    assert printed["ratio"] > 0
