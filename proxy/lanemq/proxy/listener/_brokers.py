"""Asking the brokers that hold segments: the one of this process directly, others over a link."""

from collections.abc import Awaitable, Callable, Container
from typing import Final, cast, final

import trio

from lanemq.sdk import BrokerUnreachable, LanemqError, RemotingClient
from lanemq.wire import (
    FLAG_ONEWAY,
    Frame,
    Refused,
    ResponseCode,
    decode_frame,
)

from .._connection import ServerConnection
from .._dispatch import Handlers, unsupported
from .._session import Session

LENGTH_BYTES: Final = 4


@final
class _Any(Container[int]):
    def __contains__(self, code: object) -> bool:
        return True


ANY_CODE: Final = _Any()


class Unreachable(Refused):
    """The broker cannot be asked; the client may try again."""

    def __init__(self, broker_name: str, why: object) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, f"{broker_name}: {why}")
        self.broker_name = broker_name


@final
class _Taker:
    """Stands for the connection of a session that is asked for one answer only."""

    def __init__(self) -> None:
        self.answer: Frame | None = None
        self._answered: trio.Event | None = None

    def write(self, data: bytes) -> None:
        """Take the answer to a request that was parked."""
        self.answer = decode_frame(data[LENGTH_BYTES:])
        if self._answered is not None:
            self._answered.set()

    async def wait(self) -> Frame:
        """The answer, once it is there."""
        if self.answer is None:
            self._answered = trio.Event()
            await self._answered.wait()
        assert self.answer is not None
        return self.answer

    def abort(self) -> None:
        """There is nothing to break."""


@final
class Brokers:
    """Calls to brokers by name, on behalf of clients of the listener."""

    def __init__(
        self,
        client: RemotingClient,
        *,
        own_name: str,
        own_handlers: Handlers,
        commit_own: Callable[[], None],
    ) -> None:
        self._client = client
        self._commit_own = commit_own
        self._own_name = own_name
        self._own = own_handlers

    def is_own(self, broker_name: str) -> bool:
        """Whether it is the broker of this process, which answers without a link."""
        return broker_name == self._own_name

    def ask_own(self, frame: Frame, session: Session) -> Frame | Awaitable[Frame]:
        """The answer of this process's broker, at once where it has one at once.

        The handler sees a session of its own for this request: what it parks ends with the
        client's. What it stores is committed with the read that it is called in, as always.
        Raises what a handler raises.
        """
        handler = self._own.table.get(frame.code)
        if handler is None:
            return unsupported(frame)
        taker = _Taker()
        stand_in = Session(
            cast(ServerConnection, taker),
            session_id=session.id,
            peer=session.peer,
            local_port=session.local_port,
        )
        stand_in.version, stand_in.language = session.version, session.language
        reply = handler(frame, stand_in)
        if isinstance(reply, Frame):
            return reply
        if isinstance(reply, bytes):
            return decode_frame(reply[LENGTH_BYTES:])
        if reply is None:
            return _parked(taker, stand_in) if not frame.flag & FLAG_ONEWAY else frame.reply()
        return _finished(reply)

    async def ask(
        self,
        broker_name: str,
        address: str | None,
        frame: Frame,
        session: Session,
        timeout_s: float,
    ) -> Frame:
        """The answer of a broker, whatever its code.

        Raises ``Refused`` (SYSTEM_ERROR) where it does not answer, and as ``Unreachable`` where
        it cannot be asked at all: then nothing of the request was done.
        """
        if self.is_own(broker_name):
            answer = self.ask_own(frame, session)
            self._commit_own()  # no read of a connection is under way that would do it
            return answer if isinstance(answer, Frame) else await answer
        if address is None:
            raise Unreachable(broker_name, "no name server knows its address")
        try:
            if frame.flag & FLAG_ONEWAY:
                await self._client.oneway(address, frame)
                return frame.reply()
            return await self._client.call(address, frame, timeout_s, accept=ANY_CODE)
        except BrokerUnreachable as error:
            raise Unreachable(broker_name, error) from error
        except LanemqError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{broker_name}: {error}") from error


async def _finished(reply: "Awaitable[Frame | bytes | None]") -> Frame:
    done = await reply
    if isinstance(done, bytes):
        return decode_frame(done[LENGTH_BYTES:])
    assert done is not None, "what is asked for here has an answer"
    return done


async def _parked(taker: _Taker, stand_in: Session) -> Frame:
    try:
        return await taker.wait()
    finally:
        stand_in.ended()
