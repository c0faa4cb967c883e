"""Nothing becomes as long as a number that a peer writes."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

import lanemq.wire
from lanemq.wire import INT_MAX, TOPIC_QUEUES_MAX, queue_ids
from lanemq.wire.bodies import QueueData

ROOT: Final = Path(lanemq.wire.__file__).parents[3]
PARTS: Final = ("wire", "sdk", "proxy", "spark")
FROM_PEERS: Final = re.compile(
    r"(queue_nums|queue_count|queues_nums|max_num|max_msg_nums|batch_size|partition_count)$"
)
BUILDERS: Final = frozenset({"range", "bytes", "bytearray", "repeat"})


def names_in(node: ast.AST) -> set[str]:
    return {
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute | ast.Name)
    }


@pytest.mark.parametrize("count", [-INT_MAX, -1, 0, 1, TOPIC_QUEUES_MAX, 1_000_000, 2_000_000_000])
def test_the_ids_of_queues_are_so_many_at_most(count: int) -> None:
    expected = min(max(count, 0), TOPIC_QUEUES_MAX)
    data = QueueData("b", read_queue_nums=count, write_queue_nums=count)
    for ids in (queue_ids(count), data.read_queues, data.write_queues):
        assert list(ids) == list(range(expected))


def test_nothing_is_built_over_a_number_of_a_peer() -> None:
    """They go through ``queue_ids`` or another bound."""
    files = [file for part in PARTS for file in (ROOT / part / "lanemq").rglob("*.py")]
    assert len(files) > 400
    found = [
        f"{file.relative_to(ROOT)}:{call.lineno}"
        for file in files
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in BUILDERS
        and call.args
        and not any(isinstance(argument, ast.Call) for argument in call.args)  # as min(...)
        and any(FROM_PEERS.search(name) for argument in call.args for name in names_in(argument))
    ]
    assert not found, found
