"""What the handlers of a logical listener share."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from lanemq.wire import Frame, HostAddress, Refused, ResponseCode, encode_offset_id
from lanemq.wire.logical import REDIRECT_FIELD, Chain, LogicalQueues, Segment, segment_at

from .._session import Session
from ..logical._positions import broker_tag, tagged
from ..logical._records import rewrite_records, shift_records
from ._brokers import Brokers
from ._routes import LogicalRoutes, TopicView

if TYPE_CHECKING:
    from ..broker import BrokerContext
    from ..broker._reads import Reads
    from ..broker._send import Sends

ROUNDS_MAX: Final = 4
"""How often one request is put to a broker, redirects included."""
CALL_S: Final = 5.0
"""How long another broker may take for an answer that it does not have to wait for."""


@final
@dataclass(frozen=True, slots=True)
class ListenerContext:
    """One listener, in the process of the broker of ``broker``."""

    broker: "BrokerContext"
    """Keeps the clients, their groups and their locks."""
    sends: "Sends"
    """Stores messages for this process's broker."""
    reads: "Reads"
    """Reads its message queues."""
    routes: LogicalRoutes
    brokers: Brokers
    address: HostAddress
    """Where clients reach the listener."""

    # Where things are

    async def view(self, topic: str) -> TopicView:
        """What is known of a topic. Raises ``Refused`` where it has no logical queues."""
        view = await self.routes.find(topic)
        if view is None:
            remark = f"topic[{topic}] has no logical queues, or no name server answers"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return view

    async def chain(self, topic: str, index: int) -> tuple[TopicView, Chain]:
        """The segments of a logical queue. Raises ``Refused`` where there is none of that index."""
        view = await self.view(topic)
        chain = view.chain(index)
        if chain is None:  # it may have been added just now
            view = await self.routes.refresh(topic) or view
            chain = view.chain(index)
        if chain is None:
            remark = f"request queueId[{index}] is illegal, topic[{topic}] has {len(view.queues)}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return view, chain

    def ask(
        self,
        view: TopicView,
        broker_name: str,
        frame: Frame,
        session: Session,
        timeout_s: float = CALL_S,
    ) -> Awaitable[Frame]:
        """The answer of a broker, whatever its code; errors as ``Brokers.ask``."""
        address = view.address(broker_name)
        return self.brokers.ask(broker_name, address, frame, session, timeout_s)

    # What clients get to see

    def offset_id(self, broker_name: str, log_position: int) -> str:
        """The id by which a message is found at any listener."""
        return encode_offset_id(self.address, tagged(broker_tag(broker_name), log_position))

    def records_of(self, records: bytes, segment: Segment) -> bytes:
        """Records of one segment, as they are in the logical queue."""
        return shift_records(
            records,
            index=segment.logical_index,
            shift=segment.delta - segment.offset_delta,
            tag=broker_tag(segment.broker_name),
            store_host=self.address.packed,
        )

    def records_from(self, records: bytes, broker_name: str, queues: LogicalQueues | None) -> bytes:
        """Records of any queues of a broker; outside of logical queues they keep their places."""
        by_queue = queues.by_queue(broker_name) if queues is not None else {}

        def place(queue_id: int, queue_offset: int) -> tuple[int, int]:
            segment = segment_at(by_queue.get(queue_id, ()), queue_offset)
            if segment is None or not segment.contains_physical(queue_offset):
                return queue_id, queue_offset
            return segment.logical_index, segment.to_logical(queue_offset)

        return rewrite_records(
            records,
            place=place,
            tag=broker_tag(broker_name),
            store_host=self.address.packed,
        )


def is_redirect(answer: Frame) -> bool:
    """Whether the answer says "ask elsewhere"."""
    return REDIRECT_FIELD in answer.fields


def relayed(asked: Frame, answer: Frame) -> Frame:
    """Another server's answer, as the answer to what a client asked."""
    return asked.reply(answer.code, dict(answer.fields), answer.body, answer.remark)
