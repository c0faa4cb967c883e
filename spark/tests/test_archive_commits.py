"""Whatever runs are killed, retried or overtaken, an archive has each message once or not yet.

What Spark's processes do is done here without a session: tasks, then a commit.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from lanemq.testkit.spark import require_packages

require_packages("deltalake")

import pyarrow as pa  # noqa: E402
from deltalake import DeltaTable  # noqa: E402
from pyarrow import parquet  # noqa: E402
from pyspark.sql.pandas.types import from_arrow_schema  # noqa: E402

from lanemq.spark import SourceError  # noqa: E402
from lanemq.spark.archives import (  # noqa: E402
    ArchivedQueue,
    Commits,
    Span,
    WrittenFile,
    open_archive,
    queue_text,
)
from lanemq.spark.archives._sink import ArchiveWriter  # noqa: E402

pytestmark = pytest.mark.slow
SCHEMA = pa.schema(
    [
        ("broker", pa.string()),
        ("topic", pa.string()),
        ("queue", pa.int32()),
        ("queueOffset", pa.int64()),
        ("msgId", pa.string()),
        ("day", pa.date32()),
    ]
)
COLUMNS = from_arrow_schema(SCHEMA)
Message = tuple[str, str, int, int]
ORDER = ("topic", "day", "broker", "queue", "queueOffset")
TOPICS = ("orders", "%RETRY%billing", "a b=c")


def batches_of(messages: list[Message]) -> Iterator[Any]:
    """Batches as Spark gives them to a task: sorted, a few rows each."""
    rows = [
        {
            "broker": broker,
            "topic": topic,
            "queue": queue,
            "queueOffset": offset,
            "msgId": f"{topic} {queue} {offset}",
            "day": date(2026, 1, 1 + offset % 3),
        }
        for broker, topic, queue, offset in messages
    ]
    rows.sort(key=lambda row: [row[name] for name in ORDER])
    for begin in range(0, len(rows), 3):
        yield pa.RecordBatch.from_pylist(rows[begin : begin + 3], schema=SCHEMA)


def archived_messages(root: Path, form: str) -> Counter[Message]:
    """The messages in the files that count."""
    found: Counter[Message] = Counter()
    for path in open_archive(f"{form}{root}").paths():
        name = str(Path(path).relative_to(root))
        topic = next(one for one in TOPICS if name.startswith(f"topic={quoted(one)}/"))
        for row in parquet.ParquetFile(root / name).read().to_pylist():
            found[row["broker"], topic, row["queue"], row["queueOffset"]] += 1
            assert f"day=2026-01-0{1 + row['queueOffset'] % 3}/" in name
    return found


def messages_of_delta(root: Path) -> Counter[Message]:
    """The messages of a table, as its own library reads them."""
    columns = ["broker", "topic", "queue", "queueOffset"]
    table = pa.table(DeltaTable(str(root)).scan(columns))
    return Counter(tuple(row[name] for name in columns) for row in table.to_pylist())


def quoted(topic: str) -> str:
    return topic.replace("%", "%25").replace(" ", "%20").replace("=", "%3D")


class Run:
    """A run that has begun: tasks may have written, nothing is committed."""

    def __init__(self, target: str, name: str) -> None:
        self.name = name
        self.archive = open_archive(target)
        self.archive.prepare(COLUMNS)
        self.known = self.archive.begin(name)
        self.writer = ArchiveWriter(target, name)

    def fresh(self, source: list[Message]) -> list[Message]:
        ends = self.known.ends
        return [
            one
            for one in source
            if one[3] >= ends.get(ArchivedQueue(*one[:3]), Span(0, 0, None)).end
        ]


class Archiving(RuleBasedStateMachine):
    """Messages come; runs begin, write, commit, end, and are killed between any two of these."""

    folder: Path
    form = ""
    """The beginning of addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.root = self.folder / f"archive-{len(list(self.folder.iterdir()))}"
        self.root.mkdir()
        self.target = f"{self.form}{self.root}"
        self.source: list[Message] = []
        self.ends: Counter[tuple[str, str, int]] = Counter()
        self.runs: list[Run] = []
        self.count = 0

    @rule(
        broker=st.sampled_from(["a", "b"]),
        topic=st.sampled_from(TOPICS),
        queue=st.integers(0, 1),
        count=st.integers(1, 5),
    )
    def messages_come(self, broker: str, topic: str, queue: int, count: int) -> None:
        for _ in range(count):
            place = broker, topic, queue
            self.source.append((*place, self.ends[place]))
            self.ends[place] += 1

    def begin(self) -> Run:
        self.count += 1
        return Run(self.target, f"run{self.count}")

    def write(self, run: Run, tasks: int, attempts: int) -> list[Any]:
        rows = run.fresh(self.source)
        parts = [rows[number::tasks] for number in range(tasks)]
        for part in parts[:attempts]:  # executors that were lost have written the same rows
            run.writer.write(batches_of(part))
        return [run.writer.write(batches_of(part)) for part in parts]

    @rule(tasks=st.integers(1, 3), attempts=st.integers(0, 2), seen=st.sampled_from(["all", "not"]))
    def a_run_goes_through(self, tasks: int, attempts: int, seen: str) -> None:
        run = self.begin()
        written = self.write(run, tasks, attempts)
        run.writer.commit(written)
        if seen == "all":
            run.archive.end(run.name)

    @rule(tasks=st.integers(1, 3), attempts=st.integers(0, 2))
    def a_run_is_killed_before_its_commit(self, tasks: int, attempts: int) -> None:
        run = self.begin()
        self.write(run, tasks, attempts)
        self.runs.append(run)

    @rule()
    def a_run_that_was_overtaken_commits(self) -> None:
        """It was not killed, but slow; another one may have taken its place, or not."""
        if not self.runs:
            return
        run = self.runs.pop()
        is_overtaken = self.is_overtaken(run)
        written = self.write(run, 1, 0)
        if is_overtaken and any(one.files for one in written):
            with pytest.raises(SourceError, match=self.overtaken):
                run.writer.commit(written)
        else:
            run.writer.commit(written)
        run.archive.end(run.name)

    overtaken = "another run has taken the place of this one"

    def is_overtaken(self, run: Run) -> bool:
        return not (self.root / f"_commits/{run.name}.run").exists()

    @invariant()
    def each_message_is_there_once_or_not_yet(self) -> None:
        found = archived_messages(self.root, self.form)
        assert not [one for one, count in found.items() if count != 1]
        expected = set()
        for place, span in open_archive(self.target).read().ends.items():
            expected |= {(*place, offset) for offset in range(span.begin, span.end)}
            assert span.begin == 0
        assert set(found) == expected

    def teardown(self) -> None:
        run = self.begin()
        written = self.write(run, 2, 1)
        run.writer.commit(written)
        run.archive.end(run.name)
        assert set(archived_messages(self.root, self.form)) == set(self.source)
        self.clean_up()
        there = {str(path) for path in self.root.glob("topic=*/*/*")}
        assert there == set(run.archive.paths())
        assert run.archive.read().missing == {}

    def clean_up(self) -> None:
        """Check that nothing of killed runs is left."""
        assert not list(self.root.glob("_commits/*.run"))


class ArchivingToDelta(Archiving):
    """The same in a table of Delta Lake, where runs do not forbid each other anything."""

    form = "delta:"
    overtaken = "another run has archived it meanwhile"

    def is_overtaken(self, run: Run) -> bool:
        now = run.archive.read().ends
        places = [ArchivedQueue(*one[:3]) for one in run.fresh(self.source)]
        return any(now.get(one) != run.known.ends.get(one) for one in places)

    def clean_up(self) -> None:
        table = DeltaTable(str(self.root))
        assert messages_of_delta(self.root) == archived_messages(self.root, self.form)
        table.optimize.compact()
        table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        assert messages_of_delta(self.root) == archived_messages(self.root, self.form)
        run = self.begin()  # a compacted table is still at the same offsets
        assert run.fresh(self.source) == []
        assert run.known.missing == {}


@pytest.mark.parametrize(("machine", "examples"), [(Archiving, 20), (ArchivingToDelta, 20)])
def test_each_message_is_archived_once(
    tmp_path: Path, machine: type[Archiving], examples: int
) -> None:
    kind = type("Machine", (machine,), {"folder": tmp_path})
    run_state_machine_as_test(
        kind, settings=settings(max_examples=examples, stateful_step_count=12)
    )


def test_offsets_that_lack_are_counted_and_double_ones_refused(tmp_path: Path) -> None:
    commits = Commits(str(tmp_path))
    place = ArchivedQueue("a", "orders", 0)
    commits.begin("one")
    commits.commit(
        "one", [WrittenFile("f1", 1, None)], {place: [Span(8, 10, "x"), Span(3, 6, "y")]}
    )
    known = commits.read()
    assert (known.ends, known.missing) == ({place: Span(3, 10, "x")}, {place: 2})
    with pytest.raises(SourceError, match="queue 0 of orders at a has offset 9 twice"):
        commits.commit("two", [WrittenFile("f2", 1, None)], {place: [Span(9, 12, None)]})
    with pytest.raises(SourceError, match="has offset 21 twice"):
        commits.commit(
            "two", [WrittenFile("f2", 1, None)], {place: [Span(20, 22, None), Span(21, 23, None)]}
        )
    commits.commit("two", [WrittenFile("f2", 1, None)], {place: [Span(12, 13, "z")]})
    commits.commit(
        "two", [WrittenFile("f2", 1, None)], {place: [Span(12, 13, "z")]}
    )  # Spark asks again
    known = commits.read()
    assert (known.version, known.files) == (2, ["f1", "f2"])
    assert (known.ends, known.missing) == ({place: Span(3, 13, "z")}, {place: 4})
    (tmp_path / "_commits/0000000001.json").unlink()
    with pytest.raises(SourceError, match="commit 1 of the archive is missing"):
        commits.read()


@given(st.text(), st.text(), st.integers(-(1 << 31), (1 << 31) - 1))
def test_queues_have_names(broker: str, topic: str, queue: int) -> None:
    from lanemq.spark.archives import parse_queue

    place = ArchivedQueue(broker, topic, queue)
    assert parse_queue(queue_text(place)) == place
