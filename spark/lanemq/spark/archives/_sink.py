"""The sink ``rocketmq-archive``: each task writes files, and the driver commits all of them.

Rows come sorted by topic, day, broker, queue and offset, so a task has one file open at a time.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from .._errors import OptionInvalid
from .._options import Option, Options
from ._files import ArchiveFiles
from ._open import open_archive
from ._state import ARCHIVED, PARTITIONED, ArchivedQueue, Span, WrittenFile, merged

NAME: Final = "rocketmq-archive"
OPTIONS: Final = (Option("path"), Option("run"))
FILE_BYTES: Final = 256 << 20
"""Bytes of rows, as Arrow has them, after which a file ends."""


@final
class ArchiveSink(DataSource):
    """An archive, as rows are added to it."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> "ArchiveWriter":
        options = Options(NAME, OPTIONS, dict(self.options))
        if overwrite:
            raise OptionInvalid(f"{NAME}: messages are only added: write with mode append")
        needed = {*ARCHIVED, *PARTITIONED}
        if missing := sorted(needed - set(schema.fieldNames())):
            raise OptionInvalid(f"{NAME}: rows have no column {', '.join(missing)}")
        return ArchiveWriter(options.text("path"), options.text("run"))


@dataclass
class Written(WriterCommitMessage):
    """The result of a task: its files, and the offsets in them."""

    files: list[WrittenFile]
    spans: dict[ArchivedQueue, list[Span]]


@final
class ArchiveWriter(DataSourceArrowWriter):
    """A run that adds to an archive. Files of tasks that failed, or ran twice, count for nobody."""

    def __init__(self, target: str, run: str) -> None:
        self._target = target
        self._run = run
        archive = open_archive(target)
        self._root = archive.root  # executors know no tables, only where files go
        self._left_out = () if archive.holds_partitions else PARTITIONED

    def write(self, iterator: Iterator[Any]) -> Written:
        prefix = f"{self._run}-{uuid.uuid4().hex[:12]}"
        task = _Task(ArchiveFiles(self._root), prefix, self._left_out)
        try:
            for batch in iterator:
                for part in _by_directory(batch):
                    task.put(*part)
        finally:
            task.close()
        return Written(task.files, task.spans)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = [one for one in messages if isinstance(one, Written)]
        files = [file for one in written for file in one.files]
        if files:
            spans = merged(one.spans for one in written)
            open_archive(self._target).commit(self._run, files, spans)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave all files to the end of the run, which removes them by its name."""


def _by_directory(batch: Any) -> Iterator[tuple[str, str, Any]]:  # noqa: ANN401 - pyarrow has no types
    """Cut a sorted batch where topic or day changes."""
    if not batch.num_rows:
        return
    names = [batch.column(name) for name in PARTITIONED]
    changes = pa.array(np.zeros(batch.num_rows - 1, np.bool_))
    for values in names:
        changes = pc.or_(changes, pc.not_equal(values[1:], values[:-1]))
    for begin, end in _cuts(changes, batch.num_rows):
        topic, day = (values[begin].as_py() for values in names)
        yield topic, str(day), batch.slice(begin, end - begin)


def _cuts(changes: Any, count: int) -> Iterator[tuple[int, int]]:  # noqa: ANN401 - pyarrow has no types
    """Iterate over the ranges of rows between those that differ from the one before."""
    cuts = [0, *(row + 1 for row in pc.indices_nonzero(changes).to_pylist())]
    yield from zip(cuts, [*cuts[1:], count], strict=True)


@final
class _Task:
    """The files of one task."""

    def __init__(self, files: ArchiveFiles, prefix: str, left_out: Sequence[str]) -> None:
        self.files: list[WrittenFile] = []
        self.spans: dict[ArchivedQueue, list[Span]] = {}
        self._target = files
        self._prefix = prefix
        self._left_out = left_out
        self._directory = self._path = ""
        self._footers: list[Any] = []
        self._writer: Any = None
        self._stream: Any = None
        self._size = 0

    def put(self, topic: str, day: str, rows: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        directory = f"topic={quote(topic, safe='')}/day={day}"
        if directory != self._directory or self._size > FILE_BYTES:
            self.close()
            self._directory = directory
            self._path = f"{directory}/{self._prefix}-{len(self.files)}.parquet"
            self._stream = self._target.open_output(self._path)
            self._footers = []
            self._writer = parquet.ParquetWriter(
                self._stream, _plain(rows, self._left_out).schema, metadata_collector=self._footers
            )
        self._writer.write_batch(_plain(rows, self._left_out))
        self._size += rows.nbytes
        self._note(topic, rows)

    def close(self) -> None:
        """End the file that is open."""
        if self._writer is not None:
            self._writer.close()
            size = self._stream.tell()
            self._stream.close()
            self.files.append(WrittenFile(self._path, size, self._footers[0]))
        self._writer, self._directory, self._size = None, "", 0

    def _note(self, topic: str, rows: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        brokers, queues, offsets = (
            rows.column(name) for name in ("broker", "queue", "queueOffset")
        )
        changes = pc.not_equal(offsets[1:], pc.add(offsets[:-1], 1))
        for values in (brokers, queues):
            changes = pc.or_(changes, pc.not_equal(values[1:], values[:-1]))
        ids = rows.column("msgId") if "msgId" in rows.schema.names else None
        for begin, end in _cuts(changes, rows.num_rows):
            place = ArchivedQueue(brokers[begin].as_py(), topic, queues[begin].as_py())
            first, last = offsets[begin].as_py(), offsets[end - 1].as_py()
            last_id = None if ids is None else ids[end - 1].as_py()
            spans = self.spans.setdefault(place, [])
            if spans and spans[-1].end == first:
                first = spans.pop().begin
            spans.append(Span(first, last + 1, last_id))


def _plain(rows: Any, left_out: Sequence[str]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return rows as files have them."""
    kept = rows.drop_columns(list(left_out))
    return kept.cast(pa.schema([_in_utc(field) for field in kept.schema]))


def _in_utc(field: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return a field without the time zone of the session, which Spark gives times."""
    is_time = pa.types.is_timestamp(field.type) and field.type.tz
    return field.with_type(pa.timestamp(field.type.unit, "UTC")) if is_time else field
