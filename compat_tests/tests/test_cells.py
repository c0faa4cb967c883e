"""Cells are chosen and run, with clients that are a few lines of Python."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.compat import CLIENTS, SERVER_NAMES, Cell, CellResult, Cluster, NotApplicable, Selection
from lanemq.compat.cells._scenario import Scenario, expect, expect_equal
from lanemq.compat.clients._families import ClientFamily
from lanemq.compat.matrix._matrix import CELL_S, UnknownName, run_cells, run_matrix
from lanemq.compat.scenarios import SCENARIOS

# A client that counts how often it was asked, and dies when told to.
SCRIPT = """
import json, sys
count = 0
for line in sys.stdin:
    asked = json.loads(line)
    if asked["command"] == "die": sys.exit(1)
    count += 1
    print(json.dumps({"id": asked["id"], "result": count}), flush=True)
"""


async def passes(cell: Cell) -> None:
    expect(await cell.driver.call("count") >= 1, "an answer")


async def fails(cell: Cell) -> None:
    expect_equal("the answer", await cell.driver.call("count"), "forty-two")


async def does_not_apply(cell: Cell) -> None:
    raise NotApplicable("nobody could")


async def breaks(cell: Cell) -> None:
    raise ZeroDivisionError("a bug in the scenario")


async def breaks_in_a_nursery(cell: Cell) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fails, cell)


async def kills_its_driver(cell: Cell) -> None:
    await cell.driver.call("die")


async def never_ends(cell: Cell) -> None:
    await trio.sleep_forever()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    family = ClientFamily("fake", None, lambda: [sys.executable, "-c", SCRIPT])
    monkeypatch.setitem(CLIENTS, "fake", family)
    for run in (passes, fails, does_not_apply, breaks, breaks_in_a_nursery, kills_its_driver):
        name = run.__name__
        monkeypatch.setitem(SCENARIOS, name, Scenario(name, name, run, False))


async def run(
    folder: Path,
    *scenarios: str,
    jobs: int = 1,
    on_result: Callable[[CellResult], None] = lambda _: None,
) -> list[CellResult]:
    selection = Selection.of(clients=["fake"], scenarios=scenarios)
    cluster = Cluster("nowhere", "127.0.0.1:1", folder, [])
    return await run_cells(cluster, selection, jobs=jobs, logs=folder / "logs", on_result=on_result)


@pytest.mark.usefixtures("fake")
async def test_each_outcome_has_its_reason(tmp_path: Path) -> None:
    results = await run(tmp_path, "passes", "fails", "does_not_apply", "breaks", jobs=4)
    assert [(result.scenario, result.outcome) for result in results] == [
        ("passes", "passed"),
        ("fails", "failed"),
        ("does_not_apply", "not applicable"),
        ("breaks", "failed"),
    ]
    reasons = [result.reason for result in results]
    assert reasons[0] == ""
    assert reasons[1].startswith("the answer: expected 'forty-two', got ")
    assert reasons[2] == "nobody could"
    assert "ZeroDivisionError" in reasons[3]
    assert {(result.client, result.server) for result in results} == {("fake", "nowhere")}
    written = (tmp_path / "logs" / "nowhere" / "failed.txt").read_text()
    assert {line.split(": ")[1] for line in written.splitlines()} == {"fails", "breaks"}
    assert reasons[1] in written
    await run(tmp_path, "passes")
    assert not (tmp_path / "logs" / "nowhere" / "failed.txt").exists()


@pytest.mark.usefixtures("fake")
async def test_a_failure_inside_a_nursery_is_told_like_any_other(tmp_path: Path) -> None:
    (result,) = await run(tmp_path, "breaks_in_a_nursery")
    assert result.reason.startswith("the answer: expected")


@pytest.mark.usefixtures("fake")
async def test_a_driver_that_died_is_started_again_for_the_next_cell(tmp_path: Path) -> None:
    results = await run(tmp_path, "kills_its_driver", "passes")
    assert [result.outcome for result in results] == ["failed", "passed"]


@pytest.mark.usefixtures("fake")
async def test_a_cell_that_never_ends_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    monkeypatch.setitem(SCENARIOS, "never_ends", Scenario("never_ends", "", never_ends, False))

    def time_passes(result: CellResult) -> None:
        if result.scenario == "passes":
            mock_clock.jump(CELL_S)

    results = await run(tmp_path, "never_ends", "passes", jobs=2, on_result=time_passes)
    assert [result.outcome for result in results] == ["failed", "passed"]
    assert results[0].reason == f"not done after {CELL_S:g} s"


@pytest.mark.usefixtures("fake")
async def test_drivers_are_kept_over_cells_and_their_logs_after(tmp_path: Path) -> None:
    results = await run(tmp_path, "fails", "passes")
    assert results[0].reason.endswith("got 1")  # one process counted both
    assert (tmp_path / "logs" / "nowhere" / "fake.log").exists()


def test_nothing_chosen_is_everything() -> None:
    everything = Selection.of()
    assert everything.clients == tuple(CLIENTS)
    assert everything.servers == SERVER_NAMES
    assert everything.scenarios == tuple(SCENARIOS)
    assert everything.cells_per_server == len(CLIENTS) * len(SCENARIOS)


def test_a_name_chosen_twice_runs_once() -> None:
    assert Selection.of(clients=["python", "python"]).clients == ("python",)


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [
        ("clients", "java-4.9.8", "java-4.9.7"),
        ("servers", "apache-5.3.2", "apache-5.3.3"),
        ("scenarios", "send-batches", "send-batch"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(kind: str, wrong: str, right: str) -> None:
    with pytest.raises(UnknownName, match=f"did you mean {right}"):
        Selection.of(**{kind: [wrong]})


@pytest.mark.parametrize(("required", "outcome"), [("", "not applicable"), ("1", "failed")])
async def test_missing_tools_are_a_visible_skip_or_a_failure(
    required: str, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setenv("LANEMQ_REQUIRE_PEERS", required)
    cluster = Cluster("nowhere", "127.0.0.1:1", tmp_path, [])
    selection = Selection.of(clients=["java-4.9.7"], scenarios=["send-sync"])
    (result,) = await run_cells(cluster, selection, logs=tmp_path / "logs")
    assert result.outcome == outcome
    assert "JDK 17" in result.reason

    selection = Selection.of(
        clients=["python"], servers=["apache-4.9.7"], scenarios=["send-sync", "pull"]
    )
    results = await run_matrix(selection, logs=tmp_path / "logs")
    assert [result.outcome for result in results] == [outcome, outcome]
    assert "not run: JDK 17" in results[0].reason


def test_scenarios_have_titles_and_names_that_fit_on_a_command_line() -> None:
    assert len(SCENARIOS) >= 30
    for name, scenario in SCENARIOS.items():
        assert name == scenario.name == name.lower()
        assert scenario.title.endswith(".")
