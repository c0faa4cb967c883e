"""The segments of which clients of 5.0.0-PREVIEW, which name none in a pull, were just told.

Such a reader translates an answer by the segment that its view has at an offset, and drops what
lies behind that segment's end. Its pull does not show what it takes the queue for. So in a segment
that it may not know it is redirected there first, as from the end of the one before; it puts what
it is told into the view that it pulls by, and asks again at once. Of several such segments on a
queue it is told one after another, since it may know any of them. Its next pull is known by its
connection, group, queue and offset, once, and for a short time: a reader that is sent to another
broker may not come back, and go by its route again later.

Source: RocketMQ 5.0.0-PREVIEW, PullAPIWrapper.
"""

from collections.abc import Sequence
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.wire.logical import Segment

from ....net._session import Session
from ....sessions.values._pull_request import PullRequest

TOLD_MAX: Final = 1000
"""Most readers of one connection that may be about to ask again; beyond it the oldest are
forgotten, and told once more."""
AGE_S: Final = 2.0
"""Seconds in which a reader asks again. After a failure it pauses for three, and then its route
counts."""

_ATTRIBUTE: Final = "told readers"

_PullKey = tuple[str, str, int, int]
"""Group, topic, queue id and offset of a pull."""


@final
class ToldReaders:
    """The readers of one connection that were told of a segment, and are about to ask again."""

    def __init__(self) -> None:
        self._notes: dict[_PullKey, tuple[float, Sequence[str]]] = {}
        """Pull -> time of the note, and the segments that the reader is told of by its next pulls
        (``Segment.meant``); the oldest come first."""

    @classmethod
    def of(cls, session: Session) -> "ToldReaders":
        """Return those of a connection."""
        found: ToldReaders | None = session.attributes.get(_ATTRIBUTE)
        if found is None:
            found = session.attributes[_ATTRIBUTE] = cls()
        return found

    def note(self, asked: PullRequest, before: Segment, told: Sequence[Segment]) -> None:
        """Note that the reader of a pull is told of segments, of the first one now, by a redirect
        from the end of the one ``before`` on their queue.

        If it took the queue for that one it comes back elsewhere, from the segments in between.
        """
        self._put(_key_of(asked), [segment.meant for segment in told])
        first = told[0]
        offset = first.to_physical(before.to_logical(asked.offset))
        if offset != asked.offset:
            self._put(_key_of(replace(asked, offset=offset)), [first.meant])

    def _put(self, key: _PullKey, meant: Sequence[str]) -> None:
        self._notes.pop(key, None)
        if len(self._notes) >= TOLD_MAX:
            del self._notes[next(iter(self._notes))]
        self._notes[key] = trio.current_time(), meant

    def named(self, asked: PullRequest) -> PullRequest:
        """Return a pull with the name of the segment that its reader was just told of, if any."""
        key = _key_of(asked)
        noted_s, meant = self._notes.pop(key, (0, ()))
        if not meant or trio.current_time() - noted_s >= AGE_S:
            return asked
        if len(meant) > 1:
            self._put(key, meant[1:])
        return replace(asked, meant=meant[0])


def _key_of(asked: PullRequest) -> _PullKey:
    return asked.group, asked.topic, asked.queue_id, asked.offset
