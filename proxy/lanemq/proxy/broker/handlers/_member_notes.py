"""Notes to the members of consumer groups that membership or subscriptions changed.

One heartbeat, or one connection that ends, changes up to 1,500 groups, and each group may have as
many members as there are connections. So only a few notes are sent at once; the others follow in
turns. A group that changes again before its notes were sent gets them once.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, final

import trio

from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame, request

from ...net._session import Session

NOTES_AT_ONCE: Final = 16
"""Most notes of one change that are sent at once: those of an ordinary client."""
NOTES_OF_A_TURN: Final = 256
"""Notes of a turn of the event loop, 6 microseconds each. A look for a group's members counts as
one: most groups of connections that end have no others."""


@final
class MemberNotes:
    """The groups whose members are to be told, over the connections of one broker."""

    def __init__(self, sessions_of: Callable[[str], list[Session]]) -> None:
        self._news = trio.Event()
        self._sessions_of = sessions_of
        self._waiting: OrderedDict[str, None] = OrderedDict()

    def tell(self, groups: Iterable[str]) -> None:
        """Tell every member of the groups, the first few at once."""
        room = NOTES_AT_ONCE
        for group in groups:
            if not self._waiting:
                sessions = self._sessions_of(group)
                if len(sessions) <= room:
                    room -= len(sessions)
                    _send(_note(group), sessions)
                    continue
            self._waiting[group] = None
        if self._waiting:
            self._news.set()

    async def run(self) -> None:
        """Send the notes that wait, until cancelled."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            for number, found in enumerate(self._notes()):
                if number % NOTES_OF_A_TURN == 0:
                    await trio.lowlevel.checkpoint()
                if found is not None:
                    session, note = found
                    session.oneway(note)

    def _notes(self) -> Iterator[tuple[Session, Frame] | None]:
        """Yield the notes, and None before each look for the members of a group."""
        while self._waiting:
            yield None
            group, _ = self._waiting.popitem(last=False)
            note = _note(group)
            for session in self._sessions_of(group):
                yield session, note


def _note(group: str) -> Frame:
    return request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})


def _send(note: Frame, sessions: Iterable[Session]) -> None:
    for session in sessions:
        session.oneway(note)
