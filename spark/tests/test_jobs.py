"""Jobs from the command line and by spark-submit; other tools read what they made."""

import base64
import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lanemq.testkit.spark import require_packages

require_packages()

from pyarrow import dataset  # noqa: E402

import lanemq.spark  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.peers]

STORE = "file-5.3.3-clean"
MAIN = Path(lanemq.spark.__file__).with_name("__main__.py")


def run(
    environment: dict[str, str], *command: str | Path, code: int = 0
) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_an_export_is_what_the_broker_reported_and_pyarrow_reads_it(
    spark_apart: dict[str, str],
    recorded_stores: Path,
    tmp_path: Path,
    expected_of: Callable[[str], dict[str, Any]],
) -> None:
    target = tmp_path / "out"
    done = run(
        spark_apart, sys.executable, MAIN,
        "export", recorded_stores / STORE, target, "--json", "--master", "local[2]",
    )  # fmt: skip
    report = json.loads(done.stdout)
    expected = expected_of(STORE)
    assert report["rows"] == expected["commitLogWalk"]["records"]
    assert report["damaged"] == 0
    read = dataset.dataset(target, partitioning="hive").to_table().to_pylist()
    counts = Counter(str(row["topic"]) for row in read)
    assert dict(counts) == report["topics"]
    for topic, described in expected["topics"].items():
        assert counts[topic] == sum(queue["read"] for queue in described["queues"].values())
    samples = {(row["topic"], row["queue"], row["queueOffset"]): row for row in read}
    for sample in expected["sample"]:
        row = samples[sample["topic"], sample["queueId"], sample["queueOffset"]]
        assert dict(row["properties"]) == sample["properties"]
        assert len(row["body"]) == sample["bodyLength"]
        assert str(row["day"]) == row["storeTimestamp"].date().isoformat()


def test_spark_submit_runs_it_and_a_target_that_is_there_is_refused(
    spark_apart: dict[str, str],
    recorded_stores: Path,
    tmp_path: Path,
    expected_of: Callable[[str], dict[str, Any]],
) -> None:
    submit = Path(sys.executable).with_name("spark-submit")
    target = tmp_path / "out"
    done = run(
        spark_apart, submit, "--master", "local[2]", MAIN,
        "export", recorded_stores / STORE, target, "--format", "json", "--topic", "sc_orders",
    )  # fmt: skip
    assert "sc_orders" in done.stdout
    assert [path.name for path in target.glob("topic=*")] == ["topic=sc_orders"]
    lines = [
        (path.parent.name, json.loads(line))
        for path in target.glob("topic=*/day=*/*.json")
        for line in path.read_text().splitlines()
    ]
    expected = expected_of(STORE)
    orders = expected["topics"]["sc_orders"]["queues"]
    assert len(lines) == sum(queue["read"] for queue in orders.values())
    found = {(row["queue"], row["queueOffset"]): (day, row) for day, row in lines}
    samples = [one for one in expected["sample"] if one["topic"] == "sc_orders"]
    assert samples
    for sample in samples:
        day, row = found[sample["queueId"], sample["queueOffset"]]
        assert day == f"day={row['storeTimestamp'][:10]}"
        assert row["properties"] == sample["properties"]
        body = base64.b64decode(row["body"])
        assert hashlib.sha256(body).hexdigest() == sample["bodySha256"]
    again = run(
        spark_apart, sys.executable, MAIN, "export", recorded_stores / STORE, target, code=2
    )
    assert "already exists" in again.stderr
    assert "Traceback" not in again.stderr
