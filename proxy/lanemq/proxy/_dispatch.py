"""From a request's code to the function that answers it.

A handler takes a frame and the session it came on. It is a plain function where it never
waits, and its answer leaves with the other answers of the same read; it is a coroutine
function where it does, and the server runs it beside the connection. The answer is a frame,
or the bytes of one (hot paths encode their own from a template), or None for no answer yet.

Source: RocketMQ 4.9.8, NettyRemotingAbstract.processRequestCommand.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

from lanemq.wire import Frame, Refused, RemoteProtocolError, ResponseCode, encode_frame

from ._session import Session

_HeaderT = TypeVar("_HeaderT", covariant=True)

LOGGER = logging.getLogger("lanemq.proxy.dispatch")

Reply = Frame | bytes | None
Handler = Callable[[Frame, Session], Reply | Awaitable[Reply]]


class _Header(Protocol[_HeaderT]):
    """What every request header class of lanemq.wire offers."""

    def from_fields(self, fields: Mapping[str, str], /) -> _HeaderT: ...


def typed(
    header: _Header[_HeaderT],
    handler: Callable[[_HeaderT, Frame, Session], Reply | Awaitable[Reply]],
) -> Handler:
    """Give ``handler`` its header as a value of class ``header``.

    A field that is missing or no number is answered with SYSTEM_ERROR by the dispatcher.
    """
    from_fields = header.from_fields

    def handle(frame: Frame, session: Session) -> Reply | Awaitable[Reply]:
        return handler(from_fields(frame.fields), frame, session)

    return handle


class Handlers:
    """The registry of one server. One code has one handler; a second one is our mistake."""

    def __init__(self) -> None:
        self.table: dict[int, Handler] = {}

    def add(self, code: int, handler: Handler) -> None:
        """Answer requests of ``code`` with ``handler``."""
        assert code not in self.table, f"request code {code} has a handler already"
        self.table[int(code)] = handler

    def raw(self, code: int, handler: Callable[[Frame, Session], bytes | None]) -> None:
        """Answer ``code`` with a handler that encodes its own replies (see ReplyTemplate)."""
        self.add(code, handler)

    def codes(self) -> frozenset[int]:
        """The request codes with a handler."""
        return frozenset(self.table)


def unsupported(frame: Frame) -> Frame:
    """The reply to a code nobody handles, with the reference's text."""
    remark = f" request type {frame.code} not supported"
    return frame.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)


def overloaded(frame: Frame) -> Frame:
    """The reply to a request that found the in-flight budget used up."""
    remark = "[OVERLOAD]system busy, too many requests are waiting, start flow control for a while"
    return frame.reply(ResponseCode.SYSTEM_BUSY, remark=remark)


def failure(frame: Frame, session: Session, error: Exception) -> Frame:
    """The reply to a request whose handler raised ``error``."""
    if isinstance(error, Refused):
        return frame.reply(error.code, remark=error.remark)
    if isinstance(error, RemoteProtocolError):
        LOGGER.info("request %d from %s: %s", frame.code, session.peer, error)
        return frame.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
    LOGGER.error("request %d from %s failed", frame.code, session.peer, exc_info=error)
    remark = f"{type(error).__name__}: {error}"
    return frame.reply(ResponseCode.SYSTEM_ERROR, remark=remark)


def encoded(reply: Frame | bytes) -> bytes:
    """The bytes of a reply of either form."""
    return reply if isinstance(reply, bytes) else encode_frame(reply)
