"""Every command of ``lanemq spark``: its table, its JSON, its exit statuses, on a small store."""

import importlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import trio
from click.testing import CliRunner, Result

from lanemq.compat import Cluster, lanemq_cluster, running
from lanemq.sdk import Message, open_producer
from lanemq.sdk.kv import open_kv_store
from lanemq.testkit.servers import PATIENT_S
from lanemq.testkit.spark import PATIENT, require_packages

require_packages("plotly")

from lanemq.spark import cli, jobs  # noqa: E402 - after the requirements, which skip this module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]
SENT: Final = 6
RunningBeside = Callable[[Callable[[], Cluster]], AbstractContextManager[Cluster]]


@pytest.fixture(autouse=True)
def the_session_stays(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """A command stops its session, which is that of all tests here."""
    monkeypatch.setattr(type(spark), "stop", lambda _: None)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a broker with six messages, a group behind, and two keys, which was stopped."""
    cluster = lanemq_cluster(tmp_path_factory.mktemp("commands"))

    async def main() -> None:
        async with running(cluster):
            await cluster.control.create_topic("orders", 1)
            async with open_producer(
                "filler", name_servers=cluster.name_server, options=PATIENT
            ) as producer:
                for number in range(SENT):
                    await producer.send(Message(topic="orders", body=b"body %d" % number))
            async with open_kv_store(name_servers=cluster.name_server, timeout_s=PATIENT_S) as keys:
                await keys.put(b"a", b"1")
                await keys.put(b"b", b"2")

    trio.run(main)
    offsets = {"offsetTable": {"orders@billing": {"0": 4}}}
    root = cluster.folder / "store"
    (root / "config/consumerOffset.json").write_text(json.dumps(offsets))
    return root


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.spark, [str(one) for one in arguments])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return result


def told(*arguments: object, code: int = 0) -> Any:  # noqa: ANN401 - JSON of any shape
    return json.loads(run(*arguments, "--json", code=code).stdout)


def rows(result: Result) -> list[list[str]]:
    """The cells of the tables that were printed, without their heads."""
    lines = [line for line in result.stdout.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def change(path: Path, place: int, data: bytes) -> bytes:
    """Overwrite bytes of a file; return what was there."""
    with path.open("r+b") as file:
        file.seek(place)
        before = file.read(len(data))
        file.seek(place)
        file.write(data)
    return before


def test_messages_and_queues(store: Path, tmp_path: Path) -> None:
    archive, page = tmp_path / "archive", tmp_path / "page.html"
    only = tmp_path / "only"
    exported = run("export", store, archive, "--offsets")
    assert ["orders", "6"] in rows(exported)
    assert told("export", store, only, "--topic", "orders") == {
        "target": str(only),
        "rows": SENT,
        "topics": {"orders": SENT},
        "damaged": 0,
    }
    (verified,) = told("verify", store)
    assert (verified["store"], verified["damage"]) == (str(store), {})
    records = verified["records"]
    assert rows(run("verify", store)) == [
        [str(store), str(records), "0", "files", "0", "0", "0", "0"]
    ]
    assert (
        f"{records} units in files, {records} in log, 0 differences"
        in run("diff", store, "--right", "log").stdout
    )
    lagging = told("lag", archive)
    assert (lagging["lag"], lagging["dead"]) == (2, [])
    lags = run("lag", only, "--offsets", store)
    assert ["billing", "orders", "0", "4", "6", "2"] in rows(lags)
    assert "2 messages not consumed, 0 dead letters" in lags.stdout
    assert told("report", archive, page)["messages"] == records
    assert f"{records} messages of" in run("report", store, page).stdout
    log = next((store / "commitlog").glob("0*"))
    queue = next((store / "consumequeue/orders/0").iterdir())
    size, body = change(queue, 8, b"\0\0\0\7"), change(log, log.read_bytes().index(b"body 3"), b"?")
    (verified,) = told("verify", store, code=1)
    assert verified["damage"] == {"body": 1}
    assert verified["queues"][0]["wrong"] == 1
    assert "has problems" in run("verify", store, code=1).stdout
    found = told("diff", store, "--right", "log", code=1)
    assert [(one["topic"], one["kind"]) for one in found["queues"]] == [("orders", "different")]
    assert rows(run("diff", store, "--right", "log", code=1)) == [
        ["orders", "0", "different", "1", "0"]
    ]
    damaged = run("export", store, tmp_path / "damaged", code=1)
    assert "1 damaged piece" in damaged.stderr
    left_out = tmp_path / "left-out"
    dropped = told("export", store, left_out, "--mode", "dropmalformed", code=1)
    assert (dropped["topics"]["orders"], dropped["damaged"]) == (SENT - 1, 1)
    failed = run("export", store, tmp_path / "failed", "--mode", "FAILFAST", code=2)
    assert f"{log.name}: damaged at byte" in failed.stderr
    change(queue, 8, size)
    change(log, log.read_bytes().index(b"?ody 3"), body)
    for option in ((), ("--json",)):
        assert (
            "already exists: name a directory"
            in run("export", store, archive, *option, code=2).stderr
        )


def test_a_store_is_built_and_converted_there_and_back(store: Path) -> None:
    built = told("build", store)
    assert (built["unplaced"], built["store"]) == (0, str(store))
    assert (
        f"{built['units']} messages of {built['queues']} queues in RocksDB"
        in run("build", store).stdout
    )
    tables = rows(run("convert", store, "--to", "rocksdb"))
    assert {row[1] for row in tables} == {"topics", "subscriptionGroups", "consumerOffsets"}
    assert all(Path(row[3]).exists() for row in tables)
    (back,) = told("convert", store, "--to", "json", "--force")
    assert {one["name"] for one in back["tables"]} == {"topics", "groups", "consumerOffsets"}


def test_archives_go_to_a_running_broker(
    store: Path, tmp_path: Path, running_beside: RunningBeside
) -> None:
    archive, entries = tmp_path / "archive", tmp_path / "entries"
    run("export", store, archive, "--topic", "orders")
    assert rows(run("kv", "export", store, entries)) == [["default", "2", "2"]]
    assert told("kv", "export", store, tmp_path / "more")["entries"] == {"default": 2}
    with running_beside(lambda: lanemq_cluster(tmp_path / "new")) as cluster:
        trio.run(cluster.control.create_topic, "copy", 1)
        to = ("-n", cluster.name_server)
        sent = told("replay", archive, "--topic", "orders", "--to", "copy", *to)
        assert (sent["sent"], sent["there"]) == (SENT, 0)
        again = run("replay", archive, "--topic", "orders", "--to", "copy", *to)
        assert "0 messages of 1 queues sent to copy, 6 were there already" in again.stdout
        taken = told("kv", "import", entries, *to)
        assert (taken["namespace"], taken["entries"]) == ("default", 2)
        assert "--replace empties it" in run("kv", "import", entries, *to, code=2).stderr
        replaced = run("kv", "import", store, "--replace", *to)
        assert replaced.stdout == "2 entries in namespace default\n"
    new = tmp_path / "new/store"
    killed = run("kv", "diff", entries, new, code=2)  # what it has in files is behind its log
    assert f"{new} was not closed" in killed.stderr

    async def change_one() -> None:
        cluster = lanemq_cluster(tmp_path / "new")
        async with (
            running(cluster),
            open_kv_store(name_servers=cluster.name_server, timeout_s=PATIENT_S) as keys,
        ):
            await keys.put(b"b", b"changed")

    trio.run(change_one)
    assert told("kv", "diff", store, entries)["differences"] == {}
    assert told("kv", "diff", entries, new, code=1)["differences"] == {"different": 1}
    assert rows(run("kv", "diff", store, new, code=1)) == [["default", "62", "different"]]


def test_what_cannot_be_done_is_a_line_and_status_2(store: Path, tmp_path: Path) -> None:
    out, none = tmp_path / "out", tmp_path / "none"
    none.mkdir()
    to = ("-n", "127.0.0.1:1", "--retries", "0")
    for command in (
        ("export", none, out),
        ("verify", none),
        ("diff", none),
        ("lag", store, "--offsets", none),
        ("build", none),
        ("convert", none, "--to", "json"),
        ("kv", "export", none, out),
    ):
        failed = run(*command, code=2)
        assert failed.stdout == ""
        assert failed.stderr.endswith(
            f"{none} is not a store: it has no commitlog. The directory to give is a broker's"
            " storePathRootDir\n"
        )
    for unread in (
        ("lag", none),
        ("report", none, out),
        ("replay", none, "--topic", "orders", *to),
        ("kv", "import", none, *to),
        ("kv", "diff", none, none),
    ):
        assert f"{none} is not an archive" in run(*unread, code=2).stderr
    for empty in (
        ("export", store, out, "--topic", "typo"),
        ("kv", "export", store, out, "--namespace", "typo"),
        ("kv", "diff", store, store, "--namespace", "typo"),
    ):
        assert "typo" in run(*empty, code=2).stderr
        assert not out.exists()
    for wrong in (
        ("export", store),
        ("verify",),
        ("diff", store, "--left", "log", "--right", "log"),
        ("lag", store, "--nothing"),
        ("replay", none),
        ("build", store, store),
        ("convert", store, "--to", "xml"),
        ("report", store),
        ("kv", "nothing"),
    ):
        assert "Error: " in run(*wrong, code=2).stderr


def test_a_cluster_is_no_directory(store: Path, tmp_path: Path) -> None:
    cluster = "rocketmq://127.0.0.1:1"
    for command in (
        ("verify", cluster),
        ("lag", cluster),
        ("audit", cluster, "--topic", "orders", "--group", "billing"),
        ("archive", store, cluster),
    ):
        assert "127.0.0.1:1 is a cluster, and here goes a directory" in run(*command, code=2).stderr


def test_what_a_table_lacks_and_a_target_that_is_there_are_told_before_spark_starts(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = importlib.import_module("lanemq.spark.cli._command")
    monkeypatch.setattr(parts, "_opened", lambda *_: pytest.fail("Spark starts"))
    for command in (
        ("archive", store, "iceberg://no-such/mq.t"),
        ("find", "iceberg://t", "--key", "k"),
    ):
        assert "iceberg://" in run(*command, code=2).stderr
    for target, text in (
        (store, f"{store} already exists: name a directory that does not"),
        ("s3://bucket/store", "s3://bucket/store: a store is written to a local path only"),
    ):
        assert text in run("restore", store, target, code=2).stderr


def test_an_interruption_is_status_2_and_a_spark_that_does_not_start_is_told(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def refused(_: object) -> None:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(jobs, "verify", interrupted)
    assert "interrupted: the job is not done" in run("verify", store, code=2).stderr
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refused)
    assert "it needs a JDK 17" in run("verify", store, "--master", "moon", code=2).stderr
