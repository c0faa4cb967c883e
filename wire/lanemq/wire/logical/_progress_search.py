"""The search for a group's progress in a logical queue: the places to ask, and what answers mean.

Each offset is kept by the broker that the queue ended at when it was committed, under a
``progress_topic``. So the answer at the last segment that has one counts. Nobody has to carry
anything along when the queue moves: what was committed at an earlier end stays there and is found,
until something is committed at the new one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from ..bodies._queues import MessageQueue
from ..message._stages import is_stage_group
from ._chain import Chain
from ._names import progress_topic
from ._segment import Segment


@final
@dataclass(frozen=True, slots=True)
class ProgressPlace:
    """A place where groups' offsets in a logical queue may be kept."""

    segment: Segment
    """Its broker is the one to ask."""
    queue: MessageQueue
    """The topic and queue id under which that broker keeps the offsets."""
    is_origin: bool = False
    """True for the physical queue that the logical one began as."""

    @property
    def is_needed(self) -> bool:
        """True where the search has to fail without an answer: what is kept there may be the
        latest, and any other offset could lose messages."""
        segment = self.segment
        return not self.is_origin and (segment.is_readable or segment.is_writable)

    def worth(self, group: str, offset: int) -> int:
        """Return an offset that is kept here, as far as it counts: to the end of the segment.

        Its broker may not know of that yet. A stage group's number stays as it is.
        """
        if is_stage_group(group):
            return offset
        segment = self.segment
        return segment.clamp_max(offset) if self.is_origin else segment.clamp_progress(offset)


def progress_keepers(chain: Chain) -> Iterator[ProgressPlace]:
    """Iterate over the places at which a queue's progress is kept, the latest first."""
    for segment in reversed(chain.placed):
        name = progress_topic(segment.topic, segment.delta)
        yield ProgressPlace(segment, MessageQueue(name, segment.broker_name, chain.index))


def progress_places(chain: Chain) -> Iterator[ProgressPlace]:
    """Iterate over the places at which progress is found, in the order in which they count.

    The last one is the physical queue that the logical one began as, if there is one: at that
    moment the offsets were the same.
    """
    yield from progress_keepers(chain)
    origin = chain.origin
    if origin is not None:
        yield ProgressPlace(origin, origin.message_queue, is_origin=True)


@final
class ProgressSearch:
    """One search for a group's offset in a logical queue: iterate over the places, and tell the
    answers.

    The iteration ends with the answer that counts, or when there is no other place. A place whose
    broker cannot be asked is passed over, unless it ``is_needed``.
    """

    def __init__(self, group: str, chain: Chain) -> None:
        self._group = group
        self._places = progress_places(chain)
        self._is_found = False
        self.offset: int | None = None
        """The logical offset at which the group goes on, as far as told; None if it never
        committed."""

    def __iter__(self) -> Iterator[ProgressPlace]:
        for place in self._places:
            yield place
            if self._is_found:
                return

    def told(self, place: ProgressPlace, offset: int | None, *, is_certain: bool) -> None:
        """Judge the answer of a place's broker; None where it keeps no offset of the group.

        A broker that does not know how to say "none" says 0, unless it ``is_certain``: such a 0
        counts if nothing else is found.
        """
        if place.is_origin:
            if offset is not None:
                self.offset = place.worth(self._group, offset)
        elif offset or is_certain:
            self.offset = None if offset is None else place.worth(self._group, offset)
            self._is_found = True
        elif self.offset is None:
            self.offset = offset
