"""The requests that wait, and those under way, for one queue that moves."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, Protocol

import trio

from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame

from ...net._session import Session
from ...net._session_places import SessionPlaces
from ..order import MovedQueue
from ._lease import CarriedOut, Key
from ._numbers import Note
from ._ways import Link

COSTS: Final = 500
"""Bytes that a request that waits takes besides its body and fields."""
HELD_MAX: Final = 20_000
"""Most requests that wait for one queue; a connection and an address have shares of them."""
PARKED_S: Final = 40.0
"""Seconds for which a move waits for pulls that are parked; then their connections end."""
RAW_LOOKED_MAX: Final = 1000
"""Most links that a look at a queue that moves asks for what they wait for, but for the last."""
UNDONE_MAX: Final = 100
"""Most queues that a lease names."""


class Links(Protocol):
    """The links of one client at one port, over which its requests for moved queues go."""

    def give(self, note: Note, era: int, answer: Frame) -> None:
        """Give the client an answer that has waited."""

    def drop(self, opaque: int) -> None:
        """Forget a request, whose answer is no longer for the client."""


class Held(NamedTuple):
    """A request that waits."""

    again: Callable[[Frame, Session], None]
    """Takes it once more."""
    late: Callable[[Frame], Frame | None]
    """Gives the answer when its time is over; None for a refusal."""
    session: Session
    frame: Frame
    until_s: float

    @property
    def charged_bytes(self) -> int:
        """The bytes that its client is charged for."""
        return COSTS + self.frame.kept_bytes


@dataclass(eq=False, slots=True)
class Serving:
    """One queue that moves."""

    moved: MovedQueue | None = None
    floor: int | None = None
    """Records up to which all is carried out while the last change is not; None once it is."""
    since_s: float = 0.0
    raw: dict[Link, int] = field(default_factory=dict)
    """Links over which requests went before the queue began to move, some for it among them, each
    with the mark of that time."""
    _raw_sends: dict[Link, int] = field(default_factory=dict)
    """Those of these over which sends went."""
    held: deque[Held] = field(default_factory=deque)
    _places: SessionPlaces = field(default_factory=lambda: SessionPlaces(HELD_MAX))
    """The places of these."""
    is_releasing: bool = False
    """True in the turn in which a request that has waited is taken once more."""
    has_releaser: bool = False
    """True while a task releases what waits."""
    answers: deque[tuple[Links, Note, int, Frame]] = field(default_factory=deque)
    """Answers to sends that wait until the end of their part is known."""
    sends: set[tuple[Links, int]] = field(default_factory=set)
    pulls: dict[tuple[Links, int], Note] = field(default_factory=dict)
    looked: MovedQueue | None = None
    """The queue as it was when pulls were looked at the last time: they wait at an ended part only
    where it has changed since."""
    unlooked: deque[tuple[Links, int]] = field(default_factory=deque)
    """Pulls of that time that are to be looked at."""
    changed: trio.Event = field(default_factory=trio.Event)

    @property
    def is_sealing(self) -> bool:
        """True while nothing is written, so that the end of the last part can be read."""
        return self.moved is not None and self.moved.is_sealing

    @property
    def has_requests(self) -> bool:
        """True while any request for the queue is under way, or waits."""
        return bool(self.sends or self.pulls or self.answers or self.held)

    @property
    def is_waiting(self) -> bool:
        """True while it is to be looked at again and again."""
        is_changing = self.floor is not None or self.is_sealing
        return is_changing or bool(self.held or self.answers)

    def hold(self, held: Held) -> None:
        """Let a request wait. Raises ``Refused`` where too many do."""
        if full := self._places.why_full(held.session, "requests wait"):
            remark = f"{full}, for the queue, which moves to another broker"
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
        self._places.take(held.session)
        held.session.account.add(held.charged_bytes)
        self.held.append(held)

    def take_held(self) -> Held:
        """Return the request that has waited the longest, which waits no more."""
        held = self.held.popleft()
        self._places.give_back(held.session)
        held.session.account.add(-held.charged_bytes)
        return held

    def begin(self, links: Iterable[Link]) -> None:
        """Note what is under way over some links when the queue begins to move."""
        marks = {link: link.mark() for link in links}
        self.raw = {link: mark for link, mark in marks.items() if link.waits_since(mark)}
        self._raw_sends = {link: mark for link, mark in marks.items() if link.sends_since(mark)}

    @property
    def raw_sends(self) -> int:
        """The number of links over which sends from before the move are under way."""
        return len(self._raw_sends)

    def forget_settled(self, now_s: float) -> list[Link]:
        """Forget requests that are answered, and return the links that have waited for too long.

        Pulls wait at a broker for long, and there may be one at every link: a look is at
        ``RAW_LOOKED_MAX`` of them, in rotation.
        """
        raw = self.raw
        for link, mark in list(self._raw_sends.items()):
            if link.is_over or not link.sends_since(mark):
                del self._raw_sends[link]
        is_late = now_s - self.since_s > PARKED_S
        late: list[Link] = []
        for link in list(raw) if is_late else list(islice(raw, RAW_LOOKED_MAX)):
            mark = raw.pop(link)
            if link.is_over or not link.waits_since(mark):
                continue
            if is_late:
                late.append(link)
            else:
                raw[link] = mark
        if is_late:
            self._raw_sends.clear()
        return late


def answer_late(held: Held) -> None:
    """Answer a request whose time to wait is over."""
    if held.session.closed or held.frame.flag & FLAG_ONEWAY:
        return
    answer = held.late(held.frame)
    held.session.answer(held.frame, moving() if answer is None else answer)


def release_some(serving: Serving, most: int) -> None:
    """Take some requests that have waited once more, in their order."""
    serving.is_releasing = True
    try:
        for _ in range(min(most, len(serving.held))):
            one = serving.take_held()
            if not one.session.closed:
                one.again(one.frame, one.session)
    finally:
        serving.is_releasing = False


def answer_some(serving: Serving, moved: MovedQueue, most: int) -> None:
    """Give some of the answers that have waited, and answer some of the pulls that wait at an ended
    part, where nothing comes any more."""
    for _ in range(min(most, len(serving.answers))):
        links, note, era, answer = serving.answers.popleft()
        links.give(note, era, answer)
    if moved != serving.looked:
        serving.looked = moved
        serving.unlooked.extend(serving.pulls)
    for _ in range(min(most, len(serving.unlooked))):
        key = links, opaque = serving.unlooked.popleft()
        waiting = serving.pulls.get(key)
        if waiting is None:
            continue
        part = waiting.part
        end = moved.parts[part].read_end if part < len(moved.parts) else 0
        if 0 <= end <= waiting.offset:
            links.drop(opaque)


def carried_out(serving: Mapping[Key, Serving], position: int) -> CarriedOut:
    """Return what is carried out of the log, which is read up to a position."""
    floors = {key: one.floor for key, one in serving.items() if one.floor is not None}
    done = min(floors.values(), default=position)
    return CarriedOut(done, position, tuple(floors) if len(floors) <= UNDONE_MAX else None)


def moving() -> Refused:
    """Return the refusal for a queue whose end is just being read."""
    remark = "the queue is just moving to another broker; try again"
    return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
