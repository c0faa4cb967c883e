"""The requests of one connection whose handlers wait, and run beside it."""

from collections.abc import Awaitable
from dataclasses import dataclass
from itertools import islice
from typing import Final, final

import trio
from attrs import define, field

from lanemq.wire.frame import Frame, encode_frame

from ._answers import Encoded, Late, drop
from ._dispatch import failure, overloaded
from ._exchange import Exchange
from ._loop_watch import Timed
from ._outbox import Outbox
from ._session import Session
from ._stored_reply import StoredReply
from .limits._budget import Account
from .limits._quotas import has_share

_REQUEST_BYTES: Final = 1024
"""Bytes charged for a waiting request beside its body and its ext fields."""
ENDS_AT_ONCE: Final = 512
"""Number of waiting requests that end in one step with their connection; those beyond can each be
ended by itself, which costs them some microseconds."""
END_S: Final = 0.00001
"""Seconds that the end of one counts for in a turn of the loop, in which all of a step end."""


@final
@define(eq=False, repr=False)
class InFlight:
    """The waiting requests of one connection, within the bounds of the server."""

    _server: Exchange
    _session: Session
    _account: Account
    _outbox: Outbox
    _count: int = 0
    _fewer: trio.Event | None = None
    _apart: dict[trio.CancelScope, None] = field(factory=dict)
    """Scopes of the requests that end by themselves."""
    kept_bytes: int = 0
    answered_s: float = field(factory=trio.current_time)
    """Time of the last answer among them."""

    def start(
        self,
        awaitable: Awaitable[Late],
        request: Frame,
        nursery: trio.Nursery | None,
        replies: list[Encoded],
    ) -> None:
        """Run a handler that waits; where there are too many already, add the refusal to
        ``replies``."""
        server, limits = self._server, self._server.limits
        size_bytes = _REQUEST_BYTES + request.kept_bytes
        if (
            self._count >= limits.in_flight_per_connection
            or not has_share(self._count, limits.in_flight_total - server.in_flight)
            or not server.waiting.has_room(self._session.peer.host)
            or nursery is None
            or not self._account.admits(size_bytes)
        ):
            drop(awaitable)
            if not request.is_oneway:
                replies.append(encode_frame(overloaded(request)))
            return
        self._count += 1
        server.waiting.take(self._session.peer.host)
        self.kept_bytes += size_bytes
        self._account.add(size_bytes)
        if self._count <= ENDS_AT_ONCE:
            nursery.start_soon(self._finish, awaitable, request, size_bytes)
            return
        scope = trio.CancelScope()
        self._apart[scope] = None
        nursery.start_soon(self._finish_apart, scope, awaitable, request, size_bytes)

    async def _finish_apart(
        self, scope: trio.CancelScope, awaitable: Awaitable[Late], request: Frame, size_bytes: int
    ) -> None:
        try:
            with scope:
                await self._finish(awaitable, request, size_bytes)
        finally:
            self._apart.pop(scope, None)

    async def _finish(self, awaitable: Awaitable[Late], request: Frame, size_bytes: int) -> None:
        data: Encoded | None = None
        try:
            session = self._session
            who = _Request(request, session)
            answer = await Timed(awaitable, self._server.watch, who, owner=session)
            if answer is not None and not request.is_oneway:
                data = self._server.encoded(request, session, answer)
        except Exception as error:  # costs one request, not the connection
            data = encode_frame(failure(request, self._session, error))
        finally:
            self._count -= 1
            self._server.waiting.give_back(self._session.peer.host)
            self.kept_bytes -= size_bytes
            self._account.add(-size_bytes)
            if self._fewer is not None:
                self._fewer.set()
        if data is not None and not request.is_oneway and self._outbox.is_open:
            self._outbox.queue([data], has_stored=isinstance(data, StoredReply))
            self.answered_s = trio.current_time()
            await self._server.flush_soon()

    async def end(self) -> None:
        """End all but some of those that wait, in turns of the loop that have time for it, and
        return in one that has time for the end of the rest. No more are started by then."""
        turn = self._server.watch.turn
        while self._apart:
            await turn.begin(self._session)
            scopes = list(islice(self._apart, ENDS_AT_ONCE))
            for scope in scopes:
                del self._apart[scope]
                scope.cancel()
            turn.spend(len(scopes) * END_S)
        if self._count:
            await turn.begin(self._session)
            turn.spend(min(self._count, ENDS_AT_ONCE) * END_S)

    async def fewer(self) -> None:
        """Wait until the waiting requests are within their limit of bytes."""
        while self.kept_bytes > self._server.limits.in_flight_pause_bytes:
            self._fewer = trio.Event()
            await self._fewer.wait()
        self._fewer = None


@final
@dataclass(slots=True)
class _Request:
    """A request that is handled beside the connection, described for the log."""

    frame: Frame
    session: Session

    def __str__(self) -> str:
        return f"request {self.frame.code} of {self.session.peer}"
