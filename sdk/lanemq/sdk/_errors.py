# ruff: noqa: N818 - named for what happened, as in trio
"""Every error this client raises, in one tree.

LanemqError
 +- BrokerUnreachable   no connection could be made, or it broke before the answer (retriable)
 +- RequestTimedOut     the connection stands, the answer did not come in time (retriable)
 +- RefusedByBroker     the server answered, with a code that is not success
 +- BadAnswer           the server answered with something that cannot be understood
 +- NoRoute             no name server knows the topic, or none of its brokers can be used
 +- NoReply             a request was sent, and nobody replied in time
 +- StagedSendFailed    messages of a stage could not be sent, and the next stage was not begun
 +- BatchingFailed      messages left to a batching sender could not be sent
 +- BodyNotRestored     a compressed body that is damaged or too long (also a
 |                      lanemq.wire.RemoteProtocolError)
 +- DecodingFailed      a body that the consumer's codec cannot decode (also a ValueError)
 +- StoreFailed         a store of the application's own, for offsets or stages, raised
 +- MessageRejected     a message that cannot be sent as it is (also a ValueError)
 +- InvalidName         a topic, group or address that cannot be used (also a ValueError)
 +- WrongUse            a call that the state of the client does not allow
     +- NotOpened       the result of an ``open_…`` function was used as the client that it opens
     +- ClientClosed    the client was used after its block ended
     +- WrongValue      an argument or option that makes no sense (also a ValueError)

``retriable`` says whether the same request may succeed elsewhere or later; the producer's retry
loop reads that flag and no list of classes.
"""

from typing import TYPE_CHECKING

import trio

from lanemq.wire import RemoteProtocolError, RequestCode, ResponseCode, ShownError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanemq.wire.bodies import MessageQueue

    from ._message import Message

# What the 4.9 Java client sends again to another broker, and SYSTEM_BUSY, which 5.x adds:
# an overloaded broker answers with it, and another one may not be overloaded.
RETRIABLE_CODES = frozenset({1, 2, 14, 16, 17, 204, 205})


class LanemqError(ShownError):
    """Base of all errors of this package.

    Errors can be pickled and copied. Two are equal when kind, text and attributes are.
    """

    retriable = False

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (type(self), self.args, self.__dict__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LanemqError):
            return NotImplemented
        return type(self) is type(other) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((type(self), self.args))


def _restore(
    kind: type[LanemqError], args: tuple[object, ...], attributes: dict[str, object]
) -> LanemqError:
    """Return an error as it was, without its ``__init__``, which takes other arguments."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


def request_name(code: int) -> str:
    """Return a request code as errors show it."""
    try:
        return f"{RequestCode(code).name} ({code})"
    except ValueError:
        return f"request {code}" if code >= 0 else "the request"


class BrokerUnreachable(LanemqError):
    """No usable connection to a broker or name server.

    When the connection broke after the request was written, whether the server acted on it is
    unknown: a message sent again may be stored twice.
    """

    retriable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class RequestTimedOut(LanemqError):
    """A server did not answer in time. Whether it acted on the request is unknown."""

    retriable = True

    def __init__(self, address: str, code: int, timeout_s: float) -> None:
        super().__init__(f"{address} did not answer {request_name(code)} within {timeout_s:g} s")
        self.address = address
        self.code = code
        self.timeout_s = timeout_s


class RefusedByBroker(LanemqError):
    """A server answered with an error code.

    ``code`` is a ``lanemq.wire.ResponseCode`` number, ``remark`` the server's own words.
    """

    def __init__(self, code: int, remark: str | None, address: str = "") -> None:
        try:
            name = ResponseCode(code).name
        except ValueError:
            name = "unknown code"
        where = f"{address} " if address else ""
        super().__init__(f"{where}refused with {code} ({name}): {remark or 'no remark'}")
        self.code = code
        self.remark = remark
        self.address = address

    @property
    def retriable(self) -> bool:  # type: ignore[override] # a constant of other errors
        """True if another broker may accept what this one refused."""
        return self.code in RETRIABLE_CODES


class BadAnswer(LanemqError):
    """A server's answer lacks what the protocol promises, or is garbled."""

    def __init__(self, address: str, what: str, reason: str) -> None:
        super().__init__(f"{address}: cannot understand the answer to {what}: {reason}")
        self.address = address
        self.what = what
        self.reason = reason


class NoRoute(LanemqError):
    """No broker is known for a topic."""

    retriable = False

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"topic {topic!r}: {reason}")
        self.topic = topic
        self.reason = reason


class NoReply(LanemqError):
    """A request was stored, and no reply came in time. A consumer may have acted on it."""

    def __init__(self, topic: str, timeout_s: float) -> None:
        super().__init__(
            f"the request was sent to {topic}, but no reply came within {timeout_s:g} s"
        )
        self.topic = topic
        self.timeout_s = timeout_s


class StagedSendFailed(LanemqError):
    """Messages of a stage could not be sent for good; nothing of the next stage was.

    ``failures`` are the messages, each with the last reason; a time-out leaves open whether
    the message was stored. ``stage`` counts from 0.
    """

    def __init__(self, stage: int, failures: "tuple[tuple[Message, LanemqError], ...]") -> None:
        shown = "; ".join(
            f"{message.keys or message.body[:20]!r}: {error}" for message, error in failures[:5]
        )
        more = f" and {len(failures) - 5} more" if len(failures) > 5 else ""
        super().__init__(f"{len(failures)} messages of stage {stage} were not sent: {shown}{more}")
        self.stage = stage
        self.failures = failures


class BatchingFailed(LanemqError):
    """Messages left to a batching sender could not be sent; a repeat may store some twice.

    ``failures`` are the messages, each with its error.
    """

    def __init__(self, failures: "Sequence[tuple[Message, LanemqError]]") -> None:
        shown = "; ".join(str(error) for error in dict.fromkeys(e for _, e in failures[:5]))
        super().__init__(f"{len(failures)} messages were not sent: {shown}")
        self.failures = tuple(failures)


class BodyNotRestored(LanemqError, RemoteProtocolError):
    """A compressed body that is damaged, or longer than ``body_bytes_max`` of its consumer.

    The text names topic, queue and offset; ``queue`` and ``queue_offset`` are the place. Where it
    leaves a listener, its message goes to the dead letters at once: it would be no better later.
    """

    def __init__(self, message: str, queue: "MessageQueue", queue_offset: int, reason: str) -> None:
        super().__init__(f"{message}: its body cannot be restored: {reason}")
        self.queue = queue
        self.queue_offset = queue_offset


class DecodingFailed(LanemqError, ValueError):
    """A body that the codec of its consumer cannot decode; the cause is the codec's error."""


class StoreFailed(LanemqError):
    """A store of the application's own, for offsets or records of stages, raised; that is the
    cause."""


class MessageRejected(LanemqError, ValueError):
    """A message that no broker would take; the text says what to change."""


class InvalidName(LanemqError, ValueError):
    """A topic, group or address with a form RocketMQ does not allow; the text says which."""


class WrongUse(LanemqError):
    """A call that makes no sense now; the text says what to do instead."""


class NotOpened(WrongUse, AttributeError):
    """The result of an ``open_…`` function has no such attribute: the client that it opens has."""

    def __init__(self, name: str, how: str) -> None:
        super().__init__(f"there is no {name!r} yet, since the client is not open: write {how}")


class ClientClosed(WrongUse):
    """The client was used after its block ended, or an error had closed it: that is the cause."""

    def __init__(self, what: str) -> None:
        super().__init__(f"this {what} is closed: use it inside the block that opens it")


class WrongValue(WrongUse, ValueError):
    """An argument or option that makes no sense; the text names it and says what to write."""


def check_in_trio() -> None:
    """Raise ``WrongUse`` unless trio runs the caller."""
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        raise WrongUse(
            "lanemq.sdk runs on trio, and this is not a trio task: import lanemq.sdk.aio for"
            " asyncio, or lanemq.sdk.blocking for threads"
        ) from None
