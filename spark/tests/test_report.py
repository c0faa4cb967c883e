"""The report as a browser shows it, against what Apache's broker and lanemq's tools say."""

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lanemq.storage.tools import export_tables, inspect_store
from lanemq.testkit.peers import missing
from lanemq.testkit.spark import require_packages
from lanemq.wire.message import (
    BROKER_STAGE_PREFIX,
    StageRecord,
    decode_message,
    stage_group,
)

require_packages("plotly")

from lanemq.spark.jobs import lag, report  # noqa: E402
from lanemq.spark.records import walk_sizes  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
STORE = "file-5.3.3-clean"
PROBE = """
<script>
addEventListener("load", () => setTimeout(() => {
  const all = selector => [...document.querySelectorAll(selector)]
  document.title = "PROBE" + JSON.stringify({
    titles: all("h2").map(one => one.textContent),
    facts: all("dd").map(one => one.textContent),
    width: innerWidth,
    page: document.documentElement.scrollWidth,
    charts: all(".js-plotly-plot").map(chart => ({
      drawn: chart.querySelectorAll("svg .bars .point path").length,
      bars: chart.data.map(one => ({name: one.name, x: [...one.x], y: [...chart.calcdata[0]].length,
        values: chart.calcdata[chart.data.indexOf(one)].map(point => point.s ?? point.y)})),
    })),
    loaded: performance.getEntriesByType("resource").map(one => one.name),
  })
}, 1000))
</script>
"""


def seen(page: Path, *, width: int) -> dict[str, Any]:
    """The probe's report of the page in a window of a given width in pixels."""
    if CHROMIUM is None:
        missing("there is no Chromium on this machine (Debian: apt-get install chromium)")
    probed = page.with_name(f"probed-{width}.html")
    probed.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    command = [
        CHROMIUM,
        # A browser whose profile another one has open may leave the page to that one.
        f"--user-data-dir={page.with_name('profile')}",
        *("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000"),
        f"--window-size={width},900",
        "--dump-dom",
        probed.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    found = re.search(r"<title>PROBE(.*?)</title>", done.stdout, re.DOTALL)
    assert found is not None, done.stdout[-1000:]
    text = found[1].replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">")
    told: dict[str, Any] = json.loads(text.replace("&amp;", "&"))
    return told


def put_stages(root: Path) -> dict[str, tuple[int, int]]:
    """Give a store records of groups that consume in stages: bar -> finished, and offset."""
    (kept,) = [one.members for one in export_tables(root)[1] if one.name == "consumerOffsets"]
    records = {
        stage_group("painters"): (0, StageRecord(7, 4, settled=True), "painters"),
        stage_group("painters", "gold"): (1, StageRecord(3, 3), "painters<br>gold"),
        stage_group("|painters"): (1, StageRecord(2, 1), "|painters"),
        stage_group("|a|painters"): (2, StageRecord(4, 2), "|a|painters"),
        BROKER_STAGE_PREFIX + "old": (2, StageRecord(30, 10), "old"),
    }
    shown = {}
    for shadow, (queue, record, name) in records.items():
        kept["offsetTable"][f"sc_orders@{shadow}"] = {str(queue): record.pack()}
        kind = " (broker)" if name == "old" else ""
        shown[f"{name}<br>sc_orders {queue}{kind}"] = (record.stage_offset, record.queue_offset)
    kept["offsetTable"][f"sc_orders@{stage_group('moved')}"] = {"0": 12}  # by a tool: no record
    (root / "config/consumerOffset.json").write_bytes(msgspec.json.encode(kept))
    return shown


def test_a_browser_shows_rates_sizes_tags_lags_and_stages(
    spark: "SparkSession",
    recorded_stores: Path,
    expected_of: Callable[[str], dict[str, Any]],
    tmp_path: Path,
) -> None:
    root, page = tmp_path / "store", tmp_path / "report.html"
    shutil.copytree(recorded_stores / STORE, root)
    stages = put_stages(root)
    done = report(spark, str(root), str(page))
    records = []
    for path in sorted((root / "commitlog").iterdir()):
        data = path.read_bytes()
        starts, _ = walk_sizes(data, 0, len(data))
        records += [decode_message(data[start:]) for start in starts.tolist()]
    assert done.messages == len(records) == expected_of(STORE)["commitLogWalk"]["records"]
    assert done.size_bytes == sum(one.size_bytes for one in records)
    told = seen(page, width=1280)
    assert told["loaded"] == []  # nothing but the page itself
    assert told["facts"][0] == f"{len(records):,}"
    charts = dict(zip(told["titles"], told["charts"], strict=True))
    assert list(charts) == [
        "Messages per second",
        "Bytes of topics",
        "Sizes of records",
        "Tags",
        "Lags of groups",
        "Stages",
    ]
    assert all(chart["drawn"] > 0 for chart in charts.values())

    def bars(title: str) -> dict[str, float]:
        (one,) = charts[title]["bars"]
        return dict(zip(one["x"], one["values"], strict=True))

    tags = Counter(one.tags or "(none)" for one in records)
    assert bars("Tags") == dict(tags.most_common(10)) or len(tags) > 10
    assert all(tags[tag] == count for tag, count in bars("Tags").items())
    topics = Counter[str]()
    for one in records:
        topics[one.topic] += one.size_bytes
    assert all(topics[topic] == size for topic, size in bars("Bytes of topics").items())
    assert sum(bars("Sizes of records").values()) == len(records)
    lags = {(one.group, one.topic): one.lag for one in inspect_store(root).groups if one.lag}
    shown = Counter[tuple[str, str]]()
    for name, count in bars("Lags of groups").items():
        group, queue = name.split("<br>")
        shown[group, queue.rpartition(" ")[0]] += int(count)
    assert shown == lags
    assert done.lag == sum(lags.values())
    finished, waiting = (
        dict(zip(one["x"], one["values"], strict=True)) for one in charts["Stages"]["bars"]
    )
    assert finished == {name: number for name, (number, _) in stages.items()}
    ends = Counter(one.queue_id for one in records if one.topic == "sc_orders")
    for name, (_, offset) in stages.items():
        queue_id = int(name.removesuffix(" (broker)").rpartition(" ")[2])
        assert waiting[name] == ends[queue_id] - offset
    told_of = {(one.group, one.strategy, one.kept_by) for one in lag(spark, str(root)).stages}
    assert told_of == {
        ("painters", None, "consumer"),
        ("painters", "gold", "consumer"),
        ("|painters", None, "consumer"),
        ("|a|painters", None, "consumer"),
        ("old", None, "broker"),
    }
    times = [one.store_timestamp_ms // 1000 for one in records]
    span = max(times) - min(times)
    step = next(one for one in (1, 10, 60, 600, 3600) if span / one <= 120)
    total = sum(
        value * step for one in charts["Messages per second"]["bars"] for value in one["values"]
    )
    assert round(total) == len(records)
    narrow = seen(page, width=500)
    assert narrow["page"] <= narrow["width"]
