"""The store that a start chooses by itself is this user's own."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-c", "from lanemq.proxy.cli import main; main()")


@pytest.mark.parametrize("command", ["serve", "broker"])
def test_a_link_at_the_default_store_is_refused(command: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "lanemq-data").symlink_to(other)
    done = subprocess.run(
        [*COMMAND, command, "--port", "0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "lanemq-data: it is a link or no directory: remove it, or give" in done.stderr
    assert list(other.iterdir()) == []


def test_the_default_store_is_made_for_its_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lanemq.proxy.cli._store_kinds import claim_default_store

    monkeypatch.chdir(tmp_path)
    claim_default_store(Path("lanemq-data"), is_given=False)
    assert stat.S_IMODE(Path("lanemq-data").stat().st_mode) == 0o700


def test_a_store_that_is_given_may_be_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lanemq.proxy.cli._store_kinds import claim_default_store

    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk").mkdir()
    (tmp_path / "lanemq-data").symlink_to(tmp_path / "disk")
    claim_default_store(Path("lanemq-data"), is_given=True)
    claim_default_store(tmp_path / "lanemq-data", is_given=False)
