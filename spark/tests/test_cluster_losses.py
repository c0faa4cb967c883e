"""Jobs on a standalone cluster that loses an executor, or a worker, in the middle of them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lanemq.testing import open_test_server
from lanemq.testkit.spark import require_packages
from lanemq.testkit.spark_cluster import standalone_cluster

require_packages()

from lanemq.testkit.spark_losses import ALL  # noqa: E402 - after the requirement

pytestmark = [pytest.mark.slow, pytest.mark.peers]


def test_jobs_lose_an_executor_and_a_worker_and_their_results_are_whole(
    spark_home: Path, spark_apart: dict[str, str], tmp_path: Path
) -> None:
    for name in ("cluster", "work"):
        (tmp_path / name).mkdir()
    with (
        open_test_server() as server,
        standalone_cluster(spark_home, spark_apart, tmp_path / "cluster") as master,
    ):
        command = [master, str(tmp_path / "work"), server.name_servers]
        done = subprocess.run(
            [sys.executable, "-m", "lanemq.testkit.spark_losses", *command],
            env=spark_apart,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    found: list[dict[str, Any]] = [
        json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")
    ]
    assert [f"{one['job']}/{one['loss']}" for one in found] == ALL, done.stdout + done.stderr
    assert [one for one in found if one["wrong"] or not one["lost"]] == []
    assert done.returncode == 0, done.stderr
