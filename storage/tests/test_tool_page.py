"""The page about the store directory: its commands print what it says."""

import re
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from lanemq.storage.cli import store

PAGE = Path(__file__).parents[2] / "docs/store.md"
VARYING = (
    (re.compile(r"in \d+\.\d s(, \d+ MB/s, [\d,]+ records/s)?"), "in 0.0 s"),
    (re.compile(r"repair-\d{8}T\d{6}"), "repair-TIME"),
    (re.compile(r"^disk .*$", re.M), "disk SIZES"),  # where holes stay holes they are smaller
)


def sessions() -> Iterator[tuple[str, str]]:
    """Each command of the page, and what is printed below it."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        for session in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = session.partition("\n")
            yield command, steady(printed)


def steady(text: str) -> str:
    """The text without what is different each time."""
    for pattern, fixed in VARYING:
        text = pattern.sub(fixed, text)
    return text


def run(command: str, directory: Path) -> str:
    words = shlex.split(command)
    if words[:2] == ["rm", "-r"]:
        shutil.rmtree(directory / words[2])
        return ""
    assert words[:2] == ["lanemq", "store"], command
    result = CliRunner().invoke(store, words[2:])
    assert result.exit_code in (0, 1), (command, result.output)
    return result.output


@pytest.mark.slow
def test_every_command_of_the_page_prints_what_is_below_it(
    unpacked_stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in unpacked_stores.iterdir():
        shutil.copytree(path, tmp_path / path.name)
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        try:
            found = [(command, steady(run(command, tmp_path))) for command, _ in sessions()]
        finally:
            patch.delenv("TZ")
            time.tzset()
    assert len(found) > 10
    assert found == list(sessions())


def test_every_command_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, command in store.commands.items():
        assert f"lanemq store {name} DIR" in page, name
        for parameter in command.params:
            for option in parameter.opts:
                shown = option.startswith("--") and option not in ("--json", "--help")
                assert not shown or option in page, (name, option)
