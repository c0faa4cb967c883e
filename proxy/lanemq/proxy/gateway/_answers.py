"""Answers and requests of a broker as clients see them, by request code. All pure."""

from collections.abc import Callable, Mapping
from typing import Final, final

from msgspec.structs import replace

from lanemq.local import get_logger
from lanemq.wire import HostAddress, Refused, RemoteProtocolError, RequestCode
from lanemq.wire.frame import Frame

from ..logical.rules._records import LONG_RECORDS_BYTES, in_pieces, record_pieces, with_store_host
from ..net._turns import step_by_step
from .order import PortQueues
from .rewrites import with_fields, with_id_host, with_origin_ids

LOGGER = get_logger("lanemq.proxy.gateway", by_peers=True)

Code = RequestCode
POP_MESSAGE: Final = 200050
PEEK_MESSAGE: Final = 200052
NOTIFICATION: Final = 200054
"""Requests of 5.x clients, which lanemq's own brokers do not serve."""
HELD: Final = frozenset({Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, POP_MESSAGE, NOTIFICATION})
"""Requests whose answers a broker holds until there are messages."""

RECORDS: Final = frozenset(
    {
        Code.PULL_MESSAGE,
        Code.LITE_PULL_MESSAGE,
        Code.QUERY_MESSAGE,
        Code.VIEW_MESSAGE_BY_ID,
        POP_MESSAGE,
        PEEK_MESSAGE,
    }
)
"""Requests whose answers have records as their body."""
WITH_MESSAGE: Final = frozenset({Code.CHECK_TRANSACTION_STATE, Code.CONSUME_MESSAGE_DIRECTLY})
"""Requests of brokers whose body is the record of a message."""
SENDS: Final = frozenset(
    {
        Code.SEND_MESSAGE,
        Code.SEND_MESSAGE_V2,
        Code.SEND_BATCH_MESSAGE,
        Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2,
    }
)
"""Requests whose answers have message ids among their fields."""


@final
class SeenAnswers:
    """The frames of one broker, as the clients at one port of the proxy see them."""

    def __init__(
        self,
        address: HostAddress,
        hosts: Mapping[bytes, bytes],
        queues: PortQueues | None = None,
    ) -> None:
        """``hosts`` has all brokers, as ``with_origin_ids``; ``queues`` gives their names."""
        self._hosts = hosts
        self._queues = queues
        self._packed = address.packed
        self._hex = self._packed.hex().upper()
        self._text = str(address)
        answers: dict[int, Callable[[Frame], Frame]] = {}
        answers |= dict.fromkeys(RECORDS, self._with_records)
        answers |= dict.fromkeys(SENDS, lambda frame: self._with_id(frame, "msgId"))
        self._answers = answers
        self._requests: dict[int, Callable[[Frame], Frame]] = {
            # msgId is the unique key there.
            Code.CHECK_TRANSACTION_STATE: lambda frame: self._with_id(
                self._with_records(frame), "offsetMsgId"
            ),
            Code.PUSH_REPLY_MESSAGE_TO_CLIENT: self._with_store_host,
        }

    def is_long(self, code: int | None, frame: Frame) -> bool:
        """Return whether ``long_frame`` is to make the answer to a request of ``code``, or with
        None a request of the broker."""
        if code in RECORDS:
            return len(frame.body) > LONG_RECORDS_BYTES
        return self._queues is not None and self._queues.is_long(code, frame)

    async def long_frame(self, code: int | None, frame: Frame) -> Frame:
        """Return what ``answer`` does, or with None ``request``, in short turns of the loop."""
        if code is not None and code in RECORDS:
            return await self._long_records(code, frame)
        assert self._queues is not None, "only frames with names of queues are long"
        try:
            return await self._queues.long_frame(code, frame)
        except Refused as error:
            return _refusal(frame, error)
        except RemoteProtocolError as error:
            LOGGER.warning("an answer passes through as it is: %s", error)
            return frame

    async def _long_records(self, code: int, frame: Frame) -> Frame:
        """Return an answer with records, of which some are looked at in each turn."""
        steps = in_pieces(
            frame.body, lambda piece: self.answer(code, replace(frame, body=piece)).body
        )
        body = await step_by_step(steps)
        return replace(self.answer(code, replace(frame, body=b"")), body=body)

    def answer(self, code: int, frame: Frame, start: int = 0) -> Frame:
        """Return the answer to a request of ``code``; ``start`` is as in ``Passed``."""
        if self._queues is not None:
            try:
                frame = self._queues.answer(code, start, frame)
            except Refused as error:
                return _refusal(frame, error)
            except RemoteProtocolError as error:
                LOGGER.warning("an answer passes through as it is: %s", error)
        seen = self._answers.get(code)
        return frame if seen is None else seen(frame)

    def request(self, frame: Frame) -> Frame:
        """Return a request of the broker. Of several messages it has the first one, which is the
        only one that clients read."""
        if frame.code in WITH_MESSAGE:
            first = next(record_pieces(frame.body, 1), b"")
            if len(first) < len(frame.body):
                LOGGER.warning("a request %d of a broker has several messages", frame.code)
                frame = replace(frame, body=first)
        if self._queues is not None:
            try:
                frame = self._queues.broker_request(frame)
            except (Refused, RemoteProtocolError) as error:
                LOGGER.warning("a request of a broker passes through as it is: %s", error)
        seen = self._requests.get(frame.code)
        return frame if seen is None else seen(frame)

    def _with_records(self, frame: Frame) -> Frame:
        if not frame.body:
            return frame
        try:
            records = with_store_host(frame.body, self._packed)
            return replace(frame, body=with_origin_ids(records, self._hosts))
        except RemoteProtocolError as error:
            LOGGER.warning("an answer passes through as it is: %s", error)
            return frame

    def _with_id(self, frame: Frame, name: str) -> Frame:
        given = frame.fields.get(name)
        return (
            frame if given is None else with_fields(frame, {name: with_id_host(given, self._hex)})
        )

    def _with_store_host(self, frame: Frame) -> Frame:
        return (
            with_fields(frame, {"storeHost": self._text}) if "storeHost" in frame.fields else frame
        )


def _refusal(frame: Frame, error: Refused) -> Frame:
    """Return an answer in whose place the client gets a refusal."""
    return replace(frame, code=error.code, fields={}, body=b"", remark=error.remark)
