"""The sizes of an index of timers, and what it gives its users."""

from dataclasses import dataclass
from typing import Final, NamedTuple, Self, final

from ._timer_log import FILE_BYTES, TimerUnit

DAY_S: Final = 86_400


@final
@dataclass(frozen=True, kw_only=True)
class TimerShape:
    """The sizes of an index; the first two have to be those of every broker on the store."""

    slots: int = 7 * DAY_S * 2
    log_file_bytes: int = FILE_BYTES
    roll_slots: int = 2 * DAY_S
    """Slots that a message waits at most before it is stored again."""
    precision_ms: int = 1000


class Taken(NamedTuple):
    """A message whose time has come."""

    due_ms: int
    unit: int
    log_position: int
    message_bytes: int
    rolls: bool
    """True if the message is only stored again when its slot comes, not delivered."""
    enqueued_ms: int

    @classmethod
    def of(cls, due_ms: int, position: int, unit: TimerUnit) -> Self:
        """Return the timer that a unit at a position of the timer log describes."""
        return cls(
            due_ms=due_ms,
            unit=position,
            log_position=unit.log_position,
            message_bytes=unit.message_bytes,
            rolls=unit.rolls,
            enqueued_ms=unit.written_ms,
        )


def place(slot_ms: int, now_ms: int, shape: TimerShape) -> tuple[int, bool]:
    """Return the slot for a timer due in ``slot_ms``, and whether it is stored again from there."""
    far_ms = slot_ms - now_ms - shape.roll_slots * shape.precision_ms
    if far_ms < 0:
        return slot_ms, False
    # A message only a little beyond is stored again half way, so that both waits are long.
    is_near = far_ms < shape.roll_slots // 3 * shape.precision_ms
    slots = shape.roll_slots // 2 if is_near else shape.roll_slots
    return now_ms + slots * shape.precision_ms, True
