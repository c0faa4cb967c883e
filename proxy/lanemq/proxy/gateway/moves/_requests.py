"""The request that moves a queue, at a proxy's port for routes."""

from typing import Final, final

import trio

from lanemq.wire import RequestCode
from lanemq.wire.bodies import QueueMove
from lanemq.wire.frame import Frame
from lanemq.wire.headers import ProxyMoveQueue

from ...net._dispatch import Handlers, typed
from ...net._session import Session
from ._commands import Commands, Found
from ._context import MoveContext, MoveRefused
from ._mover import Move, OnNoWay, refused

KEPT_S: Final = 60.0
"""Seconds for which the end of a move is told to who asks again."""


@final
class MoveRequests:
    """The handler of PROXY_MOVE_QUEUE, and the moves that it drives."""

    def __init__(self, context: MoveContext, nursery: trio.Nursery) -> None:
        self._context = context
        self._moves: Commands[Move] = Commands(
            nursery, kept_s=KEPT_S, first=context.look, still_holds=self._still_holds
        )

    def add_to(self, handlers: Handlers) -> None:
        """Register the handler."""
        handlers.add(RequestCode.PROXY_MOVE_QUEUE, typed(ProxyMoveQueue, self.answer))

    async def answer(self, header: ProxyMoveQueue, frame: Frame, session: Session) -> Frame:
        """Begin a move, go on with it, or call it off. Raises ``Refused``."""

        def make() -> Move:
            return Move(self._context, topic=header.topic, index=header.index, broker=header.broker)

        try:
            if header.abort:
                await self._abort(make())
                return frame.reply(body=QueueMove(header.topic, header.index, "aborted").encode())
            found = await self._moves.ask((header.topic, header.index, header.broker), make)
        except MoveRefused as error:
            raise refused(error) from error
        return frame.reply(body=found.encode())

    def _still_holds(self, found: Found) -> bool:
        """Return whether a queue is yet where a move has brought it."""
        assert isinstance(found, QueueMove)
        move = Move(self._context, topic=found.topic, index=found.index, broker=found.broker_name)
        try:
            return move.end() == found
        except MoveRefused:
            return False

    async def _abort(self, move: Move) -> None:
        """Call a move off, and end its driver here. Raises ``MoveRefused``."""
        drivers = [
            one
            for one in self._moves.running()
            if (one.command.topic, one.command.index) == (move.topic, move.index)
        ]
        try:
            await move.abort()
        except OnNoWay:
            early = [one.command for one in drivers if not one.command.has_begun]
            if not early:
                raise
            for one in early:
                one.is_called_off = True
        else:
            for driver in drivers:
                driver.scope.cancel()
