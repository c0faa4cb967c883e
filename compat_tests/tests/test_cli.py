"""The command line: names are listed, mistakes are named, the exit status tells."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lanemq.compat import CLIENTS, SERVER_NAMES, CellResult
from lanemq.compat.cli import compat
from lanemq.compat.scenarios import SCENARIOS


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(compat, list(arguments), env={"COLUMNS": "200"})
    return result.exit_code, result.output


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_its_packages_the_command_says_which_extra_has_them(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from lanemq.compat._entry import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    says = f"lanemq-compat: {missing} is not installed; pip install 'lanemq[compat]'\n"
    assert result.stderr == says


def test_list_names_every_client_server_and_scenario() -> None:
    status, shown = invoke("list")
    assert status == 0
    for name in (*CLIENTS, *SERVER_NAMES, *SCENARIOS):
        assert name in shown


def test_an_unknown_client_is_an_error_that_names_the_nearest() -> None:
    status, shown = invoke("run", "--clients", "java-4.9.6")
    assert status == 1
    assert "no client named java-4.9.6; did you mean java-4.9.7?" in shown


def test_a_target_and_servers_exclude_each_other() -> None:
    status, shown = invoke("run", "--target", "localhost:9876", "--servers", "lanemq")
    assert status == 2
    assert "leave --servers out" in shown


@pytest.mark.parametrize("more", [[], ["--report", "x.json"], ["--servers", "lanemq"]])
def test_cells_are_added_to_a_report_of_one_server(more: list[str]) -> None:
    status, shown = invoke("run", "--add", *more)
    assert status == 2
    assert "--add needs --report, and one of --servers" in shown


@pytest.mark.parametrize(("outcome", "status"), [("passed", 0), ("failed", 1)])
def test_the_exit_status_says_whether_a_cell_failed(
    outcome: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run_matrix(*_: object, **__: object) -> list[CellResult]:
        return [CellResult("python", "lanemq", "pull", outcome, "", 0.5)]  # type: ignore[arg-type]

    monkeypatch.setattr("lanemq.compat.cli.run_matrix", run_matrix)
    report = tmp_path / "report.json"
    assert invoke("run", "--report", str(report))[0] == status
    assert json.loads(report.read_text())["cells"][0]["outcome"] == outcome
