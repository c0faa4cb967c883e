"""A dump has one line for each message, whatever the sender wrote into it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from lanemq.storage import StoreConfig, open_store
from lanemq.storage.cli import store as commands
from lanemq.testkit.storage.stores import MakeMessage

FORGED = "evil\nT 0:7 position 0, forged\r\x1b[2J\x9b31m\u202e\u2028\x1c\x85\x07"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(commands, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


@pytest.mark.parametrize("form", [[], ["--body"]])
@pytest.mark.parametrize("body", [FORGED, "first line\nT 0:7 position 0, forged\n\ttabs"])
async def test_no_line_is_forged(
    tmp_path: Path, make_message: MakeMessage, form: list[str], body: str
) -> None:
    root = tmp_path / "store"
    async with open_store(StoreConfig(root=root, commit_log_file_bytes=1 << 16)) as store:
        store.put(make_message(body.encode(), tags=FORGED, keys=FORGED, unique_key=FORGED))
        store.commit()
    for chosen in (["-t", "T"], ["--from-log"]):
        output = run("dump", str(root), *chosen, *form)
        lines = [line for line in output.split("\n") if line]
        assert all(line.isprintable() for line in lines)
        assert sum(line.startswith("T 0:") for line in lines) == 1
        assert all(line.startswith(("T 0:0 ", "    ", "1 message")) for line in lines), lines
        value = json.loads(run("dump", str(root), *chosen, "--json", "--body"))
        assert value["tags"] == FORGED  # exact
