"""The progress of groups that consume queues in stages (docs/staged.md), from their commits."""

from dataclasses import dataclass
from typing import Final, final

from lanemq.wire.message import (
    BROKER_STAGE_PREFIX,
    STAGE_PREFIX,
    StageRecord,
    group_of_stage_group,
)

STRATEGY_MARK: Final = "|"


@final
@dataclass(frozen=True, slots=True)
class StageProgress:
    """A group in a queue whose messages it counts in stages."""

    group: str
    strategy: str | None
    """The one of several definitions that it is about."""
    kept_by: str
    """``consumer`` or ``broker``: who counts."""
    topic: str
    queue: int
    offset: int
    """Every message before is finished; a broker's count stands where the open stage begins."""
    finished: int
    """Messages since the count began, which ``offset`` is behind: the number of the message
    there."""
    waiting: int
    """Messages of the queue from ``offset`` on, those of other strategies included."""


def progress_of(
    shadow: str, topic: str, queue: int, number: int, end: int | None
) -> StageProgress | None:
    """Read what a shadow group has committed; None for a number that is not a record.

    ``end``: the offset behind the queue's last message, None where nothing is known of it.
    """
    record = StageRecord.unpack(number)
    if record is None:
        return None
    group = group_of_stage_group(shadow)
    assert group is not None, shadow
    kept_by, strategy = "broker", None
    if not shadow.startswith(BROKER_STAGE_PREFIX):
        before = shadow.removeprefix(STAGE_PREFIX).removesuffix(group)
        kept_by, strategy = "consumer", before.strip(STRATEGY_MARK) or None
    offset = record.queue_offset
    waiting = max(0, (end or 0) - offset)
    return StageProgress(
        group, strategy, kept_by, topic, queue, offset, record.stage_offset, waiting
    )
