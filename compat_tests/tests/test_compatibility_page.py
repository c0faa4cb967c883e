"""docs/compatibility.md says what the recorded reports say, and nothing else."""

import importlib.util
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

from lanemq.compat import CLIENTS, SERVER_NAMES, CellResult
from lanemq.compat.matrix._results import Report, encode_report
from lanemq.compat.scenarios import SCENARIOS

TOOL = Path(__file__).parents[1] / "tools" / "write_compatibility.py"
BEGUN = datetime(2026, 11, 28, 3, 55, tzinfo=UTC)


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_compatibility", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cell(client: str, server: str, scenario: str, outcome: str, reason: str = "") -> CellResult:
    return CellResult(client, server, scenario, outcome, reason, 1.0)  # type: ignore[arg-type]


def test_the_page_is_what_the_reports_say(tool: ModuleType) -> None:
    assert tool.main(["--check"]) == 0, "run compat_tests/tools/write_compatibility.py"


def test_the_recorded_reports_are_whole(tool: ModuleType) -> None:
    for report in tool.read_reports().reports:
        assert report.begun.tzinfo is not None
        (server,) = {one.server for one in report.cells}
        assert server in SERVER_NAMES
        found = [(one.client, one.scenario) for one in report.cells]
        assert found == [(client, scenario) for client in CLIENTS for scenario in SCENARIOS]


def test_every_outcome_can_be_told_from_the_page(tool: ModuleType, tmp_path: Path) -> None:
    why = "has no | pull_consumer\nat all"
    for server in ("lanemq", "apache-4.9.7"):
        is_ours = server == "lanemq"
        cells = [
            cell("java-4.9.7", server, "send-sync", "passed"),
            cell("java-4.9.7", server, "pull", "passed" if is_ours else "not applicable", why),
            cell("python", server, "send-sync", "failed" if is_ours else "passed", "no answer"),
            cell("python", server, "pull", "not applicable", why),
        ]
        (tmp_path / f"{server}.json").write_bytes(encode_report(Report(BEGUN, "0.1.0", cells)))
    page = tool.page(tool.read_reports(tmp_path))
    assert "| lanemq | 2026-11-28 03:55 UTC | 0.1.0 | 2 | 1 | 1 |" in page
    assert "| `java-4.9.7` | 2 of 2 | 1 of 1 |" in page
    assert "| `python` | 0 of 1 | 1 of 1 |" in page
    rows = {line.split(":")[0]: line for line in page.splitlines()}
    assert rows["| `send-sync`"].endswith("| yes | failed at 1 |")
    assert rows["| `pull`"].endswith("| 1 of 2 | n/a |")
    assert "| `lanemq` | `python` | `send-sync` | no answer |" in page
    assert r"| `python`, `java-4.9.7` | `pull` | all | has no \| pull\_consumer at all |" in page
    assert "Not recorded: `lanemq-logical`" in page


def test_two_reports_of_one_server_are_refused(tool: ModuleType, tmp_path: Path) -> None:
    report = Report(BEGUN, "0.1.0", [cell("python", "lanemq", "pull", "passed")])
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(encode_report(report))
    with pytest.raises(ValueError, match="two reports"):
        tool.read_reports(tmp_path)
