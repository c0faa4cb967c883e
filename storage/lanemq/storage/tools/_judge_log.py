"""What the checks of log and key index mean."""

from collections.abc import Iterator

from .._index_file import index_file_bytes
from ._directory import TEMPORARY, StoreDirectory
from ._findings import REPAIR, Finding, Part, Severity
from ._index_files import index_paths
from ._log_check import LogCheck
from ._scan import Damage, DamageKind, record_at
from ._tally import Tally

NOTHING = "nothing was written here"
CUT = "the next start of a broker cuts it off; `lanemq store repair DIR` does, and keeps a copy"
DAMAGE_WAYS = {
    DamageKind.BODY: "a consumer that checks bodies rejects the message; another copy of"
    " the log file (a replica's, a backup's) is the only way to get it back",
    DamageKind.BYTES: "a broker that starts may end the log here and set the rest aside: put"
    " another copy of the log file in its place, or save what lies behind first, with `lanemq store"
    " dump DIR --from-log --json`",
    DamageKind.GAP: "put the missing log file back from a copy before a broker is started",
}


def judge_log(store: StoreDirectory, log: LogCheck) -> Iterator[Finding]:
    """Damage, the tail, and log files that are not what they should be."""
    if (store.root / TEMPORARY).exists():
        yield Finding(
            kind="repair-unfinished",
            severity=Severity.PROBLEM,
            part=Part.LOG,
            what=f"a repair was interrupted: {TEMPORARY} is still there",
            way_on="`lanemq store repair DIR` finishes it",
        )
    yield from _odd_log_files(store)
    for damage in log.damages:
        yield _damage(store, damage)
    if log.tail_bytes:
        torn = log.why not in ("", NOTHING)
        yield Finding(
            kind="torn-tail",
            severity=Severity.PROBLEM if torn and store.is_clean else Severity.NOTE,
            part=Part.LOG,
            what=f"the log ends at {log.end} ({_place(store, log.end)}): {log.why or 'no record'};"
            f" up to {log.tail_bytes} bytes behind it are remains of a write",
            way_on=CUT,
            count=log.tail_bytes,
            log_position=log.end,
        )
    if log.inner_batches:
        yield Finding(
            kind="inner-batches",
            severity=Severity.NOTE,
            part=Part.LOG,
            what=f"{log.inner_batches} records hold several messages each: their queues, below"
            " batchconsumequeue, are not checked",
            count=log.inner_batches,
        )


def _odd_log_files(store: StoreDirectory) -> Iterator[Finding]:
    log = store.log
    for number, piece in enumerate(log.pieces):
        if piece.size_bytes == log.file_bytes:
            continue
        is_last = number == len(log.pieces) - 1
        path = log.path_of(piece.start)
        if is_last and piece.size_bytes == 0:
            way_on, severity = "the next start removes it", Severity.NOTE
        else:
            way_on = "no broker opens a log with it: put another copy of the file in its place"
            if is_last and number and piece.size_bytes < log.file_bytes:
                way_on = (
                    f"lanemq fills it up at the next start; for Apache, `truncate -s"
                    f" {log.file_bytes} {path}` does"
                )
            severity = Severity.PROBLEM
        yield Finding(
            kind="log-file-size",
            severity=severity,
            part=Part.LOG,
            what=f"{path} has {piece.size_bytes} bytes where every log file has {log.file_bytes}",
            way_on=way_on,
            log_position=piece.start,
        )


def _damage(store: StoreDirectory, damage: Damage) -> Finding:
    record = record_at(store.log, damage.position) if damage.kind is DamageKind.BODY else None
    where = f"{damage.position} ({_place(store, damage.position)})"
    size_bytes = damage.end - damage.position
    if record is not None:
        what = (
            f"the message at {where}, offset {record.queue_offset} of queue"
            f" {record.queue_id} of {record.topic}: {damage.why}"
        )
    elif damage.kind is DamageKind.GAP:
        what = f"{size_bytes} bytes of the log are missing from {where} on: {damage.why}"
    else:
        what = f"{size_bytes} bytes of the log at {where} are no record: {damage.why}"
    return Finding(
        kind=f"damaged-{damage.kind.value}",
        severity=Severity.PROBLEM,
        part=Part.LOG,
        what=what,
        way_on=DAMAGE_WAYS[damage.kind],
        topic=record.topic if record is not None else None,
        queue_id=record.queue_id if record is not None else None,
        queue_offset=record.queue_offset if record is not None else None,
        count=1 if record is not None else size_bytes,
        log_position=damage.position,
    )


def _place(store: StoreDirectory, position: int) -> str:
    start = store.log.start_of(position)
    return f"byte {position - start} of commitlog/{start:020d}"


def judge_keys(store: StoreDirectory, log: LogCheck, chains: Tally) -> Iterator[Finding]:
    """What is wrong with the key index."""
    yield from _odd_index_files(store)
    keys = log.keys
    if keys is None:
        return
    cases = (
        ("keys-missing", keys.missing, "keys of messages cannot be found"),
        ("keys-missing", keys.before, "keys of messages older than the index cannot be found"),
        ("keys-stray", keys.stray, "entries lead to no message with their key"),
        ("keys-chain", chains, "entries or slots do not continue their chain"),
    )
    for kind, tally, what in cases:
        if tally:
            first = f"; the first: {tally.detail}" if tally.detail else ""
            yield Finding(
                kind=kind,
                severity=Severity.PROBLEM,
                part=Part.KEYS,
                what=f"{tally.count} {what}{first} (position {tally.position})",
                way_on=REPAIR,
                count=tally.count,
                log_position=tally.position,
            )
    if keys.behind:
        yield Finding(
            kind="keys-behind",
            severity=Severity.PROBLEM if store.is_clean else Severity.NOTE,
            part=Part.KEYS,
            what=f"{keys.behind.count} keys of the newest messages are not indexed yet, from"
            f" position {keys.behind.position} on",
            way_on=REPAIR if store.is_clean else "the next start of a broker indexes them",
            count=keys.behind.count,
            log_position=keys.behind.position,
        )


def _odd_index_files(store: StoreDirectory) -> Iterator[Finding]:
    sizes = store.index_sizes
    for path in index_paths(store.root / "index"):
        size_bytes = path.stat().st_size
        if sizes is not None and size_bytes == index_file_bytes(*sizes):
            continue
        yield Finding(
            kind="index-file-size",
            severity=Severity.PROBLEM if size_bytes else Severity.NOTE,
            part=Part.KEYS,
            what=f"{path} has {size_bytes} bytes, which is not the size of an index file here",
            way_on=REPAIR if size_bytes else "the next start removes it",
        )
