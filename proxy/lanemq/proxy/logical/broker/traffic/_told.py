"""The segments that readers were just told of which name none: clients of 5.0.0-PREVIEW.

Such a reader translates an answer by the segment that its view has at an offset, and drops what
lies behind that segment's end. Its pull does not show what it takes the queue for. So in a segment
that it may not know it is redirected there first, as from the end of the one before; it puts what
it is told into the view that it pulls by, and asks again at once. That pull is known by its
connection, its group and its place, once.

Source: RocketMQ 5.0.0-PREVIEW, PullAPIWrapper.
"""

from typing import Final, final

from msgspec.structs import replace

from ....broker.handlers.pulls._pull_request import PullRequest
from ....net._session import Session

TOLD_MAX: Final = 1000
"""Most readers of one connection that may be about to ask again; beyond it all are forgotten, and
told once more."""

_ATTRIBUTE: Final = "told readers"

_Place = tuple[str, str, int, int]
"""Group, topic, queue id and offset of a pull."""


@final
class ToldReaders:
    """The readers of one connection that were told of a segment, and are about to ask again."""

    def __init__(self) -> None:
        self._meant: dict[_Place, str] = {}

    @classmethod
    def of(cls, session: Session) -> "ToldReaders":
        """Return those of a connection."""
        found: ToldReaders | None = session.attributes.get(_ATTRIBUTE)
        if found is None:
            found = session.attributes[_ATTRIBUTE] = cls()
        return found

    def note(self, asked: PullRequest, meant: str) -> None:
        """Note that the reader of a pull is told of a segment (``Segment.meant``)."""
        if len(self._meant) >= TOLD_MAX:
            self._meant.clear()
        self._meant[_place(asked)] = meant

    def named(self, asked: PullRequest) -> PullRequest:
        """Return a pull with the name of the segment that its reader was just told of, if any."""
        meant = self._meant.pop(_place(asked), None)
        return asked if meant is None else replace(asked, meant=meant)


def _place(asked: PullRequest) -> _Place:
    return asked.group, asked.topic, asked.queue_id, asked.offset
