"""A logical queue that has moved between brokers: its parts, and where each offset is. All pure.

Its messages are in physical queues of several brokers, one after another. The first part is the
queue that clients have always seen; every later one is a whole fresh queue, so that a part begins
in the numbers of clients where the parts before it ended together.
"""

from functools import cached_property
from typing import Final, final

import msgspec
from msgspec.structs import replace

PARTS_MAX: Final = 1000
"""Most parts of a queue: it moves no more than so many times."""
OPEN: Final = -1
"""The end of the part to which messages are written."""


@final
class Part(msgspec.Struct, frozen=True, array_like=True):
    """A physical queue that has a run of a logical queue's messages."""

    broker: str
    queue_id: int
    end: int = OPEN
    """The broker's own offset behind the last message that counts."""
    lost: int = 0
    """The number of the last messages before the end that the broker has lost, and readers pass
    over. The end stays where it is: offsets of later parts are what clients have noted. Proxies
    from before this member take it for 0, and leave it out of what they write: readers stay there
    again."""

    @property
    def read_end(self) -> int:
        """The broker's own offset up to which there is something to read; ``OPEN`` as ``end``."""
        return self.end if self.end < 0 else self.end - self.lost

    @property
    def place(self) -> tuple[str, int]:
        """The broker and the number of the queue there."""
        return self.broker, self.queue_id


@final
class MovedQueue(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """A queue with several parts, or on its way to the second one."""

    parts: tuple[Part, ...]
    target: Part | None = None
    """The queue with which it is to continue; None where it is on no way."""
    is_sealing: bool = False
    """True while nothing is written, so that the end of the last part can be read."""

    @property
    def place(self) -> tuple[str, int]:
        """The queue that clients see: the broker, and the number there."""
        return self.parts[0].place

    @property
    def last(self) -> Part:
        """The part to which messages are written."""
        return self.parts[-1]

    @cached_property
    def begins(self) -> tuple[int, ...]:
        """The offset in the numbers of clients at which each part begins."""
        found = [0]
        for part in self.parts[:-1]:
            found.append(found[-1] + part.end)
        return tuple(found)

    @property
    def is_sound(self) -> bool:
        """True if only the last part is open, and the state is one that there is."""
        return (
            0 < len(self.parts) <= PARTS_MAX
            and all(0 <= part.lost <= part.end for part in self.parts[:-1])
            and (self.last.end, self.last.lost) == (OPEN, 0)
            and (self.target is not None or (len(self.parts) > 1 and not self.is_sealing))
            and (self.target is None or self.target.end == OPEN)
        )

    def part_at(self, offset: int) -> int:
        """Return the number of the part that has an offset, or is to have it."""
        last = len(self.parts) - 1
        return next(
            (at for at in range(last) if offset < self.begins[at + 1]),
            last,
        )

    def part_before(self, offset: int) -> int:
        """Return the number of the part with the message before an offset: progress belongs
        there."""
        return self.part_at(offset - 1) if offset > 0 else 0

    def prepared(self, target: Part) -> "MovedQueue":
        """Return the queue that is to continue at a place."""
        return MovedQueue(self.parts, target)

    def sealing(self) -> "MovedQueue":
        """Return the queue while its end is read."""
        return MovedQueue(self.parts, self.target, is_sealing=True)

    def given_back(self) -> "MovedQueue":
        """Return the queue after its end could not be read in time."""
        return MovedQueue(self.parts, self.target)

    def aborted(self) -> "MovedQueue | None":
        """Return the queue without its way; None for one that never moved."""
        return MovedQueue(self.parts) if len(self.parts) > 1 else None

    def without(self, part: int, read_end: int) -> "MovedQueue":
        """Return the queue of which an ended part has nothing to read from one of its own offsets
        on."""
        lost = replace(self.parts[part], lost=self.parts[part].end - read_end)
        return replace(self, parts=(*self.parts[:part], lost, *self.parts[part + 1 :]))

    def moved(self, end: int) -> "MovedQueue":
        """Return the queue that continues at its target, from the end of the last part on."""
        assert self.target is not None, "it is on its way"
        assert self.is_sealing, "the end stands still"
        ended = Part(self.last.broker, self.last.queue_id, end)
        return MovedQueue((*self.parts[:-1], ended, self.target))
