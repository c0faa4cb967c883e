"""The examples of docs/spark.md run as they stand, on a recorded store and a server for tests."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lanemq.sdk import Message
from lanemq.sdk.blocking import open_producer
from lanemq.testing import open_test_server
from lanemq.testkit.spark import PATIENT, require_packages

require_packages()

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]
PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_run(
    spark: "SparkSession", recorded_stores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(BLOCKS) == 3
    store = str(recorded_stores / "file-5.3.3-clean")
    with open_test_server() as server:
        with open_producer("shop", name_servers=server.name_servers, options=PATIENT) as producer:
            for number in range(5):
                message = Message(topic="orders", body=b"%d" % number, tags="paid")
                producer.send(message)
        names = {"spark": spark}
        for block in BLOCKS:
            code = block.replace("/data/store", store)
            code = code.replace("127.0.0.1:9876", server.name_servers)
            exec(compile(code, "docs/spark.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "|paid|    5|" in printed
    assert "sc_orders|" in printed
    assert "|store|file|filePosition|" in printed
