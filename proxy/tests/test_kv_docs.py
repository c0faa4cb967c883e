"""The blocks of docs/kv.md run as they are."""

import re
from pathlib import Path
from typing import Any

import trio

from lanemq.testing import open_test_server

PAGE = Path(__file__).parents[2] / "docs" / "kv.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def names_of(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_blocks_run() -> None:
    first, second, positions, blocking = BLOCKS
    with open_test_server() as server:
        trio.run(names_of(first)["main"], server.name_servers)
        trio.run(names_of(second)["worker"], server.name_servers)
        trio.run(names_of(positions)["step"], server.name_servers)
        assert [one.body for one in server.messages("Shouted")] == [b"HELLO"]
        names_of(blocking)["main"](server.name_servers)
