"""The state that all connections of a server share: handlers, hooks, limits, answers to be sent."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Protocol

import trio

from lanemq.local import get_logger
from lanemq.wire.frame import Frame, encode_frame

from ._answers import Answer, Encoded
from ._dispatch import Guard, Handler, Handlers, failure, guarded, handle_unsupported
from ._loop_watch import loop_watch
from ._session import Session
from ._turns import all_steps
from .limits._budget import Budget
from .limits._limits import Limits
from .limits._quotas import HOST_SHARE, PeerQuota
from .transport._tls import ServerTls

LOGGER = get_logger("lanemq.proxy.server", by_peers=True)


AfterBatch = Callable[[], Callable[[], Awaitable[None]] | None]
"""A hook; it may return what has to be awaited."""


class Answering(Protocol):
    """The answers of a connection that wait to be sent."""

    def flush(self) -> None:
        """Send the answers that wait."""


@dataclass(eq=False, kw_only=True, repr=False)
class Exchange:
    """The part of a server that its connections share.

    ``after_batch`` hooks run after the requests of one read are handled and before any of
    their replies leave; a hook that raises turns all of them into that refusal. The broker
    writes its log there. What a hook returns is awaited before the replies leave, beside the loop,
    and refuses them in the same way; the connection reads nothing meanwhile. ``after_replies``
    hooks run when they have left, before anything else
    is read: work that the peer need not wait for. ``guard`` checks each request
    before its handler, also where there is none; all handlers are registered by then. It gets none
    with a body that is too long for its code. It checks
    a late answer to a reader once more, because rights may have changed since the request came.
    """

    handlers: Handlers = field(kw_only=False)
    name: str
    after_batch: list[AfterBatch] = field(default_factory=list)
    after_replies: list[Callable[[], None]] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    budget: Budget = field(default_factory=Budget)
    """The budget charged for the peers; all servers of a process share one."""
    guard: InitVar[Guard | None] = None
    tls: ServerTls = field(default_factory=ServerTls)

    def __post_init__(self, guard: Guard | None) -> None:
        self.table: Mapping[int, Handler] = self.handlers.table
        """The handlers of requests that come in here, by code; handlers within the process that
        ask each other do so without the guard."""
        self.unsupported: Handler = handle_unsupported
        """The handler of any other code."""
        self._guard_late: dict[int, Guard] = {}
        """Request code of a reader -> the check of its late answers."""
        if guard is not None:
            self._guard_late = dict.fromkeys(filter(self.handlers.only_reads, self.table), guard)
            bound_of = self.handlers.body_bytes_max
            self.table = {
                code: guarded(one, guard, most_bytes=bound_of(code))
                for code, one in self.table.items()
            }
            self.unsupported = guarded(handle_unsupported, guard)
        self.watch = loop_watch()
        self.waiting = PeerQuota[str](self.limits.in_flight_total, share=HOST_SHARE)
        """The requests whose handlers are waiting, over all connections, by address."""
        self.in_batch = False
        """True while handlers run: their answers to any peer are held back until the hooks ran."""
        self.dirty: list[Answering] = []
        self.served: object = None
        """The connection whose bytes were read last."""
        self.served_reads = 0
        """The number of its reads in a row before that (up to a bound)."""
        self._flushes_soon = False

    @property
    def in_flight(self) -> int:
        """The number of requests whose handlers are waiting."""
        return len(self.waiting)

    def encoded(self, request: Frame, session: Session, answer: Answer | Exception) -> Encoded:
        """Encode the late answer to a request, or the refusal in place of one.

        A reader gets it if it may still make the request now.
        """
        guard = self._guard_late.get(request.code)
        if guard is not None and not isinstance(answer, Exception):
            try:
                steps = guard(request, session)
                if steps is not None:
                    all_steps(steps)
            except Exception as error:  # its refusal, or a bug: either is the answer
                answer = error
        if isinstance(answer, Exception):
            return encode_frame(failure(request, session, answer))
        return self.handlers.encoded(request, answer)

    def finish_batch(self) -> None:
        """Run the ``after_replies`` hooks, and send their answers."""
        self.in_batch = True
        try:
            for hook in self.after_replies:
                hook()
        except Exception:  # a bug of ours; the replies have left, the connection goes on
            LOGGER.exception("%s could not finish a batch", self.name)
        finally:
            self.in_batch = False
        if self.dirty:
            self.flush()

    async def flush_soon(self) -> None:
        """Schedule one ``flush`` for all handlers that end now.

        What they waited for often came for many of them at once, such as a sync of the log, or
        a read from another broker: to send each answer by itself would cost more than the rest.
        """
        if not self._flushes_soon:
            self._flushes_soon = True
            await trio.lowlevel.cancel_shielded_checkpoint()
            self._flushes_soon = False
            self.flush()

    def flush(self) -> None:
        """Send the answers that handlers have queued, one send per connection."""
        dirty, self.dirty = self.dirty, []
        for connection in dirty:
            connection.flush()
