"""The judgement on the checks of the queues: the differences that matter, and those a start
fixes."""

from collections.abc import Iterator, Mapping
from typing import final

from lanemq.wire import LMQ_PREFIX, is_system_topic

from ..._config import Stage
from ..._layouts import BLANK_SIZE, Unit
from ..reading._directory import StoreDirectory
from ..reading._queue_files import QueueFiles
from ..reading._rows_view import RowsView
from ._findings import REPAIR, Finding, Part, Progress, Severity
from ._judge_rows import judge_watermark
from ._log_check import LogCheck
from ._redo_start import redo_start
from ._tally import IndexCheck, QueueSpan, Tally

NEXT_START = "the next start of a broker adds them"
DROPPED = "the next start of a broker drops them"
FILL_ROCKSDB = (
    "they come with lanemq's next start with rocksdbCQDoubleWriteEnable=true, or at once with"
    " `convert_to_rocksdb`"
)


@final
class QueueJudge:
    """The judge of all queues: those of the log, of the files and of RocksDB."""

    def __init__(
        self,
        store: StoreDirectory,
        log: LogCheck,
        rows: RowsView | None,
        stage: Stage,
        *,
        topics: set[str] | None,
        deleted: Mapping[str, int],
        indexed_to: int,
    ) -> None:
        """Take the checks. ``topics`` are the existing ones, None where they are not known;
        ``deleted``: topic -> end of the log when lanemq deleted it; ``indexed_to``: position of
        the log from which on the next start makes units."""
        self._store = store
        self._log = log
        self._rows = rows
        self._reads = Part.ROCKSDB if stage.reads_rows else Part.FILES
        self._topics = topics
        self._deleted = deleted
        self._indexed_to = indexed_to
        self._redo_start = redo_start(store)
        self._gone = Tally()
        self.broken: list[tuple[str, int]] = []
        """Queues whose files contradict the log, and that no start fixes."""
        self.broken_rows = False
        self.resume_at: dict[tuple[str, int], int] = {}
        """Broken queue without a message -> offset for the next one."""
        self.known: set[tuple[str, int]] = set()
        """Queues with messages in the log, those of deleted topics left out."""

    def run(self, progress: Progress) -> Iterator[Finding]:
        """Iterate over all findings, queue by queue."""
        queues = {(queue.topic, queue.queue_id): queue for queue in self._store.queues()}
        in_rows = set(self._rows.queues()) if self._rows is not None else set()
        names = sorted(queues.keys() | in_rows | self._log.queues.keys())
        for number, name in enumerate(names):
            span, queue = self._log.queues.get(name), queues.get(name)
            if span is not None and self._is_deleted(name, span, queue, name in in_rows):
                self._gone.add(span.first, span.last_position, name[0], span.records)
                continue
            yield from self._of_queue(name, span, queue, name in in_rows)
            progress("queues", number + 1, len(names))
        if self._gone:
            yield Finding(
                kind="deleted-topics",
                severity=Severity.NOTE,
                part=Part.LOG,
                what=f"{self._gone.count} records are of topics that were deleted, of"
                f" {self._gone.detail} for one",
                count=self._gone.count,
                log_position=self._gone.position,
            )
        if self._rows is not None:
            yield from judge_watermark(
                self._rows.watermark(), self._log.end, has_rows=bool(in_rows)
            )

    def _is_deleted(
        self, name: tuple[str, int], span: QueueSpan, queue: QueueFiles | None, in_rows: bool
    ) -> bool:
        """Return whether a queue of the log is of a topic that was deleted.

        As lanemq noted it; else the table of topics tells, where it is borne out by an index that
        has no unit of it although it had come so far. What the next start makes units of, whether
        or not the table knows the topic, is not to be left out.
        """
        topic = name[0]
        if self._deleted.get(topic, -1) > span.last_position:
            return True
        return (
            queue is None
            and span.last_position < self._indexed_to
            and not in_rows
            and self._topics is not None
            and topic not in self._topics
            and not is_system_topic(topic)
            and not topic.startswith(LMQ_PREFIX)
        )

    def _of_queue(
        self,
        name: tuple[str, int],
        span: QueueSpan | None,
        queue: QueueFiles | None,
        in_rows: bool,
    ) -> Iterator[Finding]:
        if span is not None and span.restarts:
            yield self._finding(
                name,
                "queue-restarted",
                Severity.NOTE,
                Part.LOG,
                span.restarts,
                "times the queue began again: older messages of the topic were deleted",
            )
        if span is not None and span.reused:
            yield self._finding(
                name,
                "offsets-reused",
                Severity.NOTE,
                Part.LOG,
                span.reused,
                "times offsets were handed out again: a broker ran without the queue's last files."
                " Older messages from there on cannot be read by consumers",
                "`open_dump(source='log')` prints them",
            )
        if span is not None and span.gaps:
            yield self._finding(
                name,
                "offset-gap",
                Severity.NOTE,
                Part.LOG,
                span.gaps,
                "offsets have no message in the log; consumers pass over them",
            )
        if span is not None:
            self.known.add(name)
        found = list(self._in_files(name, span, queue))
        is_read = self._reads is Part.FILES
        if any(
            finding.severity is Severity.PROBLEM
            or finding.kind == "units-ahead"
            or (is_read and finding.kind == "units-behind")
            for finding in found
        ):
            self.broken.append(name)
        yield from found
        if self._rows is not None:
            found = list(self._in_rows(self._rows, name, span, in_rows))
            self.broken_rows |= any(finding.severity is Severity.PROBLEM for finding in found)
            yield from found

    def _in_files(
        self, name: tuple[str, int], span: QueueSpan | None, queue: QueueFiles | None
    ) -> Iterator[Finding]:
        if span is not None:
            yield from self._differences(name, Part.FILES, span.files, span.records)
        if queue is None:
            return
        odd = [
            piece for piece in queue.pieces.pieces if piece.size_bytes != queue.pieces.file_bytes
        ]
        if odd:
            tally = Tally(len(odd), detail=queue.pieces.path_of(odd[0].start).name)
            yield self._finding(
                name, "queue-file-size", Severity.PROBLEM, Part.FILES, tally, "files are too short"
            )
        first, end = (span.first, span.next) if span is not None else (None, queue.begin)
        astray, ahead = Tally(), Tally()
        stop = first if first is not None else queue.begin
        for offset, unit in queue.units(queue.begin, stop):
            self._beside(offset, unit, astray, Tally())
        for offset, unit in queue.units(end, end + len(queue.pieces) * queue.per_file):
            if unit.log_position < 0 or unit.size_bytes <= 0:
                break
            self._beside(offset, unit, astray, ahead)
        if span is None:
            offsets = [tally.offset for tally in (astray, ahead) if tally]
            self.resume_at[name] = min(offsets, default=queue.end())
        queue.close()
        yield from self._extra(name, Part.FILES, astray, ahead)

    def _beside(self, offset: int, unit: Unit, astray: Tally, ahead: Tally) -> None:
        """Count a unit that no record of the log asks for."""
        if unit.size_bytes == BLANK_SIZE or unit.log_position < self._log.begin:
            return  # its message is gone
        where = ahead if unit.log_position >= self._log.end else astray
        if unit.size_bytes > 0:
            where.add(offset, unit.log_position)

    def _in_rows(
        self, rows: RowsView, name: tuple[str, int], span: QueueSpan | None, in_rows: bool
    ) -> Iterator[Finding]:
        if span is not None:
            yield from self._differences(name, Part.ROCKSDB, span.rows, span.records)
        bounds = rows.bounds(*name) if in_rows else None
        if bounds is None:
            return
        astray, ahead = Tally(), Tally()
        first, end = bounds
        pieces = [(first, end)]
        if span is not None:
            pieces = [(first, min(span.first, end)), (max(span.next, first), end)]
        for begin, stop in pieces:
            for offset, unit in rows.queue(*name).units(begin, stop):
                self._beside(offset, unit, astray, ahead)
        yield from self._extra(name, Part.ROCKSDB, astray, ahead)
        newest = rows.last_message(*name)
        if newest is None or newest.queue_offset != end - 1:
            tally = Tally()
            tally.add(end - 1, -1)
            said = f"offset {newest.queue_offset}" if newest is not None else "nothing"
            what = f"row for its end is wrong: it says {said}, the last message is {end - 1}"
            yield self._finding(name, "bound-wrong", Severity.PROBLEM, Part.ROCKSDB, tally, what)

    def _differences(
        self, name: tuple[str, int], part: Part, check: IndexCheck, records: int
    ) -> Iterator[Finding]:
        is_read = part is self._reads
        if check.wrong:
            what = f"units are not those of their messages: {check.wrong.detail}"
            yield self._finding(name, "units-wrong", Severity.PROBLEM, part, check.wrong, what)
        if check.missing:
            what = "messages have no unit" + (
                f": {check.missing.detail}" if check.missing.detail else ""
            )
            yield self._finding(name, "units-missing", Severity.PROBLEM, part, check.missing, what)
        if check.before:
            what = "messages are older than the first unit"
            severity = Severity.PROBLEM if is_read else Severity.NOTE
            way_on = FILL_ROCKSDB if part is Part.ROCKSDB and not is_read else REPAIR
            yield self._finding(
                name, "units-begin-late", severity, part, check.before, what, way_on
            )
        if check.behind:
            what = "messages are newer than the last unit"
            if check.behind.count == records:
                what = "messages, which is all of them, have no unit"
            fixed = check.behind.position >= self._redo_start
            severity = Severity.PROBLEM if is_read and not fixed else Severity.NOTE
            way_on = NEXT_START if is_read and fixed else REPAIR
            if not is_read:
                way_on = (
                    FILL_ROCKSDB
                    if part is Part.ROCKSDB
                    else (
                        "they come with lanemq's start without storeType=defaultRocksDB, or at once"
                        " with `convert_to_files`"
                    )
                )
            yield self._finding(name, "units-behind", severity, part, check.behind, what, way_on)

    def _extra(
        self, name: tuple[str, int], part: Part, astray: Tally, ahead: Tally
    ) -> Iterator[Finding]:
        if astray:
            what = "units lead to what is not a message of the queue"
            yield self._finding(name, "units-astray", Severity.PROBLEM, part, astray, what)
        if ahead:
            what = f"units lead behind the end of the log, {self._log.end}"
            yield self._finding(name, "units-ahead", Severity.NOTE, part, ahead, what, DROPPED)

    def _finding(
        self,
        name: tuple[str, int],
        kind: str,
        severity: Severity,
        part: Part,
        tally: Tally,
        what: str,
        way_on: str | None = None,
    ) -> Finding:
        if way_on is None:
            way_on = REPAIR if severity is Severity.PROBLEM else ""
        first = f" (the first: offset {tally.offset}, position {tally.position})"
        return Finding(
            kind=kind,
            severity=severity,
            part=part,
            topic=name[0],
            queue_id=name[1],
            what=f"queue {name[1]} of {name[0]}: {tally.count} {what}"
            + (first if tally.position >= 0 else ""),
            way_on=way_on,
            count=tally.count,
            log_position=tally.position if tally.position >= 0 else None,
            queue_offset=tally.offset if tally.offset >= 0 else None,
        )
