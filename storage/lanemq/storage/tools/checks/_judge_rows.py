"""The judgement on RocksDB's own watermark."""

from collections.abc import Iterator

from ._findings import Finding, Part, Severity


def judge_watermark(mark: int, log_end: int, *, has_rows: bool) -> Iterator[Finding]:
    """Report an impossible watermark of RocksDB; both arguments are positions of the log."""
    if mark > log_end:
        what = f"the watermark, {mark}, is behind the end of the log, {log_end}"
    elif has_rows and not mark:
        what = "there are rows, but no watermark"
    else:
        return
    yield Finding(
        kind="watermark",
        severity=Severity.NOTE,
        part=Part.ROCKSDB,
        what=what,
        way_on="the next start of lanemq sets it right",
        log_position=mark,
    )
