"""Checking that the units of a queue file name the messages that belong in their slots."""

from collections.abc import Callable
from typing import Final

from lanemq.wire import LMQ_PREFIX

from .._layouts import BLANK_SIZE
from ..log._records import Record, check_record
from ..log._segments import Segments
from .files._consume_queue import FileConsumeQueue

TORN_UNITS_MAX: Final = 2


def is_right(queue: FileConsumeQueue, offset: int, log: Segments) -> bool:
    """Return whether the unit in a slot is right, as far as the log still tells."""
    unit = queue.unit(offset) if offset >= queue.file_begin else None
    if unit is None or unit.size_bytes == BLANK_SIZE or queue.topic.startswith(LMQ_PREFIX):
        return True  # a light queue's messages belong to another queue as well
    if unit.log_position < log.begin:
        return True  # too old to be looked at
    data = log.read(unit.log_position, unit.size_bytes)
    found = check_record(data, 0, unit.log_position, len(data), check_crc=False)
    return (
        isinstance(found, Record)
        and (found.topic, found.queue_id) == (queue.topic, queue.queue_id)
        and found.queue_offset == offset
    )


def holds_message(queue: FileConsumeQueue, offset: int, log_position: int) -> bool:
    """Return whether the unit in a slot is of the message at a position of the log."""
    unit = queue.unit(offset) if queue.file_begin <= offset < queue.end else None
    return unit is not None and unit.size_bytes != BLANK_SIZE and unit.log_position == log_position


def expected_at(
    queue: FileConsumeQueue, log_position: int, *, log_begin: int, is_right: Callable[[int], bool]
) -> tuple[int, int] | None:
    """Return the slot for a message at a position of the log, by the message before it in the
    queue, and that one's position; None where the log no longer has it, or says that it
    belongs elsewhere."""
    if queue.log_end <= log_begin:
        return None  # a queue whose messages have expired may go on anywhere
    slot = queue.end if log_position >= queue.log_end else queue.find_position(log_position)
    unit = queue.unit(slot - 1) if slot > queue.file_begin else None
    if unit is None or unit.size_bytes == BLANK_SIZE or unit.log_position < log_begin:
        return None
    return (slot, unit.log_position) if is_right(slot - 1) else None


def drop_torn_units(queue: FileConsumeQueue, log: Segments) -> None:
    """Drop a last unit that does not name a message of its queue, as a crash may leave it.

    Nothing behind a torn unit was kept, for that lies behind the start of the redo.
    """
    for _ in range(TORN_UNITS_MAX):
        if queue.end <= queue.file_begin or is_right(queue, queue.end - 1, log):
            return
        queue.cut(queue.end - 1)


def first_wrong_slot(queue: FileConsumeQueue, log: Segments) -> int | None:
    """Return the first slot of the last run of units in wrong slots; None if there is none.

    A return from RocksDB to files under 5.3.3 leaves such a run: a unit is missing, and all
    behind it have moved up. It ends where newer messages follow. Only a few slots are looked at,
    closer and closer to the end of the queue, and so a short run far from it is not found.
    """
    begin, step, slot = queue.file_begin, 1, queue.end - 1
    while slot >= begin and is_right(queue, slot, log):
        slot = queue.end - 1 - step
        step *= 2
    if slot < begin:
        return None
    wrong, step = slot, 1
    while slot >= begin and not is_right(queue, slot, log):
        wrong = slot
        slot = wrong - step
        step *= 2
    right = max(slot, begin - 1)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if is_right(queue, middle, log):
            right = middle
        else:
            wrong = middle
    return wrong
