"""Archives in tables: what their own libraries and every job read, and what kills leave."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import trio

from lanemq.compat import Cluster, lanemq_cluster
from lanemq.sdk import Message, blocking
from lanemq.sdk.admin import open_admin, queues_of
from lanemq.testkit.servers import PATIENT_S
from lanemq.testkit.spark import PATIENT, kill_session, require_packages, until_readable

require_packages("deltalake", "pyiceberg")

import pyarrow as pa  # noqa: E402
from deltalake import DeltaTable  # noqa: E402
from pyiceberg.catalog import load_catalog  # noqa: E402
from pyiceberg.utils.config import Config  # noqa: E402

import lanemq.spark  # noqa: E402
from lanemq.spark.archives import open_archive  # noqa: E402
from lanemq.spark.jobs import archive, archived, compare, restore  # noqa: E402
from lanemq.testkit.spark_archives import LOG_BYTES, fill, kept, messages, run  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
RunningBeside = Callable[[Callable[[], Cluster]], AbstractContextManager[Cluster]]
MAIN: Final = Path(lanemq.spark.__file__).with_name("__main__.py")
STOPPED: Final = """\
import os, pathlib, signal
try:
    from lanemq.spark.archives import _sink
except ImportError:
    pass
else:
    def commit(self, messages):
        pathlib.Path(os.environ["STOPPED"]).touch()
        signal.pause()
    _sink.ArchiveWriter.commit = commit
"""
"""The beginning of every Python of a driver: a commit says that it was reached, and waits."""


@pytest.fixture
def the_session_stays(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """A command stops its session, which is that of all tests here."""
    monkeypatch.setattr(type(spark), "stop", lambda _: None)


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a table that does not exist yet."""
    if request.param == "delta":
        return f"delta:{tmp_path / 'a lake'}"
    return f"iceberg://lake/{tmp_path.name}.messages"


def read_back(address: str, columns: list[str], condition: str) -> list[dict[str, Any]]:
    """Rows of a table, as its own library reads them."""
    rows: list[dict[str, Any]]
    if address.startswith("delta:"):
        found = DeltaTable(address.removeprefix("delta:")).scan(columns, condition)
        rows = pa.table(found).to_pylist()
    else:
        properties = Config().get_catalog_config("lake") or {}
        named = {name: str(value) for name, value in properties.items()}
        with load_catalog("lake", **named) as catalog:
            table = catalog.load_table(address.removeprefix("iceberg://lake/"))
            rows = table.scan(condition, tuple(columns)).to_arrow().to_pylist()
    return rows


def written(address: str) -> int:
    """Files below a table, whether they count or not."""
    root = Path(open_archive(address).root.removeprefix("file://"))
    return sum(1 for _ in root.rglob("*.parquet"))


@pytest.mark.usefixtures("the_session_stays")
def test_a_table_grows_and_is_what_an_archive_of_parquet_is(
    spark: "SparkSession", tmp_path: Path, table: str
) -> None:
    store, plain = tmp_path / "store", tmp_path / "archive"
    fill(store, 0, 40)
    first = run("archive", store, table)
    assert (first["messages"], first["missing"]) == (40, 0)
    nothing = run("archive", store, table)
    assert (nothing["messages"], nothing["version"]) == (0, first["version"])
    fill(store, 40, 55)
    more = run("archive", store, table)
    assert (more["messages"], more["topics"]) == (15, {"%RETRY%billing": 3, "orders": 12})
    archive(spark, str(store), str(plain))
    whole = archived(spark, table)
    assert kept(whole) == kept(messages(spark, store))
    assert set(whole.dtypes) == set(archived(spark, str(plain)).dtypes)

    days = {str(row["day"]) for row in whole.select("day").collect()}
    (row,) = read_back(
        table, ["topic", "day", "body", "msgId"], "msgId = 'U3' and topic = 'orders'"
    )
    assert row["body"] == b"body 3" * 3
    assert {str(row["day"])} <= days
    retries = read_back(table, ["queueOffset", "storeTimestamp"], "topic = '%RETRY%billing'")
    assert len(retries) == 11

    stores = [tmp_path / "again", tmp_path / "and again"]
    for source, target in zip((table, str(plain)), stores, strict=True):
        restore(spark, source, str(target), log_file_bytes=LOG_BYTES)
    logs = [
        {one.name: one.read_bytes() for one in (root / "commitlog").iterdir()} for root in stores
    ]
    assert logs[0] == logs[1] != {}
    assert run("count", table) == {"%RETRY%billing": 11, "orders": 44}
    found = run("find", table, "--key", "k3", "--since", min(days))
    assert {one["message_id"] for one in found} == {f"U{n}" for n in range(55) if n % 7 == 3}
    assert run("report", table, tmp_path / "page.html")["messages"] == 55
    (store / "config").mkdir(exist_ok=True)
    offsets = {"offsetTable": {"orders@g": {"0": 2}}}
    (store / "config/consumerOffset.json").write_text(json.dumps(offsets))
    audit = ("--topic", "orders", "--group", "g", "--offsets", store)
    assert run("audit", table, *audit, code=1)["kinds"] == {"no record": 2, "waiting": 42}


@pytest.mark.usefixtures("the_session_stays")
def test_a_driver_killed_before_its_commit_has_archived_nothing(
    spark: "SparkSession", spark_apart: dict[str, str], tmp_path: Path, table: str
) -> None:
    store, mark, patch = tmp_path / "store", tmp_path / "mark", tmp_path / "patch"
    fill(store, 0, 50)
    archive(spark, str(store), table)
    before = open_archive(table).read()
    there = written(table)
    fill(store, 50, 90)
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(STOPPED)
    path = os.pathsep.join([str(patch), *sys.path])
    # The environment of drivers may be older than the catalog of this test.
    catalogs = {name: os.environ[name] for name in os.environ if name.startswith("PYICEBERG_")}
    environment = {**spark_apart, **catalogs, "PYTHONPATH": path, "STOPPED": str(mark)}
    command = [sys.executable, str(MAIN), "archive", str(store), table, "--master", "local[1]"]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    limit = time.monotonic() + 300
    while not mark.exists():
        assert process.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.02)
    kill_session(process)
    assert written(table) > there  # all is written, and nothing counts
    assert open_archive(table).read() == before
    assert len(archived(spark, table).collect()) == 50
    assert archive(spark, str(store), table).messages == 40
    assert kept(archived(spark, table)) == kept(messages(spark, store))


def sent_again(name_server: str, topic: str, count: int) -> list[list[tuple[str, bytes]]]:
    """The own number and the body of each message of each queue, once there are ``count``."""

    async def pull() -> list[list[tuple[str, bytes]]]:
        found = []
        async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
            await until_readable(admin, topic, count)
            for address, queue in queues_of(await admin.route(topic), topic):
                pulled = await admin.pull(address, queue, 0)
                found.append([(one.properties["n"], one.body) for one in pulled.messages])
        return found

    return trio.run(pull)


@pytest.mark.usefixtures("the_session_stays")
def test_a_table_is_replayed_once_by_whatever_address(
    spark: "SparkSession",
    running_beside: RunningBeside,
    tmp_path: Path,
    table: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, there = tmp_path / "store", 0
    monkeypatch.chdir(tmp_path)
    with running_beside(lambda: lanemq_cluster(tmp_path / "cluster")) as cluster:
        trio.run(cluster.control.create_topic, "again", 3)
        for begin, end, addresses in (
            (0, 40, [table]),
            (40, 55, [table, *other_addresses(table)]),
        ):
            fill(store, begin, end)
            archive(spark, str(store), table)
            numbers = [number for number in range(end) if number % 5]
            for address in addresses:
                given = ("--topic", "orders", "--to", "again", "-n", cluster.name_server)
                done = run("replay", address, *given)
                assert (done["sent"], done["there"]) == (len(numbers) - there, there), address
                there = len(numbers)
            assert sent_again(cluster.name_server, "again", there) == [
                [(str(n), b"body %d" % n * (n % 40)) for n in numbers if n % 3 == queue]
                for queue in range(3)
            ]


def other_addresses(table: str) -> list[str]:
    """Other names of a table, from the directory that it is in."""
    if not table.startswith("delta:"):
        return []
    path = Path(table.removeprefix("delta:"))
    return [f"delta:{path.name}", str(path), f"{table}/", f"delta:{path.as_uri()}"]


@pytest.mark.usefixtures("the_session_stays")
def test_a_table_is_compared_with_stores_and_topics(
    spark: "SparkSession", running_beside: RunningBeside, tmp_path: Path, table: str
) -> None:
    store = tmp_path / "store"
    fill(store, 0, 40)
    archive(spark, str(store), table)
    same = run("compare", table, store)
    assert (same["left_messages"], same["right_messages"], same["differences"]) == (40, 40, {})
    fill(store, 40, 42)
    more = run("compare", table, store, "--topic", "orders", code=1)
    assert more["differences"] == {"missing left": 1}
    assert [one["message_id"] for one in more["first"]] == ["U41"]

    with running_beside(lambda: lanemq_cluster(tmp_path / "cluster")) as cluster:
        trio.run(cluster.control.create_topic, "orders", 2)
        source = f"rocketmq://{cluster.name_server}"
        archive_of_topic = f"{table}_of_topic"

        def send(begin: int, end: int) -> None:
            with blocking.open_producer(
                "p", name_servers=cluster.name_server, options=PATIENT
            ) as producer:
                for number in range(begin, end):
                    producer.send(Message(topic="orders", body=b"%d" % number, keys=("k",)))

        send(0, 12)
        run("archive", source, archive_of_topic, "--topic", "orders")
        topics = compare(spark, archive_of_topic, source, topics=["orders"])
        assert (topics.left_messages, topics.right_messages, topics.differences) == (12, 12, {})
        send(12, 15)
        other = compare(spark, source, archive_of_topic, topics=["orders"])
        assert other.differences == {"missing right": 3}
    two = compare(spark, table, archive_of_topic, topics=["orders"])
    assert (two.left_messages, two.right_messages) == (32, 12)
    assert two.differences == {"missing left": 12, "missing right": 32}
