"""The judgement on the checks of log and key index."""

from collections.abc import Iterable, Iterator

from lanemq.wire import LMQ_PREFIX

from ...disk._backups import CONVERT_TEMPORARY
from ...index._index_file import index_file_bytes
from ...log._records import NOTHING_WRITTEN, record_at
from ...queues._light_queues import OFF
from ..reading._directory import TEMPORARY, StoreDirectory
from ..reading._index_files import index_paths
from ..reading._scan import Damage, DamageKind
from ..reading._settings import BrokerSettings
from ._findings import REPAIR, Finding, Part, Severity
from ._log_check import LogCheck
from ._tally import Tally

CUT = "the next start of a broker cuts it off; `repair_store` does, and keeps a copy"
DAMAGE_WAYS = {
    DamageKind.BODY: "lanemq passes over the message and serves what lies behind; another copy of"
    " the log file (a replica's, a backup's) is the only way to get it back. Apache 4.9 may end the"
    " log here at a start: do not give it this store",
    DamageKind.OFFSET: "lanemq passes over the message and serves what lies behind; another copy of"
    " the log file is the only way to get it back into its place. `open_dump(source='log')`"
    " prints it, to be sent again. Do not give Apache this store: it may take the"
    " number for the end or the begin of the queue",
    DamageKind.BYTES: "lanemq passes over them where indexes, or the records behind, prove that the"
    " log went on; else, as where sectors were never written, and at Apache, a start may end the"
    " log here and set the rest aside: put another copy of the log file in its place, or save what"
    " lies behind first, with `open_dump(source='log')`",
    DamageKind.GAP: "put the missing log file back from a copy before a broker is started; without"
    " it what lies behind is served as long as indexes prove, or the records behind do, that the"
    " log went on",
}


def judge_log(store: StoreDirectory, log: LogCheck) -> Iterator[Finding]:
    """Report damage, a tail behind the end, and faulty log files."""
    yield from unfinished(store)
    yield from odd_log_files(store)
    for damage in log.damages:
        yield damage_finding(store, damage, log.end)
    if log.tail_bytes:
        torn = log.why not in ("", NOTHING_WRITTEN)
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


def unfinished(store: StoreDirectory) -> Iterator[Finding]:
    """Report what a killed repair or conversion left behind."""
    if (store.root / TEMPORARY).exists():
        yield Finding(
            kind="repair-unfinished",
            severity=Severity.PROBLEM,
            part=Part.LOG,
            what=f"a repair was interrupted: {TEMPORARY} is still there",
            way_on="`repair_store` finishes it",
        )
    if (store.root / CONVERT_TEMPORARY).exists():
        yield Finding(
            kind="conversion-unfinished",
            severity=Severity.NOTE,
            part=Part.FILES,
            what=f"a conversion was interrupted: {CONVERT_TEMPORARY} is still there",
            way_on="convert again; a broker may be started instead",
        )


def odd_log_files(store: StoreDirectory) -> Iterator[Finding]:
    """Report log files of another size than the rest."""
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


def damage_finding(store: StoreDirectory, damage: Damage, log_end: int) -> Finding:
    """Report one piece of damage; in the last message of an unclosed store it is a torn write."""
    is_whole = damage.kind in (DamageKind.BODY, DamageKind.OFFSET)
    record = record_at(store.log, damage.position) if is_whole else None
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
        what = f"{size_bytes} bytes of the log at {where} are not a record: {damage.why}"
    if damage.kind is DamageKind.BODY and damage.end == log_end and not store.is_clean:
        return Finding(
            kind="torn-tail",
            severity=Severity.NOTE,
            part=Part.LOG,
            what=f"the last record of the log is torn: {what}",
            way_on=CUT,
            count=size_bytes,
            log_position=damage.position,
        )
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


def judge_lights(settings: BrokerSettings, topics: Iterable[str]) -> Iterator[Finding]:
    """Report light queues among ``topics`` where the broker's settings do not serve them."""
    lights = sorted({topic for topic in topics if topic.startswith(LMQ_PREFIX)})
    if settings.multi_dispatch is False and lights:
        yield Finding(
            kind="light-queues-off",
            severity=Severity.NOTE,
            part=Part.LOG,
            topic=lights[0],
            what=f"there are {len(lights)} light queues, {lights[0]} for one, but {OFF} in the"
            " broker's file: they get no new messages, and after a kill may lack old ones",
            way_on="start with both, or leave these queues as they are",
            count=len(lights),
        )


def judge_keys(store: StoreDirectory, log: LogCheck, chains: Tally) -> Iterator[Finding]:
    """Report the faults of the key index."""
    if store.settings.has_index is False:
        return
    keys = log.keys
    if store.index_sizes is None and keys is not None and not keys.before:
        return  # there are files, but no key was ever put there
    yield from odd_index_files(store)
    if keys is None or store.index_sizes is None:
        return
    if keys.before and not index_paths(store.root / "index"):
        yield Finding(
            kind="index-missing",
            severity=Severity.PROBLEM,
            part=Part.KEYS,
            what=f"there is no key index: {keys.before.count} keys of messages cannot be found",
            way_on=f"{REPAIR}. Give `settings` where the broker's file sets maxHashSlotNum or"
            " maxIndexNum; with messageIndexEnable=false in it nothing is missing",
            count=keys.before.count,
            log_position=keys.before.position,
        )
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


def odd_index_files(store: StoreDirectory) -> Iterator[Finding]:
    """Report index files of a size that no broker opens."""
    sizes = store.index_sizes
    if sizes is None:
        yield Finding(
            kind="index-sizes",
            severity=Severity.PROBLEM,
            part=Part.KEYS,
            what="nothing tells how many slots and entries the files of the key index have: it is"
            " not checked",
            way_on="give `settings`: maxHashSlotNum and maxIndexNum of the broker's file tell",
        )
        return
    for path in index_paths(store.root / "index"):
        size_bytes = path.stat().st_size
        if size_bytes == index_file_bytes(*sizes):
            continue
        yield Finding(
            kind="index-file-size",
            severity=Severity.PROBLEM if size_bytes else Severity.NOTE,
            part=Part.KEYS,
            what=f"{path} has {size_bytes} bytes, which is not the size of an index file here",
            way_on=REPAIR if size_bytes else "the next start removes it",
        )
