"""The typed results of a broker's hot requests, and what a server's edge makes of each.

Handlers of sends, pulls and single messages return these values. The port of a broker encodes
them in its own numbers; a logical listener in the same process translates them first; whatever
else in the process wants an answer reads them. Refusals are raised as ``Refused``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final, get_args

from lanemq.local import get_logger
from lanemq.wire import ProtocolError, RequestCode, ResponseCode
from lanemq.wire.bodies import MASTER_ID
from lanemq.wire.frame import Frame, encode_frame
from lanemq.wire.headers import PullMessageResponse, SendMessageResponse
from lanemq.wire.logical import (
    FORWARD_QUEUE_ID_FIELD,
    REDIRECT_FIELD,
    REDIRECT_VALUE,
    Redirect,
)
from lanemq.wire.logical.translate import Numbers
from lanemq.wire.message import Property, encode_offset_ids, get_property

from ...net._answers import Answer, Encoded, Result
from ...net._dispatch import Handlers
from ...net._long_answer import check_answer
from ...net._reply_template import ReplyTemplate
from ...net._stored_reply import LARGE_BYTES, ReadLog, stored_reply
from ._framed import Framed

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

_SEND_FIELDS: Final = SendMessageResponse.names("msg_id", "queue_id", "queue_offset")
_KEYED_FIELDS: Final = SendMessageResponse.names(
    "msg_id", "queue_id", "queue_offset", "transaction_id"
)
"""The last one is the unique key of the message, as in 5.3.3: its gRPC proxy ends transactions by
it."""
_PROPERTIES_FIELDS: Final[Mapping[int, str]] = {
    RequestCode.SEND_MESSAGE: "properties",
    RequestCode.SEND_MESSAGE_V2: "i",
    RequestCode.SEND_BATCH_MESSAGE: "i",
}
_UNIQUE_KEY: Final = Property.UNIQ_KEY.encode()
_UNIQUE_AT_FIRST: Final = f"{Property.UNIQ_KEY}\x01"
PULL_FIELDS: Final = PullMessageResponse.names(
    "suggest_which_broker_id", "next_begin_offset", "min_offset", "max_offset"
)
"""Ext fields of every answer to a pull; clients read all four unasked."""

_FOUND: Final = ReplyTemplate(PULL_FIELDS).encode
_DONE: Final = ReplyTemplate().encode


@final
class Stored(Result, frozen=True, gc=False):
    """The result of a send: a message or a batch is in the log, or with the next write."""

    log_positions: Sequence[int]
    """The position of each message."""
    queue_id: int
    """The queue that the sender is told of."""
    queue_offset: int
    """The offset of the first message in it; -1 where it is not known."""
    end: int
    """The log position behind the last message."""
    waits: bool = False
    """True if the sender is to be answered once the log is on the disk up to ``end``."""
    is_late: bool = False
    """True if that took longer than it may; the message is stored all the same."""
    taken_by: int | None = None
    """The queue that has the message, where the broker passed it on for its sender."""
    recall_handle: str | None = None
    """The handle by which its sender may recall the message, where it has a timer."""


@final
class Found(Result, frozen=True, gc=False):
    """The result of a pull that found messages."""

    body: bytes
    """The records, one behind the other."""
    numbers: Numbers
    kept: bytes | None = None
    """The record that ``body`` is, as it is stored, where it is a single large one: what of it
    is not rewritten is read from the log when the reader takes it."""


@final
class NotFound(Result, frozen=True, gc=False):
    """The result of a pull without messages: none yet, or none at that offset."""

    code: ResponseCode
    """PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY or PULL_OFFSET_MOVED."""
    numbers: Numbers
    remark: str | None = None


@final
class Moved(Result, frozen=True, gc=False):
    """The result of a send or pull whose logical queue goes on elsewhere; the client asks there."""

    redirect: Redirect | None
    """The redirect; None where nothing is known here, so that all is to be asked for again."""
    code: ResponseCode = ResponseCode.NO_PERMISSION
    numbers: Numbers | None = None
    """The fields that a reader is told beside it."""
    remark: str | None = None


@final
class Viewed(Result, frozen=True, gc=False):
    """The result of a look at one message: its record, as its reader can take it."""

    body: bytes
    kept: bytes | None = None
    """The record as it is stored, where it is this broker's."""


@final
class Done(Result, frozen=True, gc=False):
    """The result of a request that only reports success."""


DONE: Final = Done()

Pulled = Found | NotFound | Moved
"""The result of a pull."""


def reply_of(request: Frame, answer: Answer) -> Frame:
    """Make the frame of any result but ``Stored``, for callers that ask local and remote brokers
    alike."""
    match answer:
        case Frame():
            return answer
        case Found(body, numbers):
            return request.reply(0, pull_fields(numbers), body)
        case NotFound(code, numbers, remark):
            return request.reply(code, pull_fields(numbers), b"", remark)
        case Moved(redirect, code, told, remark):
            fields = {} if told is None else pull_fields(told)
            fields[REDIRECT_FIELD] = REDIRECT_VALUE
            body = b"" if redirect is None else redirect.encode()
            return request.reply(code, fields, body, remark)
        case Viewed(body):
            return request.reply(body=body)
        case Done():
            return request.reply()
    if isinstance(answer, Framed):
        return answer.reply(request)
    raise AssertionError(f"{type(answer).__name__} is encoded by its own port")


def is_redirect(answer: Answer) -> bool:
    """Return whether an answer, of this process's broker or of another, is a redirect."""
    if isinstance(answer, Frame):
        return REDIRECT_FIELD in answer.fields
    return isinstance(answer, Moved)


def redirect_in(answer: Answer) -> Redirect | None:
    """Return where an answer redirects to; None where it does not, or to nowhere in particular."""
    if isinstance(answer, Moved):
        return answer.redirect
    if not isinstance(answer, Frame) or REDIRECT_FIELD not in answer.fields:
        return None
    try:
        return Redirect.decode(answer.body)
    except ProtocolError as error:
        LOGGER.warning("a redirect cannot be read: %s", error)
        return None


def pull_fields(numbers: Numbers) -> dict[str, str]:
    """Return ``PULL_FIELDS`` with their values."""
    return dict(zip(PULL_FIELDS, map(str, _values(numbers)), strict=True))


def _values(numbers: Numbers) -> tuple[int, int, int, int]:
    return MASTER_ID, numbers.next_offset, numbers.min_offset, numbers.max_offset


def add_encoders(
    handlers: Handlers, *, properties: Mapping[str, str], host: bytes, read_log: ReadLog | None
) -> None:
    """Register the encoders of handlers' results at a port.

    ``properties`` are those of each stored message that its sender is told of, too.
    ``host`` is the packed address by which its clients know it; ``read_log`` reads what large
    answers leave in the log; without it answers have all in memory.
    """

    def found(request: Frame, result: Found) -> Encoded:
        body = result.body
        there = result.numbers
        values = (MASTER_ID, there.next_offset, there.min_offset, there.max_offset)
        reply = _FOUND(request, values, body)
        if result.kept is None or read_log is None or len(body) < LARGE_BYTES:
            return reply
        return stored_reply(reply, result.kept, read_log)

    def viewed(request: Frame, result: Viewed) -> Encoded:
        reply = encode_frame(request.reply(body=result.body))
        if result.kept is None or read_log is None:
            return reply
        return stored_reply(reply, result.kept, read_log)

    handlers.encode(Stored, stored_encoder(properties, host))
    handlers.encode(Found, found)
    handlers.encode(NotFound, _missed_encoder())
    handlers.encode(Moved, lambda request, result: encode_frame(reply_of(request, result)))
    handlers.encode(Viewed, viewed)
    handlers.encode(Done, lambda request, result: _DONE(request))
    for framed in get_args(Framed):
        handlers.encode(framed, _encode_framed)


def _encode_framed(request: Frame, result: Framed) -> bytes:
    reply = result.reply(request)
    check_answer(request.code, len(reply.body))
    return encode_frame(reply)


def stored_encoder(properties: Mapping[str, str], host: bytes) -> Callable[[Frame, Stored], bytes]:
    """Make the encoder of sends' results at a port that clients know by the packed ``host``."""
    constants = dict(properties)
    keyed = ReplyTemplate(_KEYED_FIELDS, constants=constants).encode
    stored = ReplyTemplate(_SEND_FIELDS, constants=constants).encode
    host_hex = host.hex().upper()

    def encode(request: Frame, result: Stored) -> bytes:
        positions = result.log_positions
        if len(positions) == 1:
            ids = f"{host_hex}{positions[0]:016X}"
        else:
            ids = encode_offset_ids(host, positions)
        values = (ids, result.queue_id, result.queue_offset)
        name = _PROPERTIES_FIELDS.get(request.code)
        key = unique_key_in(request.fields.get(name, "")) if name is not None else None
        is_plain = key is None or (key.isascii() and key.isalnum())
        is_rare = result.is_late or result.taken_by is not None or result.recall_handle is not None
        if is_rare or not is_plain:
            header = SendMessageResponse(
                *values, transaction_id=key, recall_handle=result.recall_handle
            )
            fields = header.to_fields() | constants
            if result.taken_by is not None:
                fields[FORWARD_QUEUE_ID_FIELD] = str(result.taken_by)
            code = ResponseCode.FLUSH_DISK_TIMEOUT if result.is_late else ResponseCode.SUCCESS
            return encode_frame(request.reply(code, fields))
        return stored(request, values) if key is None else keyed(request, (*values, key))

    return encode


def unique_key_in(properties: str) -> str | None:
    """Return the unique key in the text of a message's properties; None where it has none."""
    begin = len(_UNIQUE_AT_FIRST)
    if properties.startswith(_UNIQUE_AT_FIRST) and _UNIQUE_AT_FIRST not in properties[begin:]:
        return properties[begin:].partition("\x02")[0] or None
    if Property.UNIQ_KEY not in properties:
        return None
    key = get_property(properties.encode(), _UNIQUE_KEY)
    return key.decode() if key else None


def _missed_encoder() -> Callable[[Frame, NotFound], bytes]:
    templates = {
        code: ReplyTemplate(PULL_FIELDS, code=code).encode
        for code in (
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        )
    }

    def encode(request: Frame, result: NotFound) -> bytes:
        if result.remark is not None:
            return encode_frame(reply_of(request, result))
        return templates[result.code](request, _values(result.numbers))

    return encode
