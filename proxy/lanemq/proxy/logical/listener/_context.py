"""The context that the handlers of a logical listener share."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, final

from lanemq.wire import HostAddress, Refused, ResponseCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.logical import (
    Chain,
    LogicalQueues,
    Segment,
    index_of,
    logical_broker,
    segment_at,
)
from lanemq.wire.message import encode_offset_id

from ...broker._context import BrokerContext
from ...broker.handlers._reads import Reads
from ...broker.handlers._send import Sends
from ...net._session import Session
from ..rules._positions import broker_tag, tagged
from ..rules._records import chosen_records, rewrite_records, shift_records
from ._brokers import Brokers
from ._routes import LogicalRoutes, TopicView

ROUNDS_MAX: Final = 4
"""Most attempts of one request at brokers, redirects included."""
CALL_S: Final = 5.0
"""Seconds that another broker may take for an answer that it does not have to wait for."""


@final
@dataclass(frozen=True, slots=True)
class ListenerContext:
    """The context of one listener, in the process of the broker of ``broker``."""

    broker: BrokerContext
    """The context of the broker, which keeps the clients, their groups and their locks."""
    sends: Sends
    """The sends that store messages at this process's broker."""
    reads: Reads
    """The reads of its message queues."""
    routes: LogicalRoutes
    brokers: Brokers
    address: HostAddress
    """The address of the listener for clients."""
    number: int | None = None
    """Number of the broker, of those that older clients see, that it stands for. None: for all
    queues of all topics at once, by logical index."""

    # Which queues are seen here

    @property
    def broker_name(self) -> str:
        """The name of the broker that it stands for."""
        return logical_broker(self.number or 0)

    def brokers_of(self, view: TopicView) -> int:
        """Return the number of brokers among which a topic's queues are divided for clients
        here."""
        return 1 if self.number is None else view.brokers

    def index_in(self, view: TopicView, queue_id: int) -> int:
        """Return the logical index of a queue that a client names; -1 where there is none."""
        number, brokers = self.number or 0, self.brokers_of(view)
        return index_of(number, queue_id, brokers) if number < brokers else -1

    def known_index(self, topic: str, queue_id: int) -> int | None:
        """Return ``index_in``; None while nothing is known of the topic."""
        view = self.routes.get(topic)
        return None if view is None else self.index_in(view, queue_id)

    async def index(self, topic: str, queue_id: int) -> int:
        """Return ``index_in``, asking for the view if need be. Raises ``Refused`` as ``view``."""
        index = self.known_index(topic, queue_id)
        return self.index_in(await self.view(topic), queue_id) if index is None else index

    def queue_id_of(self, segment: Segment) -> int:
        """Return the queue id by which clients here know a segment's logical queue."""
        view = self.routes.get(segment.topic)
        brokers = 1 if view is None else self.brokers_of(view)
        return segment.logical_index // brokers

    def seen(self, view: TopicView) -> list[int]:
        """Iterate over the logical queues of a topic that clients see here."""
        brokers, number = self.brokers_of(view), self.number or 0
        return [index for index in view.queues if index % brokers == number]

    def queue_of(self, view: TopicView, topic: str, index: int) -> MessageQueue:
        """Return a logical queue as clients here name it."""
        return MessageQueue(topic, self.broker_name, index // self.brokers_of(view))

    # Places of queues

    async def view(self, topic: str) -> TopicView:
        """Return the view of a topic. Raises ``Refused`` where it has no logical queues."""
        view = await self.routes.find(topic)
        if view is None:
            remark = f"topic[{topic}] has no logical queues, or no name server answers"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return view

    async def chain(self, topic: str, index: int) -> tuple[TopicView, Chain]:
        """Return the segments of a logical queue. Raises ``Refused`` where there is none of that
        index."""
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
        """Ask a broker; return its answer, whatever its code; errors as ``Brokers.ask``."""
        address = view.address(broker_name)
        return self.brokers.ask_frame(broker_name, address, frame, session, timeout_s)

    # The view of clients

    def offset_id(self, broker_name: str, log_position: int) -> str:
        """Return the id by which a message is found at any listener."""
        return encode_offset_id(self.address, tagged(broker_tag(broker_name), log_position))

    def records_of(self, records: bytes, segment: Segment) -> bytes:
        """Return records of one segment, as they are in the logical queue."""
        return shift_records(
            records,
            index=self.queue_id_of(segment),
            shift=segment.shift,
            tag=broker_tag(segment.broker_name),
            store_host=self.address.packed,
        )

    def seen_records(self, records: bytes, broker_name: str, view: TopicView) -> bytes | memoryview:
        """Return the records in queues that clients see here; the first broker also has those in
        none."""
        brokers, number = self.brokers_of(view), self.number or 0
        if brokers == 1:
            return records
        by_queue = view.queues.by_queue(broker_name)

        def is_seen(queue_id: int, queue_offset: int) -> bool:
            segment = segment_at(by_queue.get(queue_id, ()), queue_offset)
            if segment is None or not segment.contains_physical(queue_offset):
                return number == 0
            return segment.logical_index % brokers == number

        return chosen_records(records, is_seen)

    def records_from(
        self, records: bytes | memoryview, broker_name: str, queues: LogicalQueues | None
    ) -> bytes:
        """Rewrite records of any queues of a broker; outside of logical queues they keep their
        places."""
        by_queue = queues.by_queue(broker_name) if queues is not None else {}

        def place(queue_id: int, queue_offset: int) -> tuple[int, int]:
            segment = segment_at(by_queue.get(queue_id, ()), queue_offset)
            if segment is None or not segment.contains_physical(queue_offset):
                return queue_id, queue_offset
            return self.queue_id_of(segment), segment.to_logical(queue_offset)

        return rewrite_records(
            records,
            place=place,
            tag=broker_tag(broker_name),
            store_host=self.address.packed,
        )


def relayed(asked: Frame, answer: Frame) -> Frame:
    """Turn another server's answer into the answer to a client's request."""
    return asked.reply(answer.code, dict(answer.fields), answer.body, answer.remark)
