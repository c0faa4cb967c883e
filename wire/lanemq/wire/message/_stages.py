"""Stages of a queue, and a group's progress in them as one number.

A group may consume a queue in stages: all messages of one before any of the next. Its progress
is a pair, the consumer offset and the stage offset (which number the message there has). Two
commits could be torn apart by a crash, so the pair is kept as one number, the committed offset
of a shadow group for the same queue. Any broker can keep that::

    bit 62 |  61 ... 20   |   19 ... 1   |    0
      1    | queue offset | stage offset | settled

Bit 62 sets a record apart from an ordinary offset that a tool put there, and keeps the number
above any queue's minimum: a 4.9 broker forgets the offsets of a group without subscribers once
they are at or below it (ConsumerOffsetManager.scanUnsubscribedTopic).
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Final, final

import msgspec

from .._names import BROKER_STAGE_PREFIX, STAGE_PREFIX

_STAGE_BITS: Final = 19
_OFFSET_BITS: Final = 42
_MARK: Final = 1 << 62

STAGE_OFFSET_MAX: Final = (1 << _STAGE_BITS) - 1
"""Stage offsets count up to here and no further; every stage has to end below."""
STAGED_QUEUE_OFFSET_MAX: Final = (1 << _OFFSET_BITS) - 1
"""The last queue offset that fits a record."""


def stage_group(group: str, strategy: str = "") -> str:
    """Return the shadow group whose committed offsets are ``group``'s stage records.

    Each strategy of a group that has several stage definitions has records of its own. The name of
    a strategy has no ``|``. That of a group may, so one like ``|a|g`` has its records under an
    empty strategy: else they would be those of ``g`` for the strategy ``a``.
    """
    is_like_strategy = group.startswith("|") and "|" in group[1:]
    if strategy or is_like_strategy:
        return f"{STAGE_PREFIX}|{strategy}|{group}"
    return STAGE_PREFIX + group


def is_stage_group(group: str) -> bool:
    """Return whether a group's committed offsets are stage records, and thus no offsets."""
    return group.startswith((STAGE_PREFIX, BROKER_STAGE_PREFIX))


def group_of_stage_group(name: str) -> str | None:
    """Return the group whose stage records are kept under a shadow group; None for any other
    group."""
    if name.startswith(BROKER_STAGE_PREFIX):
        return name.removeprefix(BROKER_STAGE_PREFIX)
    if not name.startswith(STAGE_PREFIX):
        return None
    rest = name.removeprefix(STAGE_PREFIX)
    _, separator, group = rest[1:].partition("|")
    return group if rest.startswith("|") and separator else rest


@final
class Stages:
    """Sizes of consecutive stages of a queue; behind the last comes the tail, without order.

    Messages are numbered from 0 at the last reset. Raises ``ValueError`` for a size below 1
    and for more messages than a record can count.
    """

    __slots__ = ("_ends", "sizes")

    def __init__(self, sizes: Iterable[int] = ()) -> None:
        self.sizes: tuple[int, ...] = tuple(sizes)
        for size in self.sizes:
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(f"a stage has 1 message or more, not {size!r}")
        self._ends = list(accumulate(self.sizes))
        if self._ends and self._ends[-1] > STAGE_OFFSET_MAX:
            raise ValueError(
                f"the stages have {self._ends[-1]} messages together, more than the"
                f" {STAGE_OFFSET_MAX} that can be counted"
            )

    @property
    def total(self) -> int:
        """Messages of all stages; from this number on comes the tail."""
        return self._ends[-1] if self._ends else 0

    def stage_of(self, number: int) -> int:
        """Return the stage, from 0, of message ``number``; the tail is one more than the last."""
        return bisect_right(self._ends, number)

    def end_of(self, number: int) -> int | None:
        """Return the first number behind the stage of message ``number``; None in the tail."""
        stage = bisect_right(self._ends, number)
        return self._ends[stage] if stage < len(self._ends) else None

    def is_boundary(self, number: int) -> bool:
        """Return True if message ``number`` is the first behind a stage."""
        return number in self._ends

    def __bool__(self) -> bool:
        return bool(self.sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stages) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash(self.sizes)

    def __repr__(self) -> str:
        return f"Stages({list(self.sizes)})"


@final
class StageRecord(msgspec.Struct, frozen=True, gc=False):
    """A group's progress in a queue: everything below ``queue_offset`` is finished, and the
    message there has the number ``stage_offset``.

    ``settled`` says that the group's ordinary offset is known to be the same. Without it the
    ordinary one may lag by a commit, as after a crash between the two.
    """

    queue_offset: int
    stage_offset: int
    settled: bool = False

    def pack(self) -> int:
        """Pack the record into one number, positive and below 2**63.

        Raises ``OverflowError`` for an offset that does not fit. ``stage_offset`` stops at
        ``STAGE_OFFSET_MAX``, which is in the tail of any stages.
        """
        if not 0 <= self.queue_offset <= STAGED_QUEUE_OFFSET_MAX:
            raise OverflowError(
                f"queue offset {self.queue_offset} does not fit a stage record, whose last is"
                f" {STAGED_QUEUE_OFFSET_MAX}"
            )
        if self.stage_offset < 0:
            raise OverflowError(f"stage offset {self.stage_offset} is negative")
        stage_offset = min(self.stage_offset, STAGE_OFFSET_MAX)
        return _MARK | self.queue_offset << (_STAGE_BITS + 1) | stage_offset << 1 | self.settled

    @classmethod
    def unpack(cls, number: int) -> "StageRecord | None":
        """Return the record in ``number``, or None if that is an ordinary offset."""
        if not _MARK <= number < _MARK << 1:
            return None
        return cls(
            number >> (_STAGE_BITS + 1) & STAGED_QUEUE_OFFSET_MAX,
            number >> 1 & STAGE_OFFSET_MAX,
            bool(number & 1),
        )
