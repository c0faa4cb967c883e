"""Tables of Delta Lake as archives: what their log says, and what others do to it."""

import importlib.util
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lanemq.testkit.spark import require_packages

require_packages("deltalake")

import pyarrow as pa  # noqa: E402
from deltalake import DeltaTable  # noqa: E402
from pyspark.sql.pandas.types import from_arrow_schema  # noqa: E402

from lanemq.spark import SourceError  # noqa: E402
from lanemq.spark.archives import ArchivedQueue, Span, is_archive, open_archive  # noqa: E402
from lanemq.testkit.spark_archives import (  # noqa: E402
    FIRST,
    ROWS,
    ArchiveRun,
    archive_offsets,
)

pytestmark = pytest.mark.slow


def offsets_of(root: Path, condition: str | None = None) -> list[int]:
    found = pa.table(DeltaTable(str(root)).scan(["queueOffset"], condition))
    return sorted(found["queueOffset"].to_pylist())


def files_of(table: DeltaTable, condition: str) -> int:
    return len(table.file_uris(file_pruning_predicate=condition))


def end_of(target: str, topic: str = "T") -> int:
    return open_archive(target).read().ends[ArchivedQueue("a", topic, 0)].end


def test_readers_leave_out_files_by_topic_day_and_bounds(tmp_path: Path) -> None:
    target = f"delta:{tmp_path}"
    archive_offsets(target, "one", range(2))
    archive_offsets(target, "two", range(2, 30))
    archive_offsets(target, "three", range(4), topic="%RETRY%g")
    table = DeltaTable(str(tmp_path))
    assert len(table.file_uris()) == 1 + 2 + 2
    assert files_of(table, "topic = 'T' and day = '2026-01-02'") == 1
    assert files_of(table, "queueOffset >= 26") == 1
    assert offsets_of(tmp_path, "topic = '%RETRY%g' and day = '2026-01-02'") == [2, 3]
    last = FIRST + timedelta(hours=29, microseconds=3)
    assert offsets_of(tmp_path, f"storeTimestamp >= '{last.isoformat()}'") == [29]
    bounds = [
        (row["min.storeTimestamp"], row["max.storeTimestamp"])
        for row in pa.table(table.get_add_actions(flatten=True)).to_pylist()
        if row["max.queueOffset"] == 29
    ]
    last_millisecond = FIRST + timedelta(hours=29, milliseconds=1)
    assert bounds == [(datetime(2026, 1, 3, tzinfo=UTC), last_millisecond)]
    whole = pa.table(table.scan()).to_pylist()
    assert {row["storeTimestamp"].date() == row["day"] for row in whole} == {True}
    assert dict(whole[0]["properties"]) == {"n": str(whole[0]["queueOffset"])}


@pytest.mark.parametrize(("topic", "offsets"), [("T", range(8)), ("other", range(8))])
def test_of_two_commits_in_one_moment_none_doubles_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: str, offsets: Sequence[int]
) -> None:
    target = f"delta:{tmp_path}"
    archive_offsets(target, "zero", range(3))
    late, first = (
        ArchiveRun(target, "late", range(3, 6)),
        ArchiveRun(target, "first", offsets[3:], topic),
    )
    commit = DeltaTable.create_write_transaction
    calls = []

    def commit_behind_another(*arguments: Any, **named: Any) -> None:  # noqa: ANN401 - as it is
        calls.append(arguments)
        if len(calls) == 1:  # the state is read, and now it becomes another one
            first.commit()
        commit(*arguments, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", commit_behind_another)
    if topic == "T":
        with pytest.raises(SourceError, match="has offset 3 twice: another run has archived it"):
            late.commit()
        assert offsets_of(tmp_path) == [*range(8)]
    else:
        late.commit()
        assert len(calls) == 3
        assert offsets_of(tmp_path, "topic = 'T'") == [*range(6)]
        assert offsets_of(tmp_path, "topic = 'other'") == [3, 4, 5, 6, 7]
    last = first if topic == "T" else late
    last.writer.commit([last.written])  # Spark asks twice
    written = {str(path) for path in tmp_path.glob("topic=*/*/*.parquet")}
    assert written == set(open_archive(target).paths())


def test_what_others_do_to_a_table_leaves_the_next_run_its_beginning(tmp_path: Path) -> None:
    target = f"delta:{tmp_path}"
    archive_offsets(target, "one", range(3))
    archive_offsets(target, "two", range(3, 5))
    archive_offsets(target, "three", range(5, 6))
    table = DeltaTable(str(tmp_path))
    table.delete("queueOffset = 1")
    table.optimize.compact()
    assert end_of(target) == 6
    assert offsets_of(tmp_path) == [0, 2, 3, 4, 5]
    table.restore(2)
    assert offsets_of(tmp_path) == [*range(5)]
    assert end_of(target) == 5
    archive_offsets(target, "four", range(5, 7))
    assert offsets_of(tmp_path) == [*range(7)]
    assert open_archive(target).read().ends == {
        ArchivedQueue("a", "T", 0): Span(0, 7, "T 6"),
    }


def test_a_log_without_what_is_archived_is_refused(tmp_path: Path) -> None:
    target = f"delta:{tmp_path}"
    archive_offsets(target, "one", range(3))
    table = DeltaTable(str(tmp_path))
    table.delete("queueOffset = 1")
    DeltaTable(str(tmp_path)).create_checkpoint()
    version = DeltaTable(str(tmp_path)).version()
    for number in range(version):
        (tmp_path / f"_delta_log/{number:020d}.json").unlink()
    assert offsets_of(tmp_path) == [0, 2]
    with pytest.raises(SourceError, match="no longer has the commit that says what is archived"):
        ArchiveRun(target, "two", range(3))


def test_tables_that_are_no_archives_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str, why: str) -> None:
        with pytest.raises(SourceError, match=why):
            open_archive(f"delta:{tmp_path / name}").prepare(from_arrow_schema(ROWS))

    by, kinds = (
        ["topic", "day"],
        ROWS.set(5, pa.field("storeTimestamp", pa.timestamp("us", "UTC"))),
    )
    DeltaTable.create(str(tmp_path / "days"), kinds, partition_by=["day"])
    refused("days", "is not partitioned by topic and day")
    DeltaTable.create(str(tmp_path / "few"), kinds.remove(4), partition_by=by)
    refused("few", "the table has no column msgId")
    texts = kinds.set(2, pa.field("queue", pa.string()))
    DeltaTable.create(str(tmp_path / "texts"), texts, partition_by=by)
    refused("texts", "column queue is of type .*string.* of type .*integer")
    features = {"delta.enableDeletionVectors": "true"}
    DeltaTable.create(str(tmp_path / "cut"), kinds, partition_by=by, configuration=features)
    refused("cut", "uses deletionVectors")
    open_archive(str(tmp_path / "plain")).begin("run")
    refused("plain", "is an archive of Parquet already")
    assert not is_archive(f"delta:{tmp_path / 'nothing'}")
    assert not is_archive(str(tmp_path / "nothing"))
    archive_offsets(f"delta:{tmp_path / 'it'}", "one", range(3))
    archive_offsets(str(tmp_path / "it"), "two", range(3, 5))  # a table, by what is there
    assert offsets_of(tmp_path / "it") == [*range(5)]
    with pytest.raises(SourceError, match="options of a file system are not for tables"):
        open_archive("delta:s3://bucket/table?region=x")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    refused("it", r"deltalake is not installed: pip install 'lanemq\[delta\]'")
