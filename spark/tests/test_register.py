"""The Python of Spark's workers is chosen on this machine, and named for others."""

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from lanemq.spark._register import PYTHON, _choose_python


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Python is named, and none that a test sets stays."""
    monkeypatch.setenv(PYTHON, "")
    monkeypatch.delenv(PYTHON)


def session(**conf: str) -> Any:  # noqa: ANN401 - as much of a session as is looked at
    names = {name.replace("_", "."): value for name, value in conf.items()}
    context = SimpleNamespace(pythonExec="python3")
    return SimpleNamespace(conf=names, sparkContext=context)


def test_workers_on_this_machine_run_this_python(caplog: pytest.LogCaptureFixture) -> None:
    spark = session(spark_master="local[2]")
    _choose_python(spark)
    assert os.environ[PYTHON] == spark.sparkContext.pythonExec == sys.executable
    assert not caplog.messages


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443"])
def test_what_to_set_for_other_workers_is_said(
    master: str, caplog: pytest.LogCaptureFixture
) -> None:
    spark = session(spark_master=master)
    _choose_python(spark)
    assert PYTHON not in os.environ
    assert spark.sparkContext.pythonExec == "python3"
    (message,) = caplog.messages
    assert message.startswith(f"PYSPARK_PYTHON is not set, so the executors of {master} run")
    assert "lanemq.spark.jobs.doctor(spark)" in message


def test_a_python_that_is_named_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _choose_python(session(spark_master="yarn", spark_pyspark_python="/there"))
    _choose_python(session())  # of Spark Connect
    monkeypatch.setenv(PYTHON, "/here")
    for master in ("local", "yarn"):
        _choose_python(session(spark_master=master))
    assert os.environ[PYTHON] == "/here"
    assert not caplog.messages
