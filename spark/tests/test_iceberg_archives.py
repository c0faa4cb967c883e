"""Tables of Iceberg as archives: what their snapshots say, and what others do to them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lanemq.testkit.spark import lake, require_packages

require_packages("pyiceberg")

import pyarrow as pa  # noqa: E402
from pyiceberg.catalog import Catalog, load_catalog  # noqa: E402
from pyiceberg.schema import Schema  # noqa: E402
from pyiceberg.table import Table, Transaction  # noqa: E402
from pyiceberg.utils.config import Config  # noqa: E402
from pyspark.sql.pandas.types import from_arrow_schema  # noqa: E402

from lanemq.spark import SourceError  # noqa: E402
from lanemq.spark.archives import ArchivedQueue, Span, is_archive, open_archive  # noqa: E402
from lanemq.testkit.spark_archives import ROWS, ArchiveRun, archive_offsets, rows_of  # noqa: E402

pytestmark = pytest.mark.slow
TARGET = "iceberg://lake/mq.years.messages"


@pytest.fixture(autouse=True)
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    for name, value in lake(tmp_path).items():
        monkeypatch.setenv(name, value)
    properties = Config().get_catalog_config("lake") or {}
    with load_catalog("lake", **{name: str(value) for name, value in properties.items()}) as found:
        yield found


def table_of(catalog: Catalog) -> Table:
    return catalog.load_table(TARGET.rpartition("/")[2])


def offsets_of(catalog: Catalog, condition: str = "true") -> list[int]:
    rows = table_of(catalog).scan(condition, ("queueOffset",)).to_arrow()
    return sorted(rows["queueOffset"].to_pylist())


def files_of(catalog: Catalog, condition: str = "true") -> set[str]:
    tasks = table_of(catalog).scan(condition).plan_files()
    return {task.file.file_path.removeprefix("file://") for task in tasks}


def end_of(topic: str = "T") -> int:
    return open_archive(TARGET).read().ends[ArchivedQueue("a", topic, 0)].end


def test_readers_leave_out_files_by_topic_day_and_bounds(catalog: Catalog, tmp_path: Path) -> None:
    retries = "%RETRY%a_group_with_a_name_of_some_length"
    archive_offsets(TARGET, "one", range(2))
    archive_offsets(TARGET, "two", range(2, 30))
    archive_offsets(TARGET, "three", range(4), topic=retries)
    assert len(files_of(catalog)) == 1 + 2 + 2
    assert len(files_of(catalog, "topic = 'T' and day = '2026-01-02'")) == 1
    assert len(files_of(catalog, "queueOffset >= 26")) == 1
    assert offsets_of(catalog, f"topic = '{retries}' and day = '2026-01-02'") == [2, 3]
    whole = table_of(catalog).scan().to_arrow().to_pylist()
    assert len(whole) == 34
    for row in whole:
        assert row["storeTimestamp"].date() == row["day"]
        assert dict(row["properties"]) == {"n": str(row["queueOffset"])}
    assert files_of(catalog) == {str(path) for path in tmp_path.rglob("*.parquet")}


@pytest.mark.parametrize(("topic", "offsets"), [("T", range(8)), ("other", range(8))])
def test_of_two_commits_in_one_moment_none_doubles_the_other(
    catalog: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    topic: str,
    offsets: Sequence[int],
) -> None:
    archive_offsets(TARGET, "zero", range(3))
    late = ArchiveRun(TARGET, "late", range(3, 6))
    first = ArchiveRun(TARGET, "first", offsets[3:], topic)
    add, calls = Transaction.add_files, []

    def add_behind_another(*arguments: Any, **named: Any) -> None:  # noqa: ANN401 - as it is
        calls.append(arguments)
        if len(calls) == 1:  # the state is read, and now it becomes another one
            first.commit()
        add(*arguments, **named)

    monkeypatch.setattr(Transaction, "add_files", add_behind_another)
    if topic == "T":
        with pytest.raises(SourceError, match="has offset 3 twice: another run has archived it"):
            late.commit()
        assert offsets_of(catalog) == [*range(8)]
    else:
        late.commit()
        assert len(calls) == 3
        assert offsets_of(catalog, "topic = 'T'") == [*range(6)]
        assert offsets_of(catalog, "topic = 'other'") == [3, 4, 5, 6, 7]
    last = first if topic == "T" else late
    last.writer.commit([last.written])  # Spark asks twice
    assert files_of(catalog) == {str(path) for path in tmp_path.rglob("*.parquet")}


def test_what_others_do_to_a_table_leaves_the_next_run_its_beginning(catalog: Catalog) -> None:
    archive_offsets(TARGET, "one", range(3))
    archive_offsets(TARGET, "two", range(3, 5))
    two = table_of(catalog).current_snapshot()
    assert two is not None
    archive_offsets(TARGET, "three", range(5, 6))
    table_of(catalog).delete("queueOffset = 1")
    assert (end_of(), offsets_of(catalog)) == (6, [0, 2, 3, 4, 5])
    with table_of(catalog).manage_snapshots() as snapshots:
        snapshots.rollback_to_snapshot(two.snapshot_id)
    assert (end_of(), offsets_of(catalog)) == (5, [*range(5)])
    archive_offsets(TARGET, "four", range(5, 7))
    table_of(catalog).delete("queueOffset = 0")
    table = table_of(catalog)
    current = table.current_snapshot()
    assert current is not None
    old = [one.snapshot_id for one in table.snapshots() if one != current]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    assert len(table_of(catalog).snapshots()) == 1  # none of an archive is left
    assert open_archive(TARGET).read().ends == {ArchivedQueue("a", "T", 0): Span(0, 7, "T 6")}
    archive_offsets(TARGET, "five", range(7, 9))
    assert offsets_of(catalog) == [*range(1, 9)]


def test_a_table_rolled_back_to_before_its_first_archive_has_none(catalog: Catalog) -> None:
    open_archive(TARGET).prepare(from_arrow_schema(ROWS))
    utc = pa.field("storeTimestamp", pa.timestamp("us", "UTC"))
    rows = pa.Table.from_batches([rows_of([77], "mine")])
    table_of(catalog).append(rows.cast(ROWS.set(ROWS.get_field_index(utc.name), utc)))
    own = table_of(catalog).current_snapshot()
    assert own is not None
    archive_offsets(TARGET, "one", range(3))
    with table_of(catalog).manage_snapshots() as snapshots:
        snapshots.rollback_to_snapshot(own.snapshot_id)
    archive_offsets(TARGET, "two", range(3))
    assert offsets_of(catalog) == [0, 1, 2, 77]


def test_tables_that_are_no_archives_are_refused(catalog: Catalog) -> None:
    def refused(address: str, why: str) -> None:
        with pytest.raises(SourceError, match=why):
            open_archive(address).prepare(from_arrow_schema(ROWS))

    catalog.create_namespace("mq")
    catalog.create_table("mq.plain", Schema())
    catalog.create_table("mq.old", Schema(), properties={"format-version": "1"})
    refused("iceberg://lake/mq.old", "of version 1 of the format")
    refused("iceberg://lake/mq.plain", "is not partitioned by topic and day")
    refused("iceberg://lake/", "a table of Iceberg is iceberg://CATALOG/NAMESPACE.TABLE")
    refused("iceberg://nowhere/mq.t", "catalog nowhere cannot be opened: URI missing")
    assert not is_archive("iceberg://lake/mq.nothing")
    archive_offsets("iceberg://lake/mq.it", "one", range(3))
    more = from_arrow_schema(ROWS).add("colour", "string")
    with pytest.raises(SourceError, match="the table has no column colour"):
        open_archive("iceberg://lake/mq.it").prepare(more)
    with pytest.raises(SourceError, match="no column of messages has the type of weight"):
        open_archive("iceberg://lake/mq.new").prepare(more.add("weight", "double"))
    assert pa.types.is_date(ROWS.field("day").type)
