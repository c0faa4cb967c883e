"""The logical queues that clients see at one port, by the names that they have there."""

from typing import final

from attrs import define

from lanemq.wire import Refused, ResponseCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import Chain, Segment, index_of, logical_broker

from ..brokers._routes import LogicalRoutes
from ..brokers._views import TopicView


@final
@define(eq=False, kw_only=True, repr=False)
class SeenQueues:
    """The queues at one port, with their places as far as the routes have them."""

    number: int | None
    """Number of the broker, of those that older clients see, that the port stands for. None: for
    all queues of all topics at once, by logical index."""
    routes: LogicalRoutes

    # Names

    @property
    def broker_name(self) -> str:
        """The name of the broker that the port stands for."""
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
        """Return the logical queues of a topic that clients see here."""
        brokers, number = self.brokers_of(view), self.number or 0
        return [index for index in view.queues if index % brokers == number]

    def queue_of(self, view: TopicView, topic: str, index: int) -> MessageQueue:
        """Return a logical queue as clients here name it."""
        return MessageQueue(topic, self.broker_name, index // self.brokers_of(view))

    # Places of queues

    async def view(self, topic: str) -> TopicView:
        """Return the view of a topic. Raises ``Refused`` if none are known."""
        view = await self.routes.find(topic)
        if view is None:
            remark = f"topic[{topic}] has no logical queues, or no name server answers"
            raise await self._refused(topic, remark)
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
            raise await self._refused(topic, remark)
        return view, chain

    async def _refused(self, topic: str, remark: str) -> Refused:
        """Make the refusal of a queue that is not known here.

        Clients of all versions try SERVICE_NOT_AVAILABLE again at another broker: another listener
        may know the queue while no name server does.
        """
        is_final = await self.routes.is_complete(topic)
        code = ResponseCode.SYSTEM_ERROR if is_final else ResponseCode.SERVICE_NOT_AVAILABLE
        return Refused(code, remark)
