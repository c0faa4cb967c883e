"""One connected peer, for handlers."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, final

import trio

from lanemq.local import get_logger
from lanemq.wire import HostAddress
from lanemq.wire.frame import FLAG_ONEWAY, Frame, SerializeType, encode_frame

from ._answers import Answer, Encoded
from .limits._budget import Account

LOGGER = get_logger("lanemq.proxy.session", by_peers=True)


class SessionClosed(Exception):  # noqa: N818 - says what happened
    """The peer is gone, so that a request to it cannot be answered."""


class PeerTimedOut(Exception):  # noqa: N818 - as above
    """The peer did not answer a request of ours in time."""


class PeerConnection(Protocol):
    """The connection under a session."""

    @property
    def account(self) -> Account:
        """The account charged for the peer."""

    @property
    def has_room(self) -> bool:
        """True where the peer has taken most of the bytes sent to it."""

    def encoded(self, request: Frame, session: "Session", answer: Answer | Exception) -> Encoded:
        """Encode a late answer, or the refusal in place of one."""

    def next_opaque(self) -> int:
        """Return the number of our next request."""

    def write(self, *pieces: Encoded) -> None:
        """Send encoded frames."""

    def when_room(self, answer: Callable[[], None]) -> Callable[[], object]:
        """Call ``answer`` once the peer has taken most of the bytes sent to it, unless what is
        returned is called before."""

    def abort(self) -> None:
        """End the connection at once."""


@dataclass(slots=True)
class _Answer:
    frame: Frame | None = None
    ready: trio.Event = field(default_factory=trio.Event)


@final
@dataclass(eq=False, repr=False, slots=True)
class Session:
    """A peer's connection. All methods belong to the trio thread; only ``request`` waits."""

    _connection: PeerConnection
    id: int
    """Number of the connection in its process, from 1."""
    peer: HostAddress
    """The peer's address; an IPv4 address that came through an IPv6 socket is unwrapped."""
    local_port: int
    """The port at which the peer came in (the main or the VIP port)."""
    born_host: bytes = field(init=False)
    """The packed address of the peer, as records of its messages have it."""
    version: int = 0
    """The protocol version of its last request."""
    language: str = ""
    """The language named in its last request."""
    closed: bool = False
    on_close: list[Callable[["Session"], None]] = field(default_factory=list)
    """Callbacks for the end of the connection, called once, in order."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Values that registries remember about this peer."""
    on_answer: Callable[[Frame], None] | None = None
    """Takes the responses of the peer that no request of ours waits for."""
    held_by: Callable[[], Awaitable[None]] | None = None
    """A wait before anything more is read of the peer, by handlers that pass on what it sends."""
    _waiting: dict[int, _Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.born_host = self.peer.packed

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.peer}>"

    def send(self, frame: Frame) -> None:
        """Send ``frame``, a late reply or a oneway request. To a closed peer it is dropped."""
        self._connection.write(encode_frame(frame))

    def send_all(self, frames: Iterable[Frame]) -> None:
        """Send frames in one piece; as ``send``."""
        self._connection.write(*map(encode_frame, frames))

    def answer(self, request: Frame, answer: Answer | Exception) -> None:
        """Send the late answer to a request, or the refusal in place of one (see ``send``)."""
        connection = self._connection
        connection.write(connection.encoded(request, self, answer))

    def answer_all(self, answers: Iterable[tuple[Frame, Answer | Exception]]) -> None:
        """Send late answers in one piece."""
        encoded = self._connection.encoded
        self._connection.write(*(encoded(request, self, answer) for request, answer in answers))

    def when_room(self, answer: Callable[[], None]) -> Callable[[], object]:
        """Call ``answer``, which sends, now or when the peer has taken the bytes sent before.

        Not at all when the connection ends before that, or what is returned is called: until
        then what ``answer`` holds is kept in memory.
        """
        return self._connection.when_room(answer)

    @property
    def has_room(self) -> bool:
        """True where the peer has taken most of the bytes sent to it."""
        return self._connection.has_room

    async def room(self) -> None:
        """Wait until the peer has taken most of the bytes sent to it; for ever where it is gone.
        Nothing is left of a wait that is cancelled."""
        room = trio.Event()
        take_back = self.when_room(room.set)
        try:
            await room.wait()
        finally:
            take_back()

    @property
    def account(self) -> Account:
        """The account charged for this peer."""
        return self._connection.account

    def oneway(self, frame: Frame) -> None:
        """Send a request that has no answer, with an opaque of our own."""
        self.send(self._ours(frame, frame.flag | FLAG_ONEWAY))

    async def request(self, frame: Frame, timeout_s: float) -> Frame:
        """Ask the peer and wait for its response.

        The header is JSON whatever the peer speaks: old clients read nothing else from us. It is
        sent once the peer has taken most of what was sent before: others have us ask it, and may
        not fill what it has to read. Raises ``SessionClosed`` or ``PeerTimedOut``.
        """
        if self.closed:
            raise SessionClosed(f"{self.peer} is not connected")
        ours = self._ours(frame, frame.flag)
        answer = self._waiting[ours.opaque] = _Answer()
        try:
            take_back = self.when_room(partial(self.send, ours))
            try:
                with trio.move_on_after(timeout_s):
                    await answer.ready.wait()
            finally:
                take_back()
        finally:
            self._waiting.pop(ours.opaque, None)
        if answer.frame is not None:
            return answer.frame
        if self.closed:
            raise SessionClosed(f"{self.peer} closed its connection before it answered")
        raise PeerTimedOut(f"{self.peer} did not answer request {frame.code} in {timeout_s} s")

    def close(self) -> None:
        """End the connection. Unsent data is lost."""
        self._connection.abort()

    def resolve(self, response: Frame) -> None:
        """Hand a response to the request that waits for it, any other to ``on_answer``."""
        answer = self._waiting.pop(response.opaque, None)
        if answer is not None:
            answer.frame = response
            answer.ready.set()
        elif self.on_answer is not None:
            self.on_answer(response)

    def ended(self) -> None:
        """Wake every task that waits for this peer, and tell the registries. The server calls
        it."""
        self.closed = True
        for answer in self._waiting.values():
            answer.ready.set()
        self._waiting.clear()
        callbacks, self.on_close = self.on_close, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:  # the other registries still have to hear of it
                LOGGER.exception("a registry failed on the end of %s", self)

    def _ours(self, frame: Frame, flag: int) -> Frame:
        return Frame(
            code=frame.code,
            opaque=self._connection.next_opaque(),
            flag=flag,
            fields=frame.fields,
            body=frame.body,
            remark=frame.remark,
            serialize=SerializeType.JSON,
        )
