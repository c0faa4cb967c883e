"""An installation without extras has the SDK and the wire; the rest says what it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, ok: bool = True) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert (result.returncode == 0) is ok, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment's ``bin`` with nothing but ``pip install lanemq`` in it."""
    home = tmp_path_factory.mktemp("bare")
    run(sys.executable, "-m", "venv", home)
    pip = (home / "bin" / "python", "-m", "pip", "install", "--quiet")
    run(*pip, "--constraint", ROOT / "constraints.txt", ROOT)
    return home / "bin"


@pytest.mark.slow
def test_the_sdk_and_the_wire_are_there(bare: Path) -> None:
    code = "import lanemq.sdk, lanemq.wire; print(lanemq.wire.tags_code('T'))"
    assert run(bare / "python", "-W", "error", "-c", code) == "84\n"


@pytest.mark.slow
def test_the_command_line_says_how_to_get_it(bare: Path) -> None:
    assert "pip install 'lanemq[server]'" in run(bare / "lanemq", "serve", ok=False)
    says = run(bare / "lanemq-compat", "list", ok=False)
    assert "pip install 'lanemq[compat]'" in says
    assert "Traceback" not in says


@pytest.mark.slow
def test_sources_that_the_harness_builds_are_in_the_package(bare: Path) -> None:
    code = "from importlib.resources import files; print(*files('lanemq.compat').rglob('*.*'))"
    printed = run(bare / "python", "-c", code)
    for name in ("Driver.java", "driver.js", "main.go", "Shell.java", "report.html.j2"):
        assert name in printed


@pytest.mark.slow
def test_the_fakes_of_our_own_tests_are_not_in_the_package(bare: Path) -> None:
    code = "from importlib.util import find_spec; print(find_spec('lanemq.testkit'))"
    assert run(bare / "python", "-c", code) == "None\n"


@pytest.mark.slow
def test_a_server_for_tests_is_there_with_its_pytest_plugin(bare: Path) -> None:
    code = (
        "from importlib.metadata import entry_points; from lanemq.testing import open_test_server\n"
        "(plugin,) = (one for one in entry_points(group='pytest11') if one.name == 'lanemq')\n"
        "with open_test_server() as server: server.advance(1); print(plugin.value)"
    )
    assert run(bare / "python", "-W", "error", "-c", code) == "lanemq.pytest_plugin\n"
