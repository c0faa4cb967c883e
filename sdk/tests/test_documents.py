"""Examples and documented code run as they stand, against `lanemq serve`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each starts Python anew; together a third of a minute

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "quickstart.py": "all ten are there",
    "batch_send.py": "200 messages stored in queue",
    "broadcast.py": "both have everything",
    "orderly.py": "every order went step by step",
    "staged.py": "{'laptop': 10, 'tablet': 20, 'nothing': 10}",
    "lite_pull.py": "5 messages of queue 0 again",
    "iterate.py": "20 messages are done with",
    "sql_filter.py": "delivered: order 1, order 3",
    "pause_and_resize.py": "paused: 0 of 40 done",
    "ordered_send.py": "every order in order",
    "delay.py": "all three are there",
    "blocking.py": "all ten are done, and read",
    "asyncio_web.py": "all ten orders are done",
}
# They need what only Apache brokers have; compat_tests/tests/test_sdk_producer.py runs them.
AGAINST_APACHE = {"transaction.py", "request_reply.py"}
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "sdk.md").read_text(), re.DOTALL)
README_BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def run(*arguments: str, home: Path) -> str:
    result = subprocess.run(
        [sys.executable, *arguments],
        env={"HOME": str(home), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_example_of_the_sdk_is_run() -> None:
    mine = {
        path.name
        for path in (ROOT / "examples").glob("*.py")
        if "lanemq.sdk" in path.read_text() and "lanemq.sdk.admin" not in path.read_text()
    }
    assert mine == EXAMPLES.keys() | AGAINST_APACHE


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_it_says(name: str, name_server: str, tmp_path: Path) -> None:
    output = run(str(ROOT / "examples" / name), name_server, home=tmp_path)
    assert EXAMPLES[name] in output


def test_the_documented_code_runs_from_top_to_bottom(name_server: str, tmp_path: Path) -> None:
    assert len(BLOCKS) == 11
    outputs = []
    for number, block in enumerate(BLOCKS):
        path = tmp_path / f"block_{number}.py"
        path.write_text(block.replace("127.0.0.1:9876", name_server))
        outputs.append(run(str(path), home=tmp_path))
    sent, _, ordered, watched, listened, filtered, polled, iterated, operated, *faces = outputs
    assert "SendStatus.OK" in sent
    assert "offset 3 after all the others" in ordered
    assert "3000 messages in 4 batches" in ordered
    assert "ms SendStatus.OK" in watched
    assert "Orders Created b'a new order' 0" in listened
    assert "delivered b'120 euro' 120" in filtered
    assert "MessageQueue(topic='Orders'" in polled
    assert "b'a new order'" in iterated
    assert "shop: b'in a namespace'" in operated
    in_threads, on_asyncio = faces
    assert "stored: OK" in in_threads
    assert "in a thread: b'from a thread'" in in_threads
    assert "read b'from a thread'" in in_threads
    assert "on the loop: b'from asyncio'" in on_asyncio
    assert "not stored in time" in on_asyncio


def test_the_code_of_the_readme_runs(name_server: str, tmp_path: Path) -> None:
    assert len(README_BLOCKS) == 1
    path = tmp_path / "readme.py"
    path.write_text(README_BLOCKS[0].replace("127.0.0.1:9876", name_server))
    output = run(str(path), home=tmp_path)
    assert "sent: OK" in output
    assert "received: Hello greeting b'world'" in output
