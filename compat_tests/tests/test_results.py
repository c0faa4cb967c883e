"""The report says what the cells say, to machines and to people."""

import json
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lanemq.compat import CellResult
from lanemq.compat.matrix._report_file import added_to, write_report
from lanemq.compat.matrix._results import Report, count_outcomes, decode_report, encode_report
from lanemq.compat.matrix._show import show_matrix
from lanemq.compat.scenarios import SCENARIOS

CELLS = [
    CellResult("java-4.9.7", "lanemq", "send-sync", "passed", "", 1.25),
    CellResult("go-2.1.0", "lanemq", "pull", "not applicable", "no <pull> consumer", 0.0),
    CellResult("go-2.1.0", "lanemq", "send-sync", "failed", "status: [bold]expected", 2.0),
    CellResult("go-2.1.0", "apache-4.9.7", "pull", "not applicable", "no <pull> consumer", 0.0),
]

BEGUN = datetime(2026, 11, 28, 3, 50, tzinfo=UTC)
REPORT = Report(BEGUN, "0.1.0", CELLS)


def test_the_json_report_has_the_promised_members() -> None:
    report = json.loads(encode_report(REPORT))
    assert list(report) == ["begun", "lanemq", "cells"]
    assert report["begun"] == "2026-11-28T03:50:00Z"
    assert report["cells"][0] == {
        "client": "java-4.9.7",
        "server": "lanemq",
        "scenario": "send-sync",
        "outcome": "passed",
        "reason": "",
        "seconds": 1.25,
    }


@given(
    st.lists(
        st.builds(
            CellResult,
            client=st.text(),
            server=st.text(),
            scenario=st.text(),
            outcome=st.sampled_from(["passed", "failed", "not applicable"]),
            reason=st.text(),
            seconds=st.floats(0, 1e6),
        )
    )
)
def test_a_report_reads_back_as_it_was(cells: list[CellResult]) -> None:
    report = Report(BEGUN, "0.1.0", cells)
    assert decode_report(encode_report(report)) == report
    assert sum(count_outcomes(cells).values()) == len(cells)


def test_every_outcome_is_counted_also_those_that_nothing_has() -> None:
    assert count_outcomes(CELLS) == {"passed": 1, "failed": 1, "not applicable": 2}
    assert count_outcomes([]) == {"passed": 0, "failed": 0, "not applicable": 0}


def test_the_html_report_shows_every_cell_and_escapes_reasons(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, REPORT)
    page = path.read_text(encoding="utf-8")
    assert page.count('class="passed"') == 1
    assert "no &lt;pull&gt; consumer" in page
    assert "no <pull>" not in page


def test_a_path_without_html_gets_json(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_report(path, REPORT)
    assert decode_report(path.read_bytes()) == REPORT


def test_the_terminal_shows_one_table_for_each_server_and_each_reason_once() -> None:
    console = Console(width=200, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as capture:
        show_matrix(console, CELLS)
    shown = capture.get()
    assert shown.count("server: ") == 2
    assert shown.count("no <pull> consumer") == 1
    assert "status: [bold]expected" in shown  # a reason is not markup
    assert shown.rstrip().endswith("1 passed, 1 failed, 2 not applicable")


def test_cells_of_a_later_run_are_added_in_the_order_of_a_whole_run(tmp_path: Path) -> None:
    def cell(client: str, scenario: str, outcome: str = "passed") -> CellResult:
        return CellResult(client, "lanemq", scenario, outcome, "", 1.0)  # type: ignore[arg-type]

    path = tmp_path / "report.json"
    old = [cell("java-4.9.7", "send-sync"), cell("python", "send-sync", "failed")]
    write_report(path, Report(BEGUN, "0.1.0", old))
    new = [cell(client, name) for client in ("python", "java-4.9.7") for name in ("pull",)]
    again = [*new, cell("python", "send-sync")]
    added = added_to(path, Report(BEGUN.replace(day=30), "0.2.0", again))
    assert (added.begun, added.lanemq) == (BEGUN, "0.1.0")
    order = [name for name in SCENARIOS if name in ("pull", "send-sync")]
    assert added.cells == [
        cell(client, name) for client in ("java-4.9.7", "python") for name in order
    ]
