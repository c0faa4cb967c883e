"""The brokers that hold segments, by name."""

from typing import Final, final

import trio
from attrs import define, field

from lanemq.wire.frame import Frame

from ....net._answers import Answer
from ....net._session import Session
from ._broker import Reach, SegmentBroker
from ._lent import LentLocks
from ._own import OwnBroker
from ._questions import AskedT, Question, ToldT

CALL_S: Final = 5.0
"""Seconds that another broker may take for an answer that it does not have to wait for."""


@final
@define(eq=False, kw_only=True, repr=False)
class Brokers:
    """Calls to brokers by name, on behalf of clients of the listener."""

    _reach: Reach
    own: OwnBroker | None
    """The broker of this process, where it has one."""
    lent: LentLocks = field(factory=lambda: LentLocks(trio.current_time), init=False)
    """The locks of the listener's clients at other brokers."""

    def quick(self, broker_name: str) -> OwnBroker | None:
        """Return the broker if it can be asked without a link; None for any other."""
        own = self.own
        return own if own is not None and own.name == broker_name else None

    def at(self, broker_name: str, address: str | None) -> SegmentBroker:
        """Return a broker; ``address`` is for those that are reached over a link."""
        return self.quick(broker_name) or self._reach(broker_name, address)

    async def call(
        self,
        broker_name: str,
        address: str | None,
        question: Question[AskedT, ToldT],
        asked: AskedT,
        timeout_s: float = CALL_S,
    ) -> ToldT:
        """Ask a broker a question, as ``SegmentBroker.call``."""
        return await self.at(broker_name, address).call(question, asked, timeout_s)

    async def ask(
        self,
        broker_name: str,
        address: str | None,
        frame: Frame,
        session: Session,
        timeout_s: float = CALL_S,
    ) -> Answer:
        """Forward a client's own request to a broker, as ``SegmentBroker.ask``.

        Sends, pulls and messages that are sent back keep their fields on the way, known or not,
        so they go as frames; this process's broker answers with its result all the same, another
        one with a frame.
        """
        return await self.at(broker_name, address).ask(frame, session, timeout_s)
