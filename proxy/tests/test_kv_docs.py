"""The blocks of docs/kv.md run as they are."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from lanemq.sdk.blocking.kv import open_kv_store
from lanemq.sdk.kv.cli import kv
from lanemq.testing import open_test_server

PAGE = Path(__file__).parents[2] / "docs" / "kv.md"
COMMANDS = re.findall(
    r"^lanemq kv (.*?)(?: +#.*)?$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
)
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def names_of(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    return names


def greeting(name_servers: str) -> tuple[bytes, int]:
    with open_kv_store(name_servers=name_servers) as store:
        entry = store.get(b"greeting")
    assert entry is not None
    return entry.value, entry.version


def test_the_blocks_run() -> None:
    first, second, positions, blocking = BLOCKS
    with open_test_server() as server:
        main = names_of(first)["main"]
        trio.run(main, server.name_servers)
        assert greeting(server.name_servers) == (b"good day", 2), "one put, and one change of it"
        trio.run(main, server.name_servers)
        assert greeting(server.name_servers) == (b"good day", 4), "a newcomer runs it twice"
        trio.run(names_of(second)["worker"], server.name_servers)
        trio.run(names_of(positions)["step"], server.name_servers)
        assert [one.body for one in server.messages("Shouted")] == [b"HELLO"]
        names_of(blocking)["main"](server.name_servers)


def test_the_commands_run_after_the_blocks_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = BLOCKS
    begin = next(n for n, command in enumerate(COMMANDS) if command.startswith("put farewell"))
    commands = [shlex.split(command) for command in COMMANDS[begin : begin + 6]]
    assert [words[0] for words in commands] == ["put", "get", "cas", "delete", "scan", "scan"]
    printed = [
        *("version 1\n", "goodbye\n", "version 2\n", "deleted version 2\n"),
        *("stock/apples 9\n", "stock/apples 9\n"),
    ]
    monkeypatch.chdir(tmp_path)
    with open_test_server() as server:
        monkeypatch.setenv("NAMESRV_ADDR", server.name_servers)
        for _ in range(2):
            trio.run(names_of(first)["main"], server.name_servers)
            for words, text in zip(commands, printed, strict=True):
                done = CliRunner().invoke(kv, words)
                assert (done.exit_code, done.stdout) == (0, text), (words, done.output)
