"""The examples of a connector and of a pipeline, which are killed at any point."""

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lanemq.sdk.blocking.kv import open_kv_store
from lanemq.testing import TestServer, open_test_server

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES = 3000
KILLS = 5
# Their leaders lose their place, and their sends fail, where a machine is busy for a few seconds.
PATIENT = {
    r"ttl_s=\d+": "ttl_s=60",
    r"(open_producer\([^()]*name_servers=NAME_SERVERS)\)": r"\1, send_timeout_s=60)",
}


def patient(name: str, folder: Path) -> Path:
    """A copy of an example that a busy machine may keep waiting for a minute."""
    text = (EXAMPLES / name).read_text()
    for pattern, replacement in PATIENT.items():
        text, count = re.subn(pattern, replacement, text)
        assert count, pattern
    copy = folder / name
    copy.write_text(text)
    return copy


def free(server: TestServer, leader: str) -> None:
    """Let the next one lead at once, though the lock of a killed leader has a minute to live."""
    with open_kv_store(name_servers=server.name_servers) as store:
        store.delete(f"leader/{leader}".encode())


@pytest.mark.slow
def test_a_killed_connector_leaves_no_line_out_and_repeats_at_most_one(tmp_path: Path) -> None:
    rng = random.Random(3)
    path = tmp_path / "lines"
    lines = [b"line %d" % number for number in range(LINES)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    with open_test_server({"defaultTopicQueueNums": "1"}) as server:
        example = patient("file_source.py", tmp_path)
        command = [sys.executable, str(example), server.name_servers, str(path)]
        environment = {**os.environ, "HOME": str(tmp_path)}
        begun = 0
        for _ in range(KILLS):
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
                deadline_s = time.monotonic() + 60
                wanted = begun + rng.randint(1, 150)
                while len(server.messages("FileSourceTopic")) < wanted:
                    assert process.poll() is None
                    assert time.monotonic() < deadline_s
                process.kill()
            free(server, f"file-source {path}")
            begun = len(server.messages("FileSourceTopic"))
        assert begun < LINES, "it was not killed in the middle"
        done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        sent = [message.body for message in server.messages("FileSourceTopic")]
    distinct = [line for at, line in enumerate(sent) if at == 0 or line != sent[at - 1]]
    assert distinct == lines
    assert len(sent) - len(distinct) <= KILLS


def without_repeats(bodies: list[bytes]) -> list[bytes]:
    return [line for at, line in enumerate(bodies) if at == 0 or line != bodies[at - 1]]


@pytest.mark.slow
def test_a_pipeline_whose_steps_are_killed_loses_nothing_and_repeats_at_most_what_was_under_way(
    tmp_path: Path,
) -> None:
    """Source and second step are killed in turn, each in the middle of what the other sends."""
    rng = random.Random(11)
    path = tmp_path / "lines"
    lines = [b"line %d" % number for number in range(LINES)]
    lines[LINES // 2] = b""
    path.write_bytes(b"\n".join(lines) + b"\n")
    topics = {"source": "PipelineLines", "shout": "PipelineShouted"}
    leaders = {"source": f"pipeline-source {path}", "shout": "pipeline-shout"}
    pipeline = patient("pipeline.py", tmp_path)
    with open_test_server() as server:  # with as many queues as topics have by default
        environment = {**os.environ, "HOME": str(tmp_path)}

        def begin(step: str) -> "subprocess.Popen[bytes]":
            file = [str(path)] if step == "source" else []
            command = [sys.executable, str(pipeline), server.name_servers, step, *file]
            return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)

        def kill_soon(step: str) -> None:
            topic = topics[step]
            wanted = len(server.messages(topic)) + rng.randint(1, 120)
            with begin(step) as process:
                deadline_s = time.monotonic() + 60
                while len(server.messages(topic)) < wanted:
                    assert process.poll() is None, process.stderr and process.stderr.read()
                    assert time.monotonic() < deadline_s
                process.kill()
            free(server, leaders[step])

        kill_soon("source")
        with begin("source") as source:  # and goes on while the second step is killed
            for _ in range(KILLS):
                kill_soon("shout")
            source.kill()
        free(server, leaders["source"])
        killed = len(server.messages(topics["shout"]))
        for step in topics:
            with begin(step) as process:
                assert process.wait(180) == 0, process.stderr and process.stderr.read()
        messages = server.messages(topics["source"])
        sent = [message.body for message in messages if message.tags != "end"]
        shouted = [message.body for message in server.messages(topics["shout"])]
    assert killed < LINES, "it was not killed in the middle"
    assert without_repeats(sent) == lines
    assert without_repeats(shouted) == [line.upper() for line in lines]
    assert len(sent) - LINES <= 2, "the source was killed twice"
    assert len(shouted) - len(sent) <= KILLS
