"""The invariants I6 and I7 of logical queues, which are about two states of them."""

from lanemq.wire.logical import Chain, Finding, Invariant, LogicalQueues


def check_change(before: LogicalQueues, after: LogicalQueues) -> list[Finding]:
    """Findings I6 and I7: what a later state says otherwise than an earlier one did.

    A segment that was sealed without any message may come back: its queue, used again, gives
    the new one the same identity, and nobody was told an offset in it.
    """
    findings = []
    for index, chain in before.items():
        later = after.get(index)
        for segment in chain:
            if segment.is_empty:
                continue
            now = None if later is None else later.find(segment.key)
            if now is not None and segment.is_sealed and now.offset_max != segment.offset_max:
                findings.append(Finding(Invariant.END, f"{segment} now ends at {now.offset_max}"))
            if now is not None and segment.delta >= 0 and now.delta != segment.delta:
                findings.append(Finding(Invariant.MEANING, f"{segment} now begins at {now.delta}"))
        if later is not None:
            findings += _reused(chain, later)
    return findings


def _reused(before: Chain, after: Chain) -> list[Finding]:
    """Messages of one state that stand elsewhere in the other, by another segment."""
    findings = []
    for segment in before:
        if segment.delta < 0 or not segment.count:
            continue
        for other in after:
            if other.key == segment.key or other.delta < 0:
                continue
            end = other.end_offset
            begins_before_end = other.delta < segment.next_delta
            if begins_before_end and (end is None or end > segment.delta):
                text = f"offsets of {segment} now are those of {other}"
                findings.append(Finding(Invariant.MEANING, text))
    return findings
