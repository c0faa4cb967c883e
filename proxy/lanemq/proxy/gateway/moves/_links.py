"""The links of one client at one port, over which its requests for moved queues go."""

from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple, final

from msgspec.structs import replace

from lanemq.wire import Refused, RemoteProtocolError, ResponseCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame

from ...net._session import Session
from ._numbers import (
    NEXT,
    STORED,
    Note,
    again,
    is_behind,
    seen_pull,
    seen_send,
)
from ._queues import MovingQueues
from ._ways import Link

Tag = Callable[[str], int]
"""Gives the tag of a broker's positions; 0 for none."""
ASKED_MAX: Final = 10_000
ASKED_BYTES: Final = 1000
"""Bytes that what is remembered of a request takes, about."""
MOVED: Final = "the queue has moved to another broker meanwhile: try again"
NO_LEASE: Final = "the lease of this proxy has ended since: try again"


class _Asked(NamedTuple):
    note: Note | None
    """None for a request whose answer is changed by ``change``."""
    era: int
    change: Callable[[Frame], Frame] | None = None


@final
class SideLinks:
    """The links, and what is remembered of the requests."""

    def __init__(self, session: Session, moving: MovingQueues, tag: Tag) -> None:
        self._session = session
        self._moving = moving
        self._tag = tag
        self._links: dict[Hashable, Link] = {}
        self._asked: dict[int, _Asked] = {}
        session.on_close.append(lambda _: self._end())

    def find(self, key: Hashable) -> Link | None:
        """Return the link to a broker; None where there is none, or it has ended."""
        link = self._links.get(key)
        return None if link is None or link.is_over else link

    def living(self) -> list[Link]:
        """Return the links that there are."""
        return [link for link in self._links.values() if not link.is_over]

    def add(self, key: Hashable, link: Link) -> None:
        """Take a link, in place of one that has ended."""
        self._links[key] = link

    def discard(self, key: Hashable) -> None:
        """Forget a link that has ended."""
        link = self._links.get(key)
        if link is not None and link.is_over:
            del self._links[key]

    def ask(
        self, frame: Frame, note: Note | None, change: Callable[[Frame], Frame] | None = None
    ) -> None:
        """Remember a request that is about to go to a broker. Raises ``Refused``."""
        if frame.flag & FLAG_ONEWAY:
            return
        self._forget(frame.opaque)
        if len(self._asked) >= ASKED_MAX:
            remark = f"{ASKED_MAX} requests for moved queues wait for their answers"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        self._session.account.add(ASKED_BYTES)
        self._asked[frame.opaque] = _Asked(note, self._moving.lease.era, change)
        if note is not None:
            self._moving.sent(self, frame.opaque, note)

    def receive(self, frames: Sequence[Frame]) -> None:
        """Pass answers on to the client, in its numbers."""
        passed: list[Frame] = []
        for frame in frames:
            asked = self._asked.get(frame.opaque) if frame.is_response else None
            if asked is None:
                continue
            self._forget(frame.opaque)
            answer = self._seen(asked, frame)
            if answer is not None:
                passed.append(answer)
        if passed and not self._session.closed:
            self._session.send_all(passed)

    def _seen(self, asked: _Asked, frame: Frame) -> Frame | None:
        if asked.note is not None:
            return self._of_queue(asked.note, asked.era, frame)
        return frame if asked.change is None else asked.change(frame)

    def _of_queue(self, note: Note, era: int, frame: Frame) -> Frame | None:
        """Return the answer to a request for a queue; None for one that waits."""
        moving = self._moving
        if moving.lease.era != era:
            return _refusal(frame, ResponseCode.SERVICE_NOT_AVAILABLE, NO_LEASE)
        moved = moving.now(note.topic, note.place)
        if note.part >= len(moved.parts):  # the log was begun again
            return _refusal(frame, ResponseCode.SERVICE_NOT_AVAILABLE, MOVED)
        is_last = note.part == len(moved.parts) - 1
        try:
            if note.offset >= 0:
                if moved.is_sealing and is_last and NEXT in frame.fields:
                    return again(note, moved, note.offset)
                return seen_pull(note, moved, frame, self._tag(moved.parts[note.part].broker))
            if frame.code not in STORED:
                return frame
            if note.is_plain:
                if moved.is_sealing and is_last:
                    moving.keep_answer(self, note, era, frame)
                    return None
                if is_behind(note, moved, frame):
                    return _refusal(frame, ResponseCode.SERVICE_NOT_AVAILABLE, MOVED)
            return seen_send(note, moved, frame, self._tag(moved.parts[note.part].broker))
        except RemoteProtocolError as error:
            return _refusal(frame, ResponseCode.SYSTEM_ERROR, str(error))

    def give(self, note: Note, era: int, answer: Frame) -> None:
        """Give the client an answer that has waited."""
        found = self._of_queue(note, era, answer)
        if found is not None and not self._session.closed:
            self._session.send_all([found])

    def drop(self, opaque: int) -> None:
        """Answer a pull that waits at an ended part: clients ask at once from there on."""
        asked = self._asked.get(opaque)
        self._forget(opaque)
        if asked is None or asked.note is None or self._session.closed:
            return
        note = asked.note
        moved = self._moving.now(note.topic, note.place)
        if note.part < len(moved.parts):
            answer = again(note, moved, moved.parts[note.part].end)
        else:
            answer = note.frame.reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=MOVED)
        self._session.send_all([answer])

    def _forget(self, opaque: int) -> None:
        asked = self._asked.pop(opaque, None)
        if asked is not None:
            self._session.account.add(-ASKED_BYTES)
        if asked is not None and asked.note is not None:
            self._moving.answered(self, opaque, asked.note)

    def _end(self) -> None:
        for link in tuple(self._links.values()):
            link.end("the client is gone")
        for opaque in tuple(self._asked):
            self._forget(opaque)


def _refusal(frame: Frame, code: int, remark: str) -> Frame:
    """Return a refusal in place of an answer."""
    return replace(frame, code=code, fields={}, body=b"", remark=remark)
