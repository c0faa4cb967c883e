"""The bench of the broker: its arithmetic, its JSON, and one short run against the real thing."""

import json

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console

from lanemq.bench._results import (
    MEASURES,
    BrokerBench,
    Machine,
    acl_to_plain,
    median_ratios,
    this_machine,
)
from lanemq.bench.cli import bench, show_broker_bench

RESULT = BrokerBench(
    machine=Machine("a processor", 2, 7.7, "Linux", "3.11", 0.1),
    rounds=3,
    samples={
        "lanemq": {measure: [300.0, 200.0, 100.0] for measure in MEASURES},
        "apache-5.3.3": {measure: [100.0, 50.0, 160.0] for measure in MEASURES},
    },
    ratios=dict.fromkeys(MEASURES, 2.0),
    start_s={"lanemq": 0.5, "apache-5.3.3": 5.0},
    rss_mib={"lanemq": 60.0, "apache-5.3.3": 700.0},
    messages_stored=100_000,
    acl_to_plain={"lanemq": 0.9, "apache-5.3.3": 0.8},
)


def test_a_ratio_is_ours_over_theirs_by_medians() -> None:
    ratios = median_ratios(RESULT.samples, ours="lanemq", theirs="apache-5.3.3")
    assert ratios == dict.fromkeys(MEASURES, 2.0)
    assert median_ratios(
        {"a": {"send_1": [1.0, 9.0]}, "b": {"send_1": [10.0, 10.0]}}, ours="a", theirs="b"
    ) == {"send_1": 0.5}


def test_what_accounts_cost_is_a_ratio_of_each_servers_own_medians() -> None:
    samples = {
        "a": {"send_16": [100.0, 200.0, 300.0], "acl_16": [150.0, 190.0, 900.0]},
        "b": {"send_16": [100.0], "acl_16": [40.0]},
    }
    assert acl_to_plain(samples) == {"a": 0.95, "b": 0.4}


def test_the_json_has_the_members_every_bench_reports() -> None:
    printed = json.loads(msgspec.json.encode(RESULT))
    assert set(printed) >= {"machine", "rounds", "samples", "ratios"}
    assert list(printed["ratios"]) == [
        *("send_1", "send_16", "send_64", "batch", "consume"),
        *("transactions_1", "transactions_16", "acl_16", "tls_16"),
    ]
    assert printed["acl_to_plain"] == {"lanemq": 0.9, "apache-5.3.3": 0.8}
    assert printed["samples"]["lanemq"]["send_1"] == [300.0, 200.0, 100.0]


def test_people_see_medians_ratios_start_up_and_memory() -> None:
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        show_broker_bench(console, RESULT)
    shown = capture.get()
    assert "send_64" in shown
    assert "2.00" in shown
    assert "100 - 300" in shown
    assert "lanemq: start-up 0.50 s, resident 60 MiB after 100,000 messages" in shown
    assert "messages; acl_16 is 0.90 of send_16" in shown


def test_the_machine_is_described_by_itself() -> None:
    machine = this_machine()
    assert machine.processors >= 1
    assert machine.memory_gib > 0
    assert machine.processor


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_a_short_run_measures_everything_on_both_servers() -> None:
    arguments = ["broker", "--rounds", "1", "--seconds", "1", "--warm-up", "0.3", "--json"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert set(printed["ratios"]) == set(MEASURES)
    assert all(ratio > 0 for ratio in printed["ratios"].values())
    assert set(printed["samples"]) == {"lanemq", "apache-5.3.3"}
    assert all(ratio > 0 for ratio in printed["acl_to_plain"].values())
    assert printed["rss_mib"]["lanemq"] < 200
