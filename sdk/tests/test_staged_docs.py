"""docs/staged.md runs as it stands, against `lanemq serve`."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lanemq.sdk.admin.cli import admin
from lanemq.testkit.servers import patient

pytestmark = pytest.mark.slow
DOCS = (Path(__file__).parents[2] / "docs" / "staged.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCS, re.DOTALL)


def test_the_documented_code_runs(name_server: str, tmp_path: Path) -> None:
    outputs = []
    for number, block in enumerate(blocks("python")):
        path = tmp_path / f"block_{number}.py"
        path.write_text(block.replace("127.0.0.1:9876", patient(name_server)))
        result = subprocess.run(
            [sys.executable, str(path)],
            env={"HOME": str(tmp_path), "PATH": ""},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert result.returncode == 0, result.stderr
        outputs.append(result.stdout)
    by_key = "{'ada': [1, 3, 5], 'bob': [0, 2, 4]}\n"
    assert outputs == ["[0, 1] [2, 3, 4] [5, 6]\n", "", "", "StageCounter(0)\n", by_key]


def test_the_documented_command_runs(name_server: str) -> None:
    (command,) = blocks("sh")
    words = shlex.split(command.replace("127.0.0.1:9876", name_server))
    assert words[:2] == ["lanemq", "admin"]
    result = CliRunner().invoke(admin, words[2:])
    assert result.exit_code == 0, result.output
    assert "stages of each queue: 10, 20, 70" in result.output
    shown = CliRunner().invoke(admin, [*words[2:-1], "10,x"])
    assert shown.exit_code != 0
    assert "--stages" in shown.output
