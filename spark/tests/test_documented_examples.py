"""The examples of docs/spark.md run as they stand, on a recorded store and a server for tests."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lanemq.sdk import Message
from lanemq.sdk.blocking import open_producer
from lanemq.testing import open_test_server
from lanemq.testkit.spark import PATIENT, require_packages

require_packages("deltalake")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]
PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
BLOCKS = [
    block
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    if "spark://" not in block  # test_standalone_cluster.py runs that one
]


def test_the_examples_run(
    spark: "SparkSession",
    recorded_stores: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(BLOCKS) == 7
    store = str(recorded_stores / "file-5.3.3-clean")
    with open_test_server() as server:
        with open_producer("shop", name_servers=server.name_servers, options=PATIENT) as producer:
            for number in range(5):
                message = Message(topic="orders", body=b"%d" % number, tags="paid")
                producer.send(message)
        names: dict[str, Any] = {"spark": spark}
        for block in BLOCKS:
            code = block.replace("/data/store", store)
            for name in ("archive", "restored", "lake"):
                code = code.replace(f"/data/{name}", str(tmp_path / name))
            code = code.replace("127.0.0.1:9876", server.name_servers)
            exec(compile(code, "docs/spark.md", "exec"), names)
        spark.streams.removeListener(names["lag"])
    printed = capsys.readouterr().out
    (scanned,) = re.findall(r"```text\n(rocketmq-store: .*?)```", PAGE, re.DOTALL)
    assert scanned in printed
    assert "|paid|    5|" in printed
    assert "sc_orders|" in printed
    assert "|store|file|filePosition|" in printed
    assert "messages in commit 1\n0 more\n" in printed
    assert "messages restored" in printed
    archived, in_table = (
        re.search(rf"(\d+) {what}", printed) for what in ("messages in commit", "rows of a table")
    )
    assert archived is not None
    assert in_table is not None
    assert archived[1] == in_table[1]
