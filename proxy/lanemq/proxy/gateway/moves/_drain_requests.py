"""The requests by which a broker is drained, at a proxy's port for routes."""

from typing import Final, final

import trio

from lanemq.wire import RequestCode
from lanemq.wire.bodies import ProxiedQueues
from lanemq.wire.frame import Frame
from lanemq.wire.headers import ProxyDrainBroker, ProxyLostMessages, ProxyQueues

from ...net._dispatch import Handlers, typed
from ...net._session import Session
from ._commands import Commands, Found
from ._context import MoveContext, MoveRefused
from ._drain import Drain
from ._lost import LostTails
from ._mover import refused

LOST_KEPT_S: Final = 10.0
"""Seconds for which what readers were let pass over is told to who asks again."""


@final
class DrainRequests:
    """The handlers of PROXY_DRAIN_BROKER, PROXY_LOST_MESSAGES and PROXY_QUEUES, and the commands
    that go on."""

    def __init__(self, context: MoveContext, nursery: trio.Nursery) -> None:
        self._context = context
        # One that came to its end while nobody waited has left its entries, and runs once more:
        # queues may have moved since.
        self._drains: Commands[Drain] = Commands(nursery, kept_s=0.0, first=context.look)
        self._lost: Commands[LostTails] = Commands(nursery, kept_s=LOST_KEPT_S, first=context.look)
        self._read_only_since: dict[str, float] = {}

    def add_to(self, handlers: Handlers) -> None:
        """Register the handlers."""
        handlers.add(RequestCode.PROXY_DRAIN_BROKER, typed(ProxyDrainBroker, self.answer))
        handlers.add(RequestCode.PROXY_LOST_MESSAGES, typed(ProxyLostMessages, self.lost))
        handlers.add(RequestCode.PROXY_QUEUES, typed(ProxyQueues, self.queues))

    def queues(self, header: ProxyQueues, frame: Frame, session: Session) -> Frame:
        """Return where the queues of a topic are written."""
        orders = self._context.moving.orders
        order = orders.of(header.topic)
        if order is None:
            why = orders.why_unknown or (
                "it has no order that is kept: it is none that can have one, or its queues have "
                "not been the same for long enough since a client asked for them"
            )
            return frame.reply(body=ProxiedQueues(header.topic, problem=why).encode())
        found = ProxiedQueues(header.topic, tuple(order.ends()), targets=tuple(order.targets()))
        return frame.reply(body=found.encode())

    async def lost(self, header: ProxyLostMessages, frame: Frame, session: Session) -> Frame:
        """Return what a broker has lost, and let readers pass over it. Raises ``Refused``."""

        def make() -> LostTails:
            return LostTails(self._context, header.broker, passes=header.passes)

        try:
            found = await self._lost.ask((header.broker, header.passes), make)
        except MoveRefused as error:
            raise refused(error) from error
        return frame.reply(body=found.encode())

    async def answer(self, header: ProxyDrainBroker, frame: Frame, session: Session) -> Frame:
        """Go on with a drain, or note that a broker will not come back. Raises ``Refused``."""

        def make() -> Drain:
            return Drain(self._context, header.broker, self._read_only_since)

        try:
            found: Found
            if header.forget:
                found = await make().forget()
            else:
                found = await self._drains.ask(header.broker, make)
        except MoveRefused as error:
            raise refused(error) from error
        return frame.reply(body=found.encode())
