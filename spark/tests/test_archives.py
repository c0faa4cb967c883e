"""Archives are filled bit by bit, restored, compared and searched; groups are audited."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import trio
from click.testing import CliRunner

from lanemq.compat import Cluster, StoreStand, lanemq_cluster, running
from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    Message,
    Outcome,
    PushOptions,
    ReceivedMessage,
    blocking,
    open_producer,
    open_push_consumer,
)
from lanemq.storage import Stage
from lanemq.storage.tools import verify_store
from lanemq.testkit.cases import first
from lanemq.testkit.peers import require_tools
from lanemq.testkit.spark import PATIENT, kill_session, require_packages

require_packages()

import pyarrow as pa  # noqa: E402
from pyarrow import parquet  # noqa: E402
from pyspark.sql import functions  # noqa: E402

import lanemq.spark  # noqa: E402
from lanemq.spark import SourceError, cli  # noqa: E402
from lanemq.spark.archives import Commits  # noqa: E402
from lanemq.spark.jobs import (  # noqa: E402
    archive,
    archive_rows,
    archived,
    audit,
    audit_rows,
    compare,
    compare_rows,
    export,
    find,
    report,
    restore,
    restore_rows,
    trace_records,
)
from lanemq.testkit.spark_archives import LOG_BYTES, fill, kept, messages, run  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]
MAIN: Final = Path(lanemq.spark.__file__).with_name("__main__.py")
SENT: Final = 5
RunningBeside = Callable[[Callable[[], Cluster]], AbstractContextManager[Cluster]]


@pytest.fixture
def the_session_stays(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """A command stops its session, which is that of all tests here."""
    monkeypatch.setattr(type(spark), "stop", lambda _: None)


def run_refused(*arguments: object) -> str:
    """Run a command that cannot be done, and return its line on stderr."""
    result = CliRunner().invoke(cli.spark, [str(one) for one in arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


@pytest.mark.usefixtures("the_session_stays")
def test_an_archive_grows_is_restored_and_found_in(spark: "SparkSession", tmp_path: Path) -> None:
    store, target, again = tmp_path / "store", tmp_path / "archive", tmp_path / "again"
    fill(store, 0, 40)
    first = run("archive", store, target)
    assert (first["messages"], first["missing"], first["version"]) == (40, 0, 1)
    assert first["topics"] == {"%RETRY%billing": 8, "orders": 32}
    assert kept(archived(spark, str(target))) == kept(messages(spark, store))
    nothing = archive(spark, str(store), str(target))
    assert (nothing.messages, nothing.version) == (0, 1)
    fill(store, 40, 55)
    more = run("archive", store, target)
    assert (more["messages"], more["version"]) == (15, 2)
    whole = archived(spark, str(target))
    assert kept(whole) == kept(messages(spark, store)) == kept(spark.read.parquet(str(target)))
    assert {str(row["day"]) for row in whole.select("day").collect()} == {
        datetime.fromtimestamp(row["storeTimestamp"].timestamp(), UTC).date().isoformat()
        for row in whole.select("storeTimestamp").collect()
    }

    done = run("restore", target, again, "--log-file-bytes", LOG_BYTES)
    assert (done["messages"], done["renumbered"], done["left_out"]) == (55, 0, 0)
    assert kept(messages(spark, again)) == kept(messages(spark, store))
    assert verify_store(again).is_sound
    assert run("compare", store, again)["differences"] == {}
    assert run("compare", target, again, "--topic", "orders")["left_messages"] == 44
    counts = {"%RETRY%billing": 11, "orders": 44}
    assert run("count", store) == run("count", target) == counts
    assert run("count", again, "--topic", "orders") == {"orders": 44}
    with pytest.raises(SourceError, match="already exists"):
        restore(spark, str(target), str(again))

    found = run("find", target, store, "--key", "k3", "--key", "U4")
    assert sorted(one["message_id"] for one in found) == sorted(
        2 * [f"U{number}" for number in range(55) if number % 7 == 3 or number == 4]
    )
    assert run("find", target, "--key", "k", code=1) == []
    assert find(spark, [str(target)], ["all"], until=datetime(2020, 1, 1, tzinfo=UTC)) == []

    other = tmp_path / "other"
    fill(other, 0, 20)
    fill(other, 60, 65)
    report = run("compare", store, other, code=1)
    assert report["differences"] == {"missing left": 5, "missing right": 35}
    with pytest.raises(SourceError, match="has other messages there or ends at"):
        archive(spark, str(other), str(target))
    assert Commits(str(target)).read().version == 2
    assert not list(target.glob("_commits/*.run"))
    named = archive(spark, str(other), str(target), broker="broker-b")
    assert named.messages == 25
    with pytest.raises(SourceError, match="has an offset twice"):
        restore(spark, str(target), str(tmp_path / "both"))
    with pytest.raises(SourceError, match="has no messages of ordres"):
        restore(spark, str(target), str(tmp_path / "one"), topics=["orders", "ordres"])
    one = restore(spark, str(target), str(tmp_path / "one"), broker="broker-b", topics=["orders"])
    assert one.messages == 20
    assert not (tmp_path / "both").exists()


def test_a_topic_of_which_the_source_has_nothing_is_refused_unless_it_is_archived(
    spark: "SparkSession", tmp_path: Path
) -> None:
    store, empty, target = tmp_path / "store", tmp_path / "empty", tmp_path / "archive"
    fill(store, 0, 10)
    fill(empty, 0, 1)
    for wanted, text in (
        (["orders", "ordesr"], r"has no messages of ordesr \(it has orders\)$"),
        (["payments"], r"has no messages of payments \(it has orders, %RETRY%billing\)$"),
    ):
        with pytest.raises(SourceError, match=text):
            archive(spark, str(store), str(target), topics=wanted)
    assert not target.exists()
    assert archive(spark, str(store), str(target), topics=["orders"]).messages == 8
    with pytest.raises(SourceError, match=r"of order \(it has orders\)$"):
        archive(spark, str(target), str(tmp_path / "again"), topics=["order"])
    removed = archive(spark, str(empty), str(target), topics=["orders"])  # by retention
    assert (removed.messages, removed.version) == (0, 1)
    with pytest.raises(SourceError, match=r"of order \(it has orders\)$"):
        export(spark, str(store), str(tmp_path / "files"), topics=["order"])


@pytest.mark.usefixtures("the_session_stays")
def test_a_topic_without_messages_is_neither_counted_nor_searched(
    spark: "SparkSession", tmp_path: Path
) -> None:
    store, target = tmp_path / "store", tmp_path / "archive"
    fill(store, 0, 10)
    archive(spark, str(store), str(target), topics=["orders"])
    for place in (store, target):
        refused = run_refused("count", place, "--topic", "orders", "--topic", "payments")
        assert "has no messages of payments (it has orders" in refused
        files = tmp_path / "found"
        for name in ("ordesr", "payments"):
            wanted = ("--key", "all", "--topic", "orders", "--topic", name, "--output", files)
            assert f"no messages of {name} (it has orders" in run_refused("find", place, *wanted)
        assert not files.exists()
        assert find(spark, [str(place)], ["none"], topics=["orders"]) == []
    with pytest.raises(
        SourceError, match=r"archive: has no messages of payments \(it has orders, %R"
    ):
        compare(spark, str(store), str(target), topics=["orders", "payments"])
    with pytest.raises(SourceError, match=r"of ordesr \(it has orders\)$"):
        restore(spark, str(target), str(tmp_path / "restored"), topics=["ordesr"])


@pytest.mark.usefixtures("the_session_stays")
def test_a_place_with_other_files_is_no_place_for_an_archive(
    spark: "SparkSession", tmp_path: Path
) -> None:
    store, exported, target = tmp_path / "store", tmp_path / "exported", tmp_path / "archive"
    fill(store, 0, 10)
    run("export", store, exported)
    before = sorted(path.name for path in store.iterdir())
    for place in (str(store), f"delta:{store}", str(exported), f"delta:{exported}"):
        with pytest.raises(SourceError, match="is no archive, and has other files"):
            archive(spark, str(store), place)
    assert sorted(path.name for path in store.iterdir()) == before
    assert archived(spark, str(exported)).count() == 10
    with pytest.raises(SourceError, match="is a store, and no archive: read it with"):
        archived(spark, str(store))
    (target / "lost+found").mkdir(parents=True)
    assert archive(spark, str(store), str(target)).messages == 10


def test_topics_with_names_like_dates_and_numbers_keep_them(
    spark: "SparkSession", tmp_path: Path
) -> None:
    store, target, page = tmp_path / "store", str(tmp_path / "archive"), tmp_path / "page.html"
    fill(store, 0, 20)
    named = functions.expr("if(topic = 'orders', '2026-01-02', '007')").alias("topic")
    rows = messages(spark, store)
    rows = rows.select(named, *(name for name in rows.columns if name != "topic"))
    archive_rows(rows, target)
    assert archived(spark, target).groupBy("topic").count().orderBy("topic").collect() == [
        ("007", 4),
        ("2026-01-02", 16),
    ]
    assert report(spark, target, str(page)).messages == 20
    assert all(f'"{name}"' in page.read_text() for name in ("007", "2026-01-02"))


def test_a_queue_is_not_archived_again_by_another_name(
    spark: "SparkSession", tmp_path: Path
) -> None:
    store, target = tmp_path / "store", str(tmp_path / "archive")
    fill(store, 0, 20)
    rows = messages(spark, store)
    archive(spark, str(store), target, broker="broker-a")
    fill(store, 20, 30)
    twice = "is archived already, from a broker named broker-a, and comes from one without a name"
    with pytest.raises(SourceError, match=twice):
        archive(spark, str(store), target)
    with pytest.raises(SourceError, match=twice):
        archive_rows(rows, target)
    with pytest.raises(SourceError, match="one named other now"):
        archive_rows(rows.withColumn("broker", functions.lit("other")), target)
    assert archived(spark, target).count() == 20
    assert archive_rows(rows.withColumn("broker", functions.lit("broker-a")), target).messages == 10
    with pytest.raises(SourceError, match="have no column queueOffset, storeTimestamp; they need"):
        archive_rows(rows.select("topic", "queue", "body"), target)


def test_an_old_copy_of_a_store_is_recognized_by_any_name(
    spark: "SparkSession", tmp_path: Path
) -> None:
    store, target = tmp_path / "store", str(tmp_path / "archive")
    copy, branch, other = tmp_path / "copy", tmp_path / "branch", tmp_path / "other"
    fill(store, 0, 20)
    for path in (copy, branch):
        shutil.copytree(store, path)
    fill(store, 20, 30)
    fill(branch, 60, 90)
    fill(other, 0, 20)  # has the same ids at the same offsets, from another time
    archive(spark, str(store), target, broker="broker-a")
    twice = "is archived already, from a broker named broker-a, and comes from one named broker-b"
    for path in (copy, branch):
        with pytest.raises(SourceError, match=twice):
            archive(spark, str(path), target, broker="broker-b")
    named = messages(spark, copy).withColumn("broker", functions.lit("broker-b"))
    with pytest.raises(SourceError, match=twice):
        archive_rows(named.drop("msgId"), target)
    assert archived(spark, target).count() == 30
    assert archive(spark, str(other), target, broker="broker-b").messages == 20


def test_holes_are_refused_or_closed(spark: "SparkSession", tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, 0, 30)
    rows = messages(spark, store).where("topic = 'orders' and queueOffset != 2")
    with pytest.raises(SourceError, match="queue 0 of orders lacks 1 messages between offsets 0"):
        restore_rows(rows, str(tmp_path / "new"))
    done = restore_rows(
        rows.where("queueOffset > 0"), str(tmp_path / "new"), renumber=True, log_file_bytes=4096
    )
    new = messages(spark, tmp_path / "new")
    assert done.renumbered > 0
    offsets = [
        row["queueOffset"] for row in new.where("queue = 1").orderBy("logPosition").collect()
    ]
    assert offsets == list(range(1, 1 + len(offsets)))
    assert verify_store(tmp_path / "new").is_sound
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "store"]


def test_kinds_of_differences_and_of_consumption(spark: "SparkSession") -> None:
    kinds = "topic string, msgId string, keys string, tags string, body binary, flag int"

    def table(*rows: tuple[Any, ...]) -> "DataFrame":
        return spark.createDataFrame([("T", *row) for row in rows], kinds)

    same = ("same", "k", None, b"x", 0)
    again, torn = ("again", "", "", b"", 0), ("torn", "", "", None, 0)
    left = table(
        same,
        ("L", None, None, b"", 0),
        ("body", "", "", b"1", 0),
        ("key", "a b", "", b"", 0),
        again,
        torn,
    )
    right = table(
        same,
        ("R", None, None, b"", 0),
        ("body", "", "", b"2", 0),
        ("key", "a", "b", b"", 0),
        again,
        again,
        torn,
    )
    found = {row["msgId"]: row["kind"] for row in compare_rows(left, right).collect()}
    assert found == {
        "same": None,
        "L": "missing right",
        "R": "missing left",
        "body": "different",
        "key": "different",
        "again": "repeated",
        "torn": "different",
    }

    def record(*fields: object) -> str:
        return "\x01".join(map(str, fields)) + "\x02"

    def call(number: str, key: str, success: str, group: str = "g", old: bool = False) -> str:
        behind = () if old else (1_700_000_000_001, group)
        return record("SubBefore", 1_700_000_000_000, "R", group, number, key, 0, "k") + record(
            "SubAfter", number, key, 5, success, "k", 0, *behind
        )

    trace = record("Pub", 1, "R", "p", "T", "m0", "", "", "h", 1, 1, 0, "o", "true")
    trace += call("1", "m0", "true") + call("2", "m1", "true", old=True) + call("3", "m1", "true")
    trace += call("4", "m2", "false") + call("5", "m3", "false") + call("6", "m4", "true", "other")
    trace += call("7", "m6", "false") + call("8", "m6", "true")
    bodies = spark.createDataFrame(
        [(trace.encode(),), (call("1", "m0", "true").encode(),)], "body binary"
    )
    records = trace_records(bodies)
    rows = [("T", 0, number, f"m{number}") for number in range(8)]
    place = "topic string, queue int"
    of_topic = spark.createDataFrame(rows, f"{place}, queueOffset bigint, msgId string")
    progress = spark.createDataFrame(
        [("g", "T", 0, 7), ("other", "T", 0, 8)], f"group string, {place}, offset bigint"
    )
    dead = spark.createDataFrame([("m3",)], "msgId string")
    audited = audit_rows(of_topic, progress, records, group="g", dead=dead)
    assert {row["msgId"]: (row["kind"], row["attempts"]) for row in audited.collect()} == {
        "m0": ("once", 1),
        "m1": ("repeated", 2),
        "m2": ("failed", 1),
        "m3": ("dead letter", 1),
        "m4": ("no record", 0),
        "m5": ("no record", 0),
        "m6": ("once", 2),
        "m7": ("waiting", 0),
    }


@pytest.mark.usefixtures("the_session_stays")
def test_a_group_is_audited_by_its_offsets_and_its_trace(
    spark: "SparkSession", tmp_path: Path
) -> None:
    cluster = lanemq_cluster(tmp_path)

    async def main() -> None:
        succeeded = set[bytes]()
        is_done = trio.Event()

        async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
            (message,) = messages
            if message.body == b"2" and not message.reconsume_times:
                return Outcome.RETRY
            succeeded.add(message.body)
            if len(succeeded) == SENT:
                is_done.set()
            return None

        async with running(cluster):
            await cluster.control.create_topic("orders", 1)
            async with open_producer(
                "p", name_servers=cluster.name_server, options=PATIENT
            ) as producer:
                for number in range(SENT):
                    await producer.send(Message(topic="orders", body=b"%d" % number))
            options = PushOptions(
                consume_from=ConsumeFrom.FIRST_OFFSET, client=ClientOptions(trace=True)
            )
            async with open_push_consumer(
                "billing",
                name_servers=cluster.name_server,
                subscriptions={"orders": "*"},
                listener=ConcurrentListener(handle),
                options=options,
            ):
                await is_done.wait()
            async with open_producer(
                "p", name_servers=cluster.name_server, options=PATIENT
            ) as producer:
                await producer.send(Message(topic="orders", body=b"behind"))

    trio.run(main)
    store, given = cluster.folder / "store", ("--topic", "orders", "--group", "billing")
    report = run("audit", store, *given)
    assert report["kinds"] == {"once": SENT, "waiting": 1}
    none = tmp_path / "records"
    spark_records = pa.table({"group": ["billing"], "msgId": ["x"], "success": [True]})
    none.mkdir()
    parquet.write_table(spark_records, none / "part.parquet")
    unrecorded = run("audit", store, *given, "--records", none, code=1)
    assert unrecorded["kinds"] == {"no record": SENT, "waiting": 1}
    assert unrecorded["first"][0]["kind"] == "no record"
    with pytest.raises(SourceError, match="has no offsets of a group biling; it has those of bil"):
        audit(spark, str(store), "orders", "biling")


@pytest.mark.usefixtures("the_session_stays")
def test_topics_are_archived_from_where_the_archive_ends(
    spark: "SparkSession", running_beside: RunningBeside, tmp_path: Path
) -> None:
    target = tmp_path / "archive"
    with running_beside(lambda: lanemq_cluster(tmp_path / "cluster")) as cluster:
        trio.run(cluster.control.create_topic, "orders", 2)
        source = f"rocketmq://{cluster.name_server}"

        def send(begin: int, end: int) -> None:
            with blocking.open_producer(
                "p", name_servers=cluster.name_server, options=PATIENT
            ) as producer:
                for number in range(begin, end):
                    producer.send(
                        Message(topic="orders", body=b"%d" % number, keys=(f"k{number}",))
                    )

        def archive_it() -> int:
            done: int = run("archive", source, target, "--topic", "orders")["messages"]
            return done

        send(0, 12)
        assert archive_it() == 12
        assert archive_it() == 0
        send(12, 20)
        assert archive_it() == 8
        rows = archived(spark, str(target)).collect()
        assert sorted(int(row["body"]) for row in rows) == list(range(20))
        assert len({row["broker"] for row in rows}) == 1
        same = compare(spark, str(target), source, topics=["orders"])
        assert (same.left_messages, same.right_messages, same.differences) == (20, 20, {})
        assert run("count", source, "--topic", "orders") == {"orders": 20}
        (one,) = find(spark, [source], ["k7"], topics=["orders"])
        assert one.broker
        topic = spark.read.format("rocketmq").options(
            nameserver=cluster.name_server, subscribe="orders"
        )
        nameless = str(tmp_path / "nameless")
        with pytest.raises(SourceError, match=f"from a broker named {one.broker}, and comes from"):
            archive_rows(topic.load(), str(target))
        assert archive_rows(topic.load(), nameless).messages == 20
        send(20, 25)
        with pytest.raises(SourceError, match=f"and comes from one named {one.broker} now"):
            archive(spark, source, nameless, topics=["orders"])
        assert archive_rows(topic.load(), nameless).messages == 5
        assert archived(spark, nameless).count() == 25


def test_a_driver_that_is_killed_has_archived_all_or_nothing(
    spark: "SparkSession", spark_apart: dict[str, str], tmp_path: Path
) -> None:
    store, target = tmp_path / "store", tmp_path / "archive"
    fill(store, 0, 50)
    archive(spark, str(store), str(target))
    fill(store, 50, 90)
    paths = (str(MAIN), "archive", str(store), str(target))
    command = [sys.executable, *paths, "--master", "local[1]"]
    process = subprocess.Popen(command, env=spark_apart, start_new_session=True)
    limit = time.monotonic() + 300
    while not list(target.glob("_commits/*.run")):  # it has begun, and may be anywhere behind
        assert process.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.005)
    kill_session(process)
    left = Commits(str(target)).read()
    assert left.version in (1, 2)
    assert len(archived(spark, str(target)).collect()) == (50, 90)[left.version - 1]
    archive(spark, str(store), str(target))
    assert kept(archived(spark, str(target))) == kept(messages(spark, store))
    assert kept(spark.read.parquet(str(target))) == kept(messages(spark, store))
    assert not list(target.glob("_commits/*.run"))


@pytest.mark.parametrize("version", first(1, ["5.3.3", "4.9.7"]))
def test_apache_reads_what_was_restored(
    spark: "SparkSession", recorded_stores: Path, tmp_path: Path, version: str
) -> None:
    require_tools("java")
    name = f"file-{version}-clean"
    source, target = recorded_stores / name, tmp_path / "archive"
    stand = StoreStand(tmp_path / "stand")
    done = archive(spark, str(source), str(target))
    with pytest.raises(SourceError, match=r"has no messages of nothing \(it has "):
        compare(spark, str(target), str(target), topics=["nothing"])
    restored = restore(
        spark,
        str(target),
        str(stand.store),
        renumber=True,
        log_file_bytes=int(stand.settings["mappedFileSizeCommitLog"]),
        queue_file_bytes=int(stand.settings["mappedFileSizeConsumeQueue"]),
    )
    assert restored.messages == done.messages

    async def look() -> Any:  # noqa: ANN401 - what a broker shows
        async with stand.run(f"apache-{version}", Stage.FILES):
            return await stand.view()

    view = trio.run(look)
    assert view.holes == view.shifted == []
    expected = archived(spark, str(target)).groupBy("topic", "queue").count().collect()
    for row in expected:
        begin, end = view.bounds[row["topic"], row["queue"]]
        assert end - begin >= row["count"]
    shutil.rmtree(stand.folder)
