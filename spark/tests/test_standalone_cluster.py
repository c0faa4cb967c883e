"""A standalone cluster of Spark with two workers: jobs run there, or say why they cannot."""

import json
import os
import re
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanemq.sdk import Message
from lanemq.sdk.blocking import open_producer
from lanemq.testing import open_test_server
from lanemq.testkit.reading_time import slowness
from lanemq.testkit.spark import PATIENT, kill_session, require_packages
from lanemq.testkit.spark_cluster import READY_S, standalone_cluster

require_packages()

from lanemq.spark.cli._command import _told  # noqa: E402 - after the requirement
from lanemq.spark.cli._workers import Shortage  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.peers]
PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
SENT = 50


@pytest.fixture(scope="module")
def master(
    spark_home: Path, spark_apart: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    folder = tmp_path_factory.mktemp("standalone")
    with standalone_cluster(spark_home, spark_apart, folder) as url:
        yield url


def lanemq_spark(*arguments: str, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "lanemq.spark", *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_job_runs_on_the_workers(
    master: str, spark_apart: dict[str, str], recorded_stores: Path
) -> None:
    found = lanemq_spark("doctor", "--master", master, "--json", env=spark_apart)
    assert found.returncode == 0, found.stderr
    (worker,) = json.loads(found.stdout)  # both workers are on this host
    assert worker["python"] == sys.executable
    assert worker["problems"] == []
    assert {"lanemq", "pyarrow", "pyspark"} <= worker["packages"].keys()
    store = str(recorded_stores / "file-5.3.3-clean")
    verified = lanemq_spark("verify", store, "--master", master, "--json", env=spark_apart)
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)[0]["records"] == 1576


def test_workers_without_packages_are_named_before_a_job_begins(
    master: str, spark_apart: dict[str, str], recorded_stores: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    bare = str(tmp_path / "bare" / "bin" / "python")
    env = {**spark_apart, "PYSPARK_PYTHON": bare}
    store = str(recorded_stores / "file-5.3.3-clean")
    gone = lanemq_spark("verify", store, "--master", master, env={**env, "PYSPARK_PYTHON": "/gone"})
    assert gone.returncode == 2
    assert gone.stderr.endswith(
        "Error: Spark's workers have no /gone: set PYSPARK_PYTHON to a Python with lanemq[spark]"
        " that is there on each of them\n"
    )
    for command in (["doctor"], ["verify", store]):
        found = lanemq_spark(*command, "--master", master, env=env)
        assert found.returncode in (1, 2)
        told = found.stdout + found.stderr
        assert "install lanemq[spark]" in told
        assert "Traceback" not in told
        assert "No module named" in told or "has no" in told


def test_a_job_that_gets_no_executor_says_so(
    spark_home: Path, spark_apart: dict[str, str], recorded_stores: Path, tmp_path: Path
) -> None:
    store = str(recorded_stores / "file-5.3.3-clean")
    with standalone_cluster(spark_home, spark_apart, tmp_path, workers=0) as master:
        command = ["-m", "lanemq.spark", "count", store, "--master", master]
        with subprocess.Popen(
            [sys.executable, *command],
            env=spark_apart,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as job:
            end = threading.Timer(READY_S * slowness(), kill_session, (job,))
            end.start()
            found = next((line for line in job.stderr or () if b"the job waits" in line), b"")
            end.cancel()
            end.join()
            kill_session(job)
    assert f"{master} has given it no executor for 15 s".encode() in found


def test_a_shortage_of_executors_is_reported_once_while_it_lasts() -> None:
    shortage = Shortage()
    looks = [
        (0, 0, 0),  # no job
        *((at, 0, 1) for at in (10, 24, 25, 60)),
        (61, 1, 1),  # an executor has come
        *((at, 0, 1) for at in (62, 76)),
        (77, 0, 0),  # the job is over
        *((at, 0, 2) for at in (78, 94)),
    ]
    reported = {
        at: waited_s
        for at, executors, jobs in looks
        if (waited_s := shortage.look(at, executors=executors, jobs=jobs)) is not None
    }
    assert reported == {25: 15.0, 94: 16.0}


def test_a_program_runs_in_an_environment_that_is_not_activated(
    spark_apart: dict[str, str], recorded_stores: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "bare", with_pip=False)  # the python3 of PATH, without packages
    env = {name: value for name, value in spark_apart.items() if name != "PYSPARK_PYTHON"}
    env["PATH"] = os.pathsep.join([str(tmp_path / "bare" / "bin"), env["PATH"]])
    session = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    store = recorded_stores / "file-5.3.3-clean"
    program = tmp_path / "x.py"
    program.write_text(
        session.replace(".builder", ".builder.master('local[1]')")
        + f"print('rows', spark.read.format('rocketmq-store').load({str(store)!r}).count())\n"
    )
    assert "rows 1576\n" in _ran([sys.executable, str(program)], env)


def test_the_last_line_of_a_cause_is_told() -> None:
    text = (
        "An exception was thrown from the Python worker. Please see the stack trace below.\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in read\n'
        "OSError: [Errno 5] Input/output error\n\n\tat org.apache.spark.X(Y.scala:1)\n"
    )
    assert _told(text) == "a task failed: OSError: [Errno 5] Input/output error"
    missing = text.replace("OSError: [Errno 5] Input/output error", "No module named 'pyarrow'")
    assert "has no pyarrow: install lanemq[spark] there" in _told(missing)
    assert os.linesep not in _told(text)
    called = (
        "An error occurred while calling z:org.apache.spark.X.\n"
        ": org.apache.spark.SparkException: Job aborted\n\tat org.apache.spark.X(Y.scala:1)\n"
    )
    assert _told(called + "Caused by: java.io.IOException: disk full\n") == (
        "a task failed: java.io.IOException: disk full"
    )
    assert _told(called.splitlines()[0]) == called.splitlines()[0]


def test_the_page_is_enough_to_archive_a_topic_restore_it_and_read_both(
    master: str, spark_apart: dict[str, str], tmp_path: Path
) -> None:
    begin, end = (PAGE.index(mark) for mark in ("**A topic as a table, and back**", "**YARN"))
    shell, notebook = re.findall(r"```(?:sh|python)\n(.*?)```", PAGE[begin:end], re.DOTALL)
    with open_test_server() as server:
        with open_producer("shop", name_servers=server.name_servers, options=PATIENT) as producer:
            for number in range(SENT):
                producer.send(Message(topic="orders", body=b"%d" % number, tags="paid"))
        changes = {"127.0.0.1:9876": server.name_servers, "/shared": str(tmp_path)}
        changes["spark://HOST:7077"] = master
        for old, new in changes.items():
            shell, notebook = shell.replace(old, new), notebook.replace(old, new)
        own = os.pathsep.join([str(Path(sys.executable).parent), spark_apart["PATH"]])
        env = {**spark_apart, "PATH": own}
        lines = shell.splitlines()
        done = [_ran(["bash", "-c", line], env) for line in lines]
        assert [line.split()[2] for line in lines] == ["archive", "count", "restore", "compare"]
    assert f"{SENT} messages" in done[0]
    assert re.search(rf"orders\D+{SENT}\b", done[1])
    assert re.search(rf"\b{SENT}\b", done[2])
    printed = _ran([sys.executable, "-c", notebook], env)
    assert re.search(rf"\|paid\|\s+{SENT}\|", printed)
    counts = re.findall(r"\|orders\|\s+\d+\|\s+(\d+)\|", printed)
    assert sum(map(int, counts)) == SENT


def _ran(command: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
