"""The blocks of docs/kv.md run as they are."""

import re
from pathlib import Path
from typing import Any

import trio

from lanemq.sdk.blocking.kv import open_kv_store
from lanemq.testing import open_test_server

PAGE = Path(__file__).parents[2] / "docs" / "kv.md"
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
