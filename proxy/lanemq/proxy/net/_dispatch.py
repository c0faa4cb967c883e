"""The dispatch from a request's code to the function that answers it.

A handler takes a frame and the session it came on. It is a plain function where it never
waits, and its answer leaves with the other answers of the same read; it is a coroutine
function where it does, and the server runs it beside the connection. An answer is a value
(``Answer``): a frame where that is the natural result, as for requests that are rare, or a
``Result`` of hot paths. None is for no answer yet. Only a server's edge makes bytes of it, by the
encoder for its class, so that callers inside the process take an answer as it is.

Source: RocketMQ 4.9.8, NettyRemotingAbstract.processRequestCommand.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from lanemq.local import get_logger
from lanemq.wire import Refused, RemoteProtocolError, ResponseCode, fastjson
from lanemq.wire.frame import MAX_FRAME_BYTES, Frame, encode_frame
from lanemq.wire.headers import SendMessage, SendMessageV2
from lanemq.wire.requests import REQUESTS, BodyKind, Port, RequestSpec

from ._answers import Answer, Encoded, Result
from ._long_answer import check_answer
from ._session import Session
from ._turns import Steps
from ._unchecked import Unchecked

_HeaderT = TypeVar("_HeaderT", covariant=True)

LOGGER = get_logger("lanemq.proxy.dispatch", by_peers=True)


Outcome = Answer | Awaitable[Answer | None] | None
"""The result of a handler; None, at once or later, is for an answer that it sends itself. (That of
a guarded one may be ``Unchecked``, which the connection takes out.)"""

ResultT = TypeVar("ResultT", bound=Result)
BODY_BYTES_MAX: Final = 512 << 10
"""The longest body of a request that brings no message and registers no broker."""

QUICK_BODY_BYTES: Final = 8 << 10
"""A longer one has to be strict JSON without references: to read anything else takes a
microsecond a byte. No client writes such a body."""

BODY_VALUES_MAX: Final = 1 << 15
"""Most values in a body of JSON, keys not counted: each costs some bytes to send, and up to a
microsecond to read, to keep and to write again."""

TEXT_BODY_BYTES_MAX: Final = 32 << 10
"""The longest body of settings, a line each; all that a broker has are half of it."""

_BOUNDS: Final[Mapping[BodyKind, int]] = {
    BodyKind.JSON: BODY_BYTES_MAX,
    BodyKind.LONG: MAX_FRAME_BYTES,
}

Handler = Callable[[Frame, Session], Outcome]

Guard = Callable[[Frame, Session], Steps[None] | None]
"""A check of requests before their handlers; it raises ``Refused`` for one that it does not let
in. Where a request names very much, it returns the steps that do so."""


class _Header(Protocol[_HeaderT]):
    """The interface of the request header classes of lanemq.wire."""

    def from_fields(self, fields: Mapping[str, str], /) -> _HeaderT: ...


def typed(
    header: _Header[_HeaderT],
    handler: Callable[[_HeaderT, Frame, Session], Outcome],
) -> Handler:
    """Wrap ``handler`` so that it gets its header as a value of class ``header``.

    A field that is missing or no number is answered with SYSTEM_ERROR by the dispatcher.
    """
    from_fields = header.from_fields

    def handle(frame: Frame, session: Session) -> Outcome:
        return handler(from_fields(frame.fields), frame, session)

    return handle


def by_header(header: _Header[_HeaderT], handler: Callable[[_HeaderT], Outcome]) -> Handler:
    """Wrap ``handler``, which needs nothing of its request but the header, as ``typed``."""
    from_fields = header.from_fields

    def handle(frame: Frame, session: Session) -> Outcome:
        return handler(from_fields(frame.fields))

    return handle


class Handlers:
    """The registry of one server. One code has one handler; a second one is our mistake.

    ``requests`` has the declarations of what the server may serve at its ``ports``: a proxy's port
    for routes is that of a name server, too.
    """

    def __init__(self, *ports: Port, requests: Mapping[int, RequestSpec] = REQUESTS) -> None:
        self._ports = frozenset(ports)
        self._name = " and ".join(port.value for port in ports)
        self._requests = requests
        self.table: dict[int, Handler] = {}
        self.encoders: dict[type[Answer], Callable[[Frame, Any], Encoded]] = {Frame: _encode}
        """Class of an answer -> its encoder, which gets the request too."""

    def add(self, code: int, handler: Handler) -> None:
        """Answer requests of ``code`` with ``handler``.

        Where the body is JSON it gets none longer than ``BODY_BYTES_MAX``, and none of more than
        ``BODY_VALUES_MAX`` values: nobody has a use for one, and it would keep all others waiting
        while it is read. From ``QUICK_BODY_BYTES`` on it has to be strict JSON. Where it is text
        it gets none longer than ``TEXT_BODY_BYTES_MAX``.

        Raises ``ValueError`` for a code that is not declared for this port.
        """
        assert code not in self.table, f"request code {code} has a handler already"
        spec = self._requests.get(code)
        if spec is None or self._ports.isdisjoint(spec.ports) or not spec.touches:
            raise ValueError(
                f"request code {code} is not declared for a {self._name}: declare it, with "
                "the objects that it touches, in lanemq.wire.requests"
            )
        if spec.body not in (BodyKind.LONG, BodyKind.UNREAD):
            handler = _with_short_body(handler, is_json=spec.body is BodyKind.JSON)
        self.table[int(code)] = handler

    def encode(self, result: type[ResultT], encoder: Callable[[Frame, ResultT], Encoded]) -> None:
        """Encode answers of class ``result`` with ``encoder`` (see ``ReplyTemplate``)."""
        assert result not in self.encoders, f"{result} has an encoder already"
        self.encoders[result] = encoder

    def encoded(self, request: Frame, answer: Answer) -> Encoded:
        """Encode the answer to a request."""
        return self.encoders[type(answer)](request, answer)

    def only_reads(self, code: int) -> bool:
        """Return whether requests of a code change nothing."""
        spec = self._requests.get(code)
        return spec is not None and spec.only_reads

    def body_bytes_max(self, code: int) -> int:
        """Return the longest body of a code that this server may serve."""
        return _BOUNDS.get(self._requests[code].body, TEXT_BODY_BYTES_MAX)

    def codes(self) -> frozenset[int]:
        """Return the request codes with a handler."""
        return frozenset(self.table)


def _with_short_body(handler: Handler, *, is_json: bool) -> Handler:
    def handle(frame: Frame, session: Session) -> Outcome:
        if len(frame.body) > QUICK_BODY_BYTES:
            check_body(frame, is_json=is_json)
        return handler(frame, session)

    return handle


def check_body(frame: Frame, *, is_json: bool) -> None:
    """Raise ``Refused`` (SYSTEM_ERROR) for a body that takes too long to read: see
    ``Handlers.add``. Raises ``RemoteProtocolError`` for numbers as
    ``fastjson.check_request_numbers``."""
    size_bytes = len(frame.body)
    most_bytes = BODY_BYTES_MAX if is_json else TEXT_BODY_BYTES_MAX
    if size_bytes > most_bytes:
        raise _too_long(f"a body of {size_bytes} bytes", f"{most_bytes} are", frame)
    if not is_json or size_bytes <= QUICK_BODY_BYTES:
        return
    values = fastjson.most_values(frame.body)
    if values > BODY_VALUES_MAX:
        raise _too_long(f"a body of up to {values} JSON values", f"{BODY_VALUES_MAX} are", frame)
    fastjson.check_request_numbers(frame.body)
    if not fastjson.is_quick(frame.body):
        body = f"a body of {size_bytes} bytes that is not strict JSON"
        raise _too_long(body, f"{QUICK_BODY_BYTES} of that are", frame)


def _too_long(body: str, most: str, frame: Frame) -> Refused:
    remark = f"{body}, at most {most} read of request {frame.code}"
    return Refused(ResponseCode.SYSTEM_ERROR, remark)


def guarded(handler: Handler, guard: Guard, *, most_bytes: int = BODY_BYTES_MAX) -> Handler:
    """Wrap ``handler`` so that it gets only requests that ``guard`` lets pass.

    A body of more than ``most_bytes`` is refused before the guard, which may hash all of it.
    """

    def handle(frame: Frame, session: Session) -> Outcome:
        if len(frame.body) > most_bytes:
            raise _too_long(f"a body of {len(frame.body)} bytes", f"{most_bytes} are", frame)
        steps = guard(frame, session)
        if steps is not None:
            return Unchecked(frame, session, steps, handler)
        return handler(frame, session)

    return handle


def handle_unsupported(frame: Frame, session: Session) -> Frame:
    """Answer a request of a code without a handler."""
    return unsupported(frame)


def unsupported(frame: Frame) -> Frame:
    """Return the reply to a code without a handler, with the reference's text."""
    refusal = not_supported(frame.code)
    return frame.reply(refusal.code, remark=refusal.remark)


def not_supported(code: int) -> Refused:
    """Return the refusal of a code that no server here has, with the reference's text."""
    remark = f" request type {code} not supported"
    return Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


def overloaded(frame: Frame) -> Frame:
    """Return the reply to a request that found the in-flight budget used up."""
    remark = "[OVERLOAD]system busy, too many requests are waiting, start flow control for a while"
    return frame.reply(ResponseCode.SYSTEM_BUSY, remark=remark)


def failure(frame: Frame, session: Session, error: Exception) -> Frame:
    """Return the reply to a request whose handler raised ``error``.

    Peers are told what they did wrong, or which of their wishes cannot be fulfilled and why; of
    an error of ours that there was one. Classes, paths and tracebacks are for the log.
    """
    if isinstance(error, Refused):
        return frame.reply(error.code, body=error.body, remark=error.remark)
    if not isinstance(error, RemoteProtocolError):
        error = _fault_of_fields(frame) or error
    if isinstance(error, RemoteProtocolError):
        LOGGER.info("request %d from %s: %s", frame.code, session.peer, error)
        return frame.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
    if isinstance(error, OSError):  # of the disk: no bug, and peers must not see its path
        LOGGER.error("request %d from %s failed: %s", frame.code, session.peer, error)
        remark = f"the server could not write or read its files: {error.strerror}"
    else:
        LOGGER.error("request %d from %s failed", frame.code, session.peer, exc_info=error)
        remark = f"the server failed at request {frame.code}; its log says why"
    return frame.reply(ResponseCode.SYSTEM_ERROR, remark=remark)


def _fault_of_fields(frame: Frame) -> RemoteProtocolError | None:
    """Return the fault of a request's header, if it has one.

    Hot paths take the fields they need without a look at the rest.
    """
    spec = REQUESTS.get(frame.code)
    header = None if spec is None else spec.header
    try:
        if header is SendMessageV2:
            SendMessage.from_letters(frame.fields)
        elif header is not None:
            header.from_fields(frame.fields)
    except RemoteProtocolError as error:
        return error
    return None


def _encode(request: Frame, reply: Frame) -> bytes:
    check_answer(request.code, len(reply.body))
    return encode_frame(reply)
