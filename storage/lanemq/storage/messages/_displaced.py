"""Records that stand in another slot of their queue than they say."""

from lanemq.wire import LMQ_PREFIX

from ..log._commit_log import CommitLog
from ..log._damage import KnownDamage
from ..log._records import POSITION_AT, queue_offset_of
from ..queues._queues import ConsumeQueue


def is_displaced(
    record: bytes, slot: int, *, log: CommitLog, queue: ConsumeQueue, damage: KnownDamage
) -> bool:
    """Return whether a record says that it is another message of its queue, and is alone in that.

    A client would take the number for how far it is. Where others near it say the same, their
    slots are wrong, as 5.3.3 shifts them. One that is displaced is added to ``damage``.
    """
    difference = queue_offset_of(record) - slot
    if not difference or queue.topic.startswith(LMQ_PREFIX):
        return False
    is_contradicted = False
    for number in (slot - 1, slot + 1):
        unit = queue.unit(number) if number >= queue.min else None
        head = log.read(unit.log_position, POSITION_AT) if unit is not None else None
        if head is not None:
            if queue_offset_of(head) - number == difference:
                return False
            is_contradicted = True
    if is_contradicted:
        damage.add_displaced(record)
    return is_contradicted
