"""Jobs of Spark on a standalone cluster that loses an executor, or a worker, while they run.

``python -m lanemq.testkit.spark_losses MASTER FOLDER NAME_SERVER [JOB/LOSS...]`` runs each job, by
default all of them with both losses, in one application, and prints a line of JSON for each: what
was lost, whether it was lost in the job, and what is wrong with the result. Exit status 1 if
anything is.
"""

import itertools
import json
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import trio

from lanemq.compat import Control
from lanemq.spark import register
from lanemq.spark.archives import Commits
from lanemq.spark.jobs import (
    archive,
    archived,
    build,
    convert,
    export,
    replay,
    report,
    restore,
)
from lanemq.spark.store import LogRecord, LogWriter
from lanemq.spark.topics import Cluster
from lanemq.storage import StoreConfig, open_store
from lanemq.storage.tools import verify_store
from lanemq.wire import HostAddress
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.message import encode_properties

from .spark_cluster import Losses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOSSES: Final = ("executor", "worker")
MESSAGES: Final = 6_000
QUEUES: Final = 4
TOPIC: Final = "Losses"
BROKER: Final = "broker-a"
LOG_FILE_BYTES: Final = 1 << 20
"""Each file of a log is a task."""
STORES: Final = 3
"""Stores whose tables are converted, each in a task."""
BODY: Final = bytes(range(256)) * 4
START_MS: Final = 1_790_000_000_000
HOST: Final = HostAddress.parse("127.0.0.1:10911")
Rows = Counter[tuple[Any, ...]]
PLACES: Final = ("topic", "queue", "queueOffset", "msgId", "crc32(body)")


def store_config(root: Path) -> StoreConfig:
    """Return the settings of the stores here: small files, so that there are many of each kind."""
    return StoreConfig(
        root=root,
        commit_log_file_bytes=LOG_FILE_BYTES,
        max_hash_slots=1_000,
        max_index_entries=2_000,
        kv_enabled=False,
        timers_enabled=False,
    )


def make_store(root: Path) -> None:
    """Make a store of one topic, by turns in its queues, with tables in JSON."""
    writer = LogWriter(root / "commitlog", LOG_FILE_BYTES)
    for number in range(MESSAGES):
        properties = {"UNIQ_KEY": f"ID{number:014d}", "KEYS": f"k{number}", "TAGS": "A"}
        writer.put(
            LogRecord(
                TOPIC, number % QUEUES, number // QUEUES, 0, 0, START_MS + number, HOST,
                START_MS + number, HOST, 0, BODY[number % 256 :], encode_properties(properties),
            )
        )  # fmt: skip
    writer.close()
    config = root / "config"
    config.mkdir()
    topic = TopicConfig(TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
    version = {"timestamp": START_MS, "counter": 1, "stateVersion": 0}
    topics = {"dataVersion": version, "topicConfigTable": {TOPIC: topic.to_json()}}
    (config / "topics.json").write_text(json.dumps(topics))
    offsets = {f"{TOPIC}@group-{number}": {"0": number} for number in range(200)}
    table = {"dataVersion": version, "offsetTable": offsets}
    (config / "consumerOffset.json").write_text(json.dumps(table))

    async def start() -> None:
        async with open_store(store_config(root)):
            pass

    trio.run(start)


@final
class Jobs:
    """Each job, when it is in the middle, and what is wrong with its result.

    A job runs in a folder of its own, which is new for each loss.
    """

    def __init__(self, spark: "SparkSession", folder: Path, name_server: str) -> None:
        self._spark = spark
        self._name_server = name_server
        self._base = folder
        self._folder = folder
        self._loss = ""
        self._store = folder / "store"
        make_store(self._store)
        self._expected = self._rows(self._table(str(self._store)))
        self._found: Any = None
        """The job's result."""

    def run(self, name: str, loss: str, losses: Losses) -> dict[str, Any]:
        """Run a job and lose something in the middle of it."""
        self._folder, self._loss = self._base / f"{name}-{loss}", loss
        self._folder.mkdir()
        getattr(self, f"_prepare_{name}", lambda: None)()
        begun_s = time.monotonic()
        is_time = getattr(self, f"_{name}_writes", lambda: True)
        was_lost = losses.during(getattr(self, name), loss, is_time)
        done_s = time.monotonic()
        wrong = getattr(self, f"_check_{name}")()
        seconds = {"job": round(done_s - begun_s, 1), "check": round(time.monotonic() - done_s, 1)}
        return {"job": name, "loss": loss, "lost": was_lost, "wrong": wrong, "seconds": seconds}

    def export(self) -> None:
        export(self._spark, str(self._store), str(self._folder / "out"))

    def _export_writes(self) -> bool:
        return any((self._folder / "out").rglob("*.parquet"))

    def _check_export(self) -> str:
        out = self._folder / "out"
        return self._compared(self._spark.read.parquet(str(out))) or self._left(out, "_temporary")

    def archive(self) -> None:
        archive(self._spark, str(self._store), str(self._folder / "out"), broker=BROKER)

    def _archive_writes(self) -> bool:
        return any((self._folder / "out").rglob("*.parquet"))

    def _check_archive(self) -> str:
        out = self._folder / "out"
        named = {str(out / one) for one in Commits(str(out)).read().files}
        if named != {str(one) for one in out.rglob("*.parquet")}:
            return "there are files that no commit names"
        return self._compared(archived(self._spark, str(out)))

    def _prepare_restore(self) -> None:
        archive(self._spark, str(self._store), str(self._folder / "in"), broker=BROKER)

    def restore(self) -> None:
        out = str(self._folder / "out")
        restore(self._spark, str(self._folder / "in"), out, log_file_bytes=LOG_FILE_BYTES)

    def _check_restore(self) -> str:
        out = str(self._folder / "out")
        return self._compared(self._table(out)) or self._left(self._folder, ".out.*")

    def index(self) -> None:
        self._found = self._entries()

    def _check_index(self) -> str:
        entries = [row for row in self._found if row["logPosition"] >= 0]
        if self._found != self._entries():
            return "it is another one the second time"
        places = {row["logPosition"] for row in entries}
        # A message has an entry for its key, and one for its id.
        is_whole = len(entries) == 2 * MESSAGES and len(places) == MESSAGES
        return "" if is_whole else f"{len(entries)} entries of {len(places)} messages"

    def _entries(self) -> list[Any]:
        reader = self._spark.read.format("rocketmq-store").option("table", "index")
        return sorted(reader.load(str(self._store)).collect())

    def report(self) -> None:
        self._found = report(self._spark, str(self._store), str(self._folder / "page.html"))

    def _check_report(self) -> str:
        if not (self._folder / "page.html").stat().st_size:
            return "the page is empty"
        return "" if self._found.messages == MESSAGES else f"{self._found.messages} messages"

    def _prepare_build(self) -> None:
        shutil.copytree(self._store, self._folder / "out")

    def build(self) -> None:
        self._found = build(self._spark, str(self._folder / "out"), part_bytes=LOG_FILE_BYTES)

    def _build_writes(self) -> bool:
        return any((self._folder / "out").rglob("*.sst"))

    def _check_build(self) -> str:
        out = self._folder / "out"
        if self._found.units != MESSAGES:
            return f"{self._found.units} units"
        report = verify_store(out)
        if not report.is_sound or report.rocksdb_rows != MESSAGES:
            return f"queues and log differ: {report}"
        return self._left(out, "convert.tmp")

    def _prepare_convert(self) -> None:
        for number in range(STORES):
            shutil.copytree(self._store, self._folder / f"{number}")

    def convert(self) -> None:
        stores = [str(self._folder / f"{number}") for number in range(STORES)]
        self._found = convert(self._spark, stores, "rocksdb")

    def _convert_writes(self) -> bool:
        return any(self._folder.glob("*/config/*/CURRENT"))

    def _check_convert(self) -> str:
        for done in self._found:
            entries = {one.name: one.entries for one in done.tables}
            if entries != {"topics": 1, "consumerOffsets": 200}:
                return f"{done.store}: {entries}"
            for name in ("topics", "offsets"):
                if self._tables(done.store, name, "files") != self._tables(
                    done.store, name, "rocksdb"
                ):
                    return f"{done.store}: {name} differ"
        return ""

    def _tables(self, store: str, name: str, source: str) -> list[Any]:
        reader = self._spark.read.format("rocketmq-store").options(table=name, **{"from": source})
        return sorted(map(str, reader.load(store).drop("source").collect()))

    def _prepare_replay(self) -> None:
        self._prepare_restore()
        trio.run(Control(self._name_server).create_topic, self._target, QUEUES)

    @property
    def _target(self) -> str:
        return f"Replayed-{self._loss}"

    def replay(self) -> None:
        cluster = Cluster.named(self._name_server)
        archive_in = str(self._folder / "in")
        self._found = replay(self._spark, archive_in, TOPIC, cluster=cluster, target=self._target)

    def _check_replay(self) -> str:
        source = self._spark.read.format("rocketmq").option("nameserver", self._name_server)
        rows = source.option("subscribe", self._target).load().orderBy("queue", "queueOffset")
        rows = rows.selectExpr("queue", "properties['REPLAYED'] AS mark", "crc32(body) AS crc")
        found: dict[int, list[tuple[int, int]]] = {}
        for row in rows.collect():
            found.setdefault(row["queue"], []).append(
                (int(row["mark"].rpartition("/")[2]), row["crc"])
            )
        expected: dict[int, list[tuple[int, int]]] = {}
        for _, queue, offset, _, crc in sorted(self._expected):
            expected.setdefault(queue, []).append((offset, crc))
        if found != expected:
            counts = {queue: len(messages) for queue, messages in found.items()}
            return f"messages are lost, doubled or in another order: {counts}"
        return ""

    def _table(self, store: str) -> "DataFrame":
        return self._spark.read.format("rocketmq-store").load(store)

    def _rows(self, messages: "DataFrame") -> Rows:
        return Counter(tuple(row) for row in messages.selectExpr(*PLACES).collect())

    def _compared(self, messages: "DataFrame") -> str:
        found = self._rows(messages)
        if found == self._expected:
            return ""
        lost, more = self._expected - found, found - self._expected
        return f"{lost.total()} messages lost, {more.total()} too many"

    def _left(self, folder: Path, pattern: str) -> str:
        return next((f"{path} was left" for path in folder.rglob(pattern)), "")


JOBS: Final = ("export", "archive", "restore", "index", "report", "build", "convert", "replay")
ALL: Final = [f"{job}/{loss}" for job, loss in itertools.product(JOBS, LOSSES)]


def main(arguments: list[str]) -> int:
    """Run the jobs that the arguments name; see the module."""
    from pyspark.sql import SparkSession

    master, folder, name_server, *names = arguments
    spark = (
        SparkSession.builder.master(master)
        .appName("losses")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.shuffle.partitions", str(QUEUES))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    jobs = Jobs(spark, Path(folder), name_server)
    is_good = True
    with Losses(spark, master) as losses:
        for name in names or ALL:
            job, _, loss = name.partition("/")
            done = jobs.run(job, loss, losses)
            is_good &= done["lost"] and not done["wrong"]
            print(json.dumps(done), flush=True)
    spark.stop()
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
