"""The check of key-value states against their logs."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from lanemq.wire.kv import OpType, encode_drop, kv_namespace, kv_topic, parse_partition

from ..._errors import StoreCorrupted
from ...kv._copy import ALL_BEGIN, ALL_END
from ...kv._log import log_record
from ...kv._outcomes import LogRecord
from ...kv._state import State
from ...kv.engines._opening import DIRECTORY
from ...kv.engines._rows import (
    ENTRY,
    HASH_MASK,
    LEASE,
    NO_QUEUE,
    SESSION,
    Meta,
    after_prefix,
    row_hash,
)
from ...log._records import LogWalk
from ..reading._directory import StoreDirectory, read_store
from ..reading._kv_bases import damaged_bases
from ..reading._kv_states import open_states
from ..reading._settings import NO_SETTINGS, BrokerSettings
from ._findings import Finding, Part, Progress, Severity, no_progress

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from ...kv.engines._engine import Engine

BATCH: Final = 1000
REMOVE: Final = "remove that file: its broker writes another one while the partition is open"
REPAIR: Final = "use `repair_store`: the next start makes it of the log, as far as that goes"


@final
@dataclass(frozen=True, slots=True)
class NamespaceReport:
    """One namespace, or a partition of one. ``records`` is how many of its log are in the state."""

    namespace: str
    records: int
    entries: int
    hash: str
    replayed_hash: str | None
    """The hash of the state that the log makes; None where the log does not go back so far."""
    log_begin: int
    """Number of the first record that the log still has."""
    log_end: int
    lost: bool


@final
@dataclass(frozen=True, slots=True)
class KvReport:
    """The result for all namespaces."""

    root: Path
    namespaces: list[NamespaceReport]
    findings: list[Finding]

    @property
    def is_sound(self) -> bool:
        """True if nothing is wrong."""
        return not any(finding.severity is Severity.PROBLEM for finding in self.findings)


def verify_kv(
    root: Path, *, settings: BrokerSettings = NO_SETTINGS, progress: Progress = no_progress
) -> KvReport:
    """Read every row, replay the logs of all namespaces, and compare the states' hashes.

    Nothing is changed.

    Raises ``NotAStore``, ``StoreLocked``, ``StoreCorrupted`` and ``OSError``.
    """
    findings: list[Finding] = []
    reports: list[NamespaceReport] = []
    try:
        with read_store(root, settings=settings) as store:
            findings += judge_bases(store.root)
            unreadable: dict[str, str] = {}
            with open_states(store.root, unreadable) as states:
                _compare(store, states, unreadable, reports, findings, progress)
    except StoreCorrupted as error:
        findings.append(_finding(Severity.PROBLEM, str(error), REPAIR))
    return KvReport(root, reports, findings)


def _compare(
    store: StoreDirectory,
    states: dict[str, State],
    unreadable: dict[str, str],
    reports: list[NamespaceReport],
    findings: list[Finding],
    progress: Progress,
) -> None:
    for name, why in unreadable.items():
        findings.append(_finding(Severity.PROBLEM, f"namespace {name}: {why}", REPAIR))
    with _replay(store, states, progress) as replay:
        for name in sorted(states.keys() | replay.spans.keys()):
            if name in unreadable:
                continue
            begin, end = replay.spans.get(name, (0, 0))
            state = states.get(name)
            if state is not None and state.meta.queue_id == NO_QUEUE:
                findings += _judge_rows(name, state)  # its log continues at another broker
                continue
            if state is None:
                findings.append(_not_there(name, begin, end))
                continue
            replayed = replay.states.get(name)
            is_whole = replayed is not None and replayed.meta.next == state.meta.next
            if state.meta.next == 0:
                is_whole = True
            replayed_hash = None
            if is_whole and not state.meta.lost:
                replayed_hash = replayed.hash if replayed is not None else state.hash
            reports.append(
                NamespaceReport(
                    name,
                    state.meta.next,
                    state.meta.entries,
                    state.hash,
                    replayed_hash,
                    begin,
                    end,
                    state.meta.lost,
                )
            )
            findings += _judge(reports[-1], state)


@final
class _Replay:
    """States made from the log alone, each as far as the one it is compared with."""

    def __init__(self, engine: "Engine", compared: dict[str, State]) -> None:
        self._engine = engine
        self._compared = compared
        self._waiting: dict[str, list[LogRecord]] = {}
        self._identities: dict[str, str] = {}
        self.states: dict[str, State] = {}
        self.spans: dict[str, tuple[int, int]] = {}
        """Namespace -> numbers of the first record in the log, and behind the last."""

    def take(self, name: str, record: LogRecord) -> None:
        """Take a record of the log."""
        begin, end = self.spans.get(name, (record.position, 0))
        if record.position < end:  # the log of a later namespace, after this one was deleted
            self._forget(name)
            begin = record.position
        self.spans[name] = begin, record.position + 1
        compared = self._compared.get(name)
        if record.identity:
            self._identities.setdefault(name, record.identity)
        if compared is None and self._deletes(name, record):
            self._forget(name)
            return
        if begin or compared is None or record.position >= compared.meta.next:
            return
        waiting = self._waiting.setdefault(name, [])
        waiting.append(record)
        if len(waiting) >= BATCH:
            self.finish()

    def _deletes(self, name: str, record: LogRecord) -> bool:
        """Return whether a record deletes a namespace, of which there is no state any more."""
        identity = self._identities.get(name)
        return record.op_type == OpType.DROP and record.body == encode_drop(identity or "")

    def _forget(self, name: str) -> None:
        """Forget the records of a deleted namespace."""
        self.spans.pop(name, None)
        self._waiting.pop(name, None)
        self._identities.pop(name, None)
        state = self.states.pop(name, None)
        if state is not None:
            state.table.write([(ALL_BEGIN, ALL_END)], {})

    def finish(self) -> None:
        """Apply the records that were taken."""
        for name, records in self._waiting.items():
            state = self.states.get(name)
            if state is None:
                state = self.states[name] = State(self._engine.table(name))
            for record in records:
                state.apply(record)
            state.write()
        self._waiting.clear()


@contextmanager
def _replay(
    store: StoreDirectory, compared: dict[str, State], progress: Progress
) -> Iterator[_Replay]:
    from ...kv.engines._rocks import RocksEngine

    log = store.log
    names = {
        (kv_topic(parse_partition(name)[0]), state.meta.queue_id): name
        for name, state in compared.items()
    }

    with tempfile.TemporaryDirectory(prefix="lanemq-verify-kv-") as directory:
        engine = RocksEngine(Path(directory))
        try:
            replay = _Replay(engine, compared)
            total = log.written_end() - log.begin
            for number, record in enumerate(LogWalk(log, log.begin, check_crc=True)):
                name = names.get((record.topic, record.queue_id))
                if name is None and not record.queue_id:
                    name = kv_namespace(record.topic)
                if name and record.is_queued:
                    meta = compared[name].meta if name in compared else Meta()
                    position = record.queue_offset + meta.shift
                    if position >= meta.first:
                        data = log.read(record.position, record.size_bytes)
                        replay.take(name, log_record(position, data))
                if number % BATCH == 0:
                    progress("log", record.end - log.begin, total)
            replay.finish()
            yield replay
        finally:
            engine.close()
            log.close()


def _judge(report: NamespaceReport, state: State) -> Iterator[Finding]:
    name = report.namespace
    if report.lost:
        yield _finding(
            Severity.PROBLEM,
            f"namespace {name} is lost: records before {report.records} are neither in the state "
            "nor in the log",
            f"bring back DIR/{DIRECTORY} from a copy",
        )
    yield from _judge_rows(name, state)
    if report.records > report.log_end and report.log_end:
        yield _finding(
            Severity.PROBLEM,
            f"namespace {name}: {report.records} records are in the state, but the log ends at "
            f"{report.log_end}",
            f"move DIR/{DIRECTORY} away: the broker makes it again from the log, if that goes "
            "back to the beginning",
        )
    if report.replayed_hash is not None and report.replayed_hash != report.hash:
        yield _finding(
            Severity.PROBLEM,
            f"namespace {name}: the state's hash is {report.hash}, but the log's first "
            f"{report.records} records make {report.replayed_hash}",
            f"move DIR/{DIRECTORY} away: the broker makes it again from the log",
        )
    if report.replayed_hash is None and not report.lost:
        first = max(report.log_begin, state.meta.first)
        yield _finding(
            Severity.NOTE,
            f"namespace {name} cannot be replayed: the log begins with record {first}",
            "",
        )


def _judge_rows(name: str, state: State) -> Iterator[Finding]:
    entries = sum(row_hash(key[1:], row) for key, row in state.table.items(ENTRY, b"f"))
    others = [
        sum(row_hash(key, row) for key, row in state.table.items(prefix, after_prefix(prefix)))
        for prefix in (SESSION + b"\0", SESSION + b"\1", LEASE)
    ]
    kept = [state.meta.entry_sum, *state.meta.session_sums, state.meta.lease_sum]
    for total, expected in zip([entries, *others], kept, strict=True):
        if total & HASH_MASK != int.from_bytes(expected, "big"):
            yield _finding(
                Severity.PROBLEM,
                f"namespace {name}: its rows are not those that its hash was made of",
                f"move DIR/{DIRECTORY} away: the broker makes it again from the log, if that goes "
                "back to the beginning",
            )
            break


def judge_bases(root: Path) -> Iterator[Finding]:
    """Read the bases of partitions; what is wrong with one harms nobody until it is needed.

    Raises ``OSError``.
    """
    for what in damaged_bases(root).values():
        yield _finding(Severity.PROBLEM, what, REMOVE)


def _not_there(name: str, begin: int, end: int) -> Finding:
    if begin == 0:
        what = f"namespace {name} has no state yet: the next start makes it from the log"
        return _finding(Severity.NOTE, what, "")
    return _finding(
        Severity.PROBLEM,
        f"namespace {name} has no state, and the log has records {begin} to {end} only",
        f"bring back DIR/{DIRECTORY} from a copy",
    )


def _finding(severity: Severity, what: str, way_on: str) -> Finding:
    return Finding(kind="kv", severity=severity, part=Part.KV, what=what, way_on=way_on)
