"""Examples and documented code run as they stand, against `lanemq serve`."""

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from lanemq.sdk import Message, blocking
from lanemq.testkit.servers import PATIENT_PRODUCER, patient

slow = pytest.mark.slow  # each starts Python again; together a third of a minute

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "quickstart.py": "all ten are there",
    "batch_send.py": "200 messages stored in queue",
    "broadcast.py": "both have everything",
    "orderly.py": "every order went step by step",
    "key_ordered.py": "two of them kept every customer's order",
    "staged.py": "{'laptop': 10, 'tablet': 20, 'nothing': 10}",
    "lite_pull.py": "5 messages of queue 0 again",
    "iterate.py": "20 messages are done with",
    "sql_filter.py": "delivered: order 1, order 3",
    "pause_and_resize.py": "paused: 0 of 40 done",
    "ordered_send.py": "every order in order",
    "delay.py": "all of them are there",
    "blocking.py": "all ten are done, and read",
    "file_source.py": "10 lines are sent, then 1 more",
    "table_source.py": "4 changes are sent, then 0 more",
    "pipeline.py": "10 lines have come through both steps",
    "asyncio_web.py": "all ten orders are done",
    # and, by compat_tests/tests/test_sdk_producer.py, at Apache brokers
    "transaction.py": "received '100 euros'",
    "request_reply.py": "the sum of 20 22 is 42",
}
UNTIL_STOPPED = {"service.py"}
A_SECOND = "trio.sleep(1)\n"
UNTIL_IT_MAY = """trio.sleep(0.01)
        while not os.path.exists(message.body):
            await trio.sleep(0.01)
"""
"""The work of the service, instead: it ends when the test has made a file of the message's name."""
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "sdk.md").read_text(), re.DOTALL)
FOR_A_MOMENT = "trio.sleep(2)"
SERVICES = {
    "my-consumers": "Orders Created b'a new order' 0",
    "my-bargain-hunters": "delivered b'120 euro' 120",
}
"""The output of the blocks that run as long as ``FOR_A_MOMENT``, by a group in them."""
AT_APACHE_TOO = re.findall(
    r"```python apache\n(.*?)```", (ROOT / "docs" / "sdk.md").read_text(), re.DOTALL
)
README_BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def run(*arguments: str, home: Path, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, *arguments],
        env={"HOME": str(home), "PATH": "", **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def run_until(says: str, path: Path) -> str:
    """Run a service until it has said something; what it has said up to then."""
    command = [sys.executable, "-u", str(path)]
    with subprocess.Popen(
        command,
        env={"HOME": str(path.parent), "PATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as service:
        assert service.stdout is not None
        said = ""
        while says not in said:
            line = service.stdout.readline()
            assert line, said
            said += line
        service.terminate()
    return said


def line_of(output: IO[str], begin: str) -> str:
    """The next line that begins so; an empty one where none does."""
    return next((line for line in output if line.startswith(begin)), "")


def test_every_example_of_the_sdk_is_run() -> None:
    mine = {
        path.name
        for path in (ROOT / "examples").glob("*.py")
        if "lanemq.sdk" in path.read_text() and "lanemq.sdk.admin" not in path.read_text()
    }
    assert mine == EXAMPLES.keys() | UNTIL_STOPPED


@slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_it_says(name: str, name_server: str, tmp_path: Path) -> None:
    servers = patient(name_server)
    path = str(ROOT / "examples" / name)
    output = run(path, servers, home=tmp_path, LANEMQ_URL=servers)
    assert EXAMPLES[name] in output


@slow
def test_the_service_finishes_what_it_does_when_it_gets_a_sigterm(
    name_server: str, tmp_path: Path
) -> None:
    text = (ROOT / "examples" / "service.py").read_text()
    assert text.count(A_SECOND) == 1
    path = tmp_path / "service.py"
    path.write_text(text.replace(A_SECOND, UNTIL_IT_MAY))
    command = [sys.executable, str(path), patient(name_server)]
    with blocking.open_producer(
        "service-test", name_servers=name_server, options=PATIENT_PRODUCER
    ) as producer:
        for body in ("one", "two"):  # the second run is not given the first one's message again
            producer.send(Message(topic="ServiceTopic", body=body.encode()))
            with subprocess.Popen(
                command,
                cwd=tmp_path,
                env={"HOME": str(tmp_path)},
                stdout=subprocess.PIPE,
                text=True,
            ) as service:
                assert service.stdout is not None
                assert line_of(service.stdout, "working on") == f"working on {body!r}\n"
                service.send_signal(signal.SIGTERM)
                assert line_of(service.stdout, "SIGTERM") == "SIGTERM: no new messages\n"
                (tmp_path / body).touch()
                rest = service.stdout.read().splitlines()
            assert service.returncode == 0
            assert rest == [f"done with {body!r}", "stopped"]


@slow
def test_the_documented_code_runs_from_top_to_bottom(name_server: str, tmp_path: Path) -> None:
    assert len(BLOCKS) == 13
    outputs = []
    for number, block in enumerate(BLOCKS):
        path = tmp_path / f"block_{number}.py"
        text = block.replace("127.0.0.1:9876", patient(name_server))
        path.write_text(text.replace(FOR_A_MOMENT, "trio.sleep_forever()"))
        if FOR_A_MOMENT in block:
            (says,) = (says for group, says in SERVICES.items() if group in block)
            outputs.append(run_until(says, path))
        else:
            outputs.append(run(str(path), home=tmp_path))
    sent, refused, ordered, batched, typed, watched, *services, polled, iterated, operated = (
        outputs[:-2]
    )
    in_threads, on_asyncio = outputs[-2:]
    assert len(services) == len(SERVICES)
    assert "SendStatus.OK" in sent
    assert "not sent: the body has 5242880 bytes" in refused
    assert "offset 3 after all the others" in ordered
    assert "3000 messages in 4 batches" in ordered
    assert "stored at offset" in batched
    assert "Order(number=1, euros=950.0) shop" in typed
    assert "ms SendStatus.OK" in watched
    assert "MessageQueue(topic='Orders'" in polled
    assert "b'a new order'" in iterated
    assert "shop: b'in a namespace'" in operated
    assert "stored: OK" in in_threads
    assert "in a thread: b'from a thread'" in in_threads
    assert "read b'from a thread'" in in_threads
    assert "on the loop: b'from asyncio'" in on_asyncio
    assert "not stored in time" in on_asyncio


@slow
def test_the_code_that_is_shown_at_apache_runs_here(name_server: str, tmp_path: Path) -> None:
    said = ["TransactionState.COMMIT", "b'A QUESTION'"]
    for block, says in zip(AT_APACHE_TOO, said, strict=True):
        path = tmp_path / "block.py"
        path.write_text(block.replace("127.0.0.1:9876", patient(name_server)))
        assert says in run(str(path), home=tmp_path)


@slow
def test_the_code_of_the_readme_runs(name_server: str, tmp_path: Path) -> None:
    assert len(README_BLOCKS) == 1
    path = tmp_path / "readme.py"
    path.write_text(README_BLOCKS[0].replace("127.0.0.1:9876", patient(name_server)))
    output = run(str(path), home=tmp_path)
    assert "sent: OK" in output
    assert "received: Hello greeting b'world'" in output
