"""The queues in what a broker sends through one port: clients have names of their own for them.

Source: RocketMQ 4.9.8 and 5.3.3, the request headers, MQClientInstance, DefaultMQAdminExtImpl.
"""

import re
from collections.abc import Iterator
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame

from ...net._loop_watch import loop_watch
from ..kv import asks_for_account
from ..rewrites import with_fields, with_queue_ids, with_tags
from ._bodies import chosen_pieces, renamed_pieces
from ._orders import QueueOrders
from ._reasons import unsigned
from ._requests import NAMING, OF_BROKERS, RECORDS, RENAMED_ANSWERS, RESET, SENDS
from ._tags import tag_of

Code = RequestCode
_POP: Final = re.compile(rb'"mode"\s*:\s*"POP"')
LONG_BYTES: Final = 32 << 10
"""A longer body that names queues is made in several turns of the loop."""


@final
class PortQueues:
    """The queues of one broker of the cluster at its own port, or at that of an added broker."""

    def __init__(self, orders: QueueOrders, name: str, broker: str) -> None:
        """``name`` is that of the broker that clients see at the port."""
        self._orders = orders
        self._name = name
        self._broker = broker
        self._is_added = name != broker

    def is_long(self, code: int | None, frame: Frame) -> bool:
        """Return whether ``long_frame`` is to make the answer to a request of ``code``, or with
        None a broker's request, since it takes its time."""
        return (
            (frame.code == RESET if code is None else code in NAMING)
            and len(frame.body) > LONG_BYTES
            and (self._is_added or bool(self._orders.behind))
        )

    async def long_frame(self, code: int | None, frame: Frame) -> Frame:
        """Return what ``answer`` does, or with None ``broker_request``, in short turns. Raises as
        they do."""
        if code is None:
            return replace(frame, body=await _in_turns(self._reset_pieces(frame)))
        if frame.code != ResponseCode.SUCCESS:
            return frame
        return replace(frame, body=await _in_turns(self._pieces(code, frame.body)))

    def answer(self, code: int, start: int, frame: Frame) -> Frame:
        """Return the broker's answer to a request of ``code``; ``start`` is as in ``Passed``.

        Raises ``RemoteProtocolError`` for a body that cannot be read, ``Refused`` for one whose
        queues are not known here.
        """
        if not self._is_added:
            if code not in NAMING or not self._orders.behind:
                return frame
        elif asks_for_account(frame.code, frame.remark):
            return replace(frame, remark=unsigned(frame.remark, self._name))
        elif code in SENDS:
            return self._with_tags(_with_less(frame, start))
        elif code == Code.HEART_BEAT:
            # Without its fields a client of 5.x names all its topics in the next one, too.
            return replace(frame, fields={})
        if frame.code != ResponseCode.SUCCESS or not frame.body:
            return frame
        if code in NAMING:
            return replace(frame, body=b"".join(self._pieces(code, frame.body)))
        if self._is_added and code in RECORDS:
            return self._with_ids(frame)
        return frame

    def _pieces(self, code: int, body: bytes) -> Iterator[bytes]:
        if code == Code.QUERY_ASSIGNMENT and _POP.search(body):
            # POP is for the broker's own port, where its queues have its numbers.
            return iter((body,))
        if code in RENAMED_ANSWERS:
            return renamed_pieces(body, self._orders.seen)
        # An added broker's rates are in the answer at the broker's own port.
        return chosen_pieces(body, self._orders.seen, self._name, has_rates=not self._is_added)

    def broker_request(self, frame: Frame) -> Frame:
        """Return a broker's request as the client gets it. Raises as ``answer``."""
        if frame.code not in OF_BROKERS or not frame.body or not self._orders.behind:
            return frame
        if frame.code == RESET:
            return replace(frame, body=b"".join(self._reset_pieces(frame)))
        names: set[str] = set()
        frame = self._with_ids(frame, names)
        given = [one for one in ("brokerName",) if one in frame.fields and names]
        return with_fields(frame, dict.fromkeys(given, min(names))) if given else frame

    def _reset_pieces(self, frame: Frame) -> Iterator[bytes]:
        order = self._orders.of(frame.fields.get("topic", ""))
        if order is not None and order.moved:
            # The broker has reset its own queues, and their offsets are not those of clients.
            return iter((b'{"offsetTable":{}}',))
        return renamed_pieces(frame.body, self._orders.seen)

    def _with_ids(self, frame: Frame, names: set[str] | None = None) -> Frame:
        """Return a frame whose records have the numbers that clients see; ``names`` gets the names
        of added brokers at which they are."""
        broker = self._broker

        def renamed(topic: str, queue_id: int) -> int | None:
            seen = self._orders.seen(topic, broker, queue_id)
            if seen is None or seen.broker == broker:
                return None
            if names is not None:
                names.add(seen.broker)
            return seen.queue_id

        tag = tag_of(self._orders.behind, broker) if self._is_added else 0
        return replace(frame, body=with_queue_ids(frame.body, renamed, tag))

    def _with_tags(self, frame: Frame) -> Frame:
        """Return the answer to a send whose ids say which broker has the messages."""
        given, tag = frame.fields.get("msgId"), tag_of(self._orders.behind, self._broker)
        if not given or not tag:
            return frame
        return with_fields(frame, {"msgId": with_tags(given, tag)})


async def _in_turns(pieces: Iterator[bytes]) -> bytes:
    """Return a body that is made of pieces, as many in each turn of the loop as it has time for."""
    made: list[bytes] = []
    watch = loop_watch()
    for piece in pieces:
        made.append(piece)
        if not watch.has_time:
            await trio.lowlevel.checkpoint()
    return b"".join(made)


def _with_less(frame: Frame, start: int) -> Frame:
    """Return the answer to a send with the number of the queue that the client has named."""
    given = frame.fields.get("queueId", "")
    return with_fields(frame, {"queueId": str(int(given) - start)}) if given.isdecimal() else frame
