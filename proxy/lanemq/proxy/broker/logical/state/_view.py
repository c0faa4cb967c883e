"""Questions to name servers and other brokers about logical queues.

Source: RocketMQ 5.0.0-PREVIEW, MQClientAPIImpl (105 with the flag, 413).
"""

from functools import partial
from typing import Final, final

from lanemq.local import get_logger
from lanemq.wire import ProtocolError, Refused, RequestCode
from lanemq.wire.bodies import RouteData
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import GetRouteInfo, QueryLogicalQueueMapping
from lanemq.wire.logical import (
    LOGICAL_BROKERS_MEMBER,
    LOGICAL_QUEUE_FLAG,
    Chain,
    LogicalQueues,
    MigrateLogicalQueue,
    Segment,
    SegmentKey,
)

from ....logical.rules._mapping import TopicMapping
from ....logical.rules._view import progress
from ....net._turns import read_answer
from ...cluster._peers import Peers
from ._state import LogicalState

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

ASK_S: Final = 2.0
"""Seconds that another broker may take to show its mapping, or for a step of a migration."""


@final
class LogicalView:
    """The logical queues as name servers list them and other brokers know them."""

    def __init__(self, *, logical: LogicalState, peers: Peers) -> None:
        self._logical = logical
        self._peers = peers

    async def of(self, topic: str) -> LogicalQueues:
        """Return all segments that any name server lists; with all accounts of one they tell
        differently."""
        queues, _ = await self.listing_of(topic)
        return queues

    async def listing_of(self, topic: str) -> tuple[LogicalQueues, bool]:
        """Return the same as ``of``, and whether name servers answer but none has the topic.

        They list no topic whose brokers are all away, whatever they keep of it.
        """
        header = GetRouteInfo(topic=topic, sys_flag=LOGICAL_QUEUE_FLAG)
        asked = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.to_fields())
        listed: list[LogicalQueues] = []
        answers = await self._peers.ask_name_servers(asked)
        for answer in answers:
            if answer.code != 0:
                continue
            try:
                queues, brokers = await read_answer(
                    len(answer.body), partial(_read_route, answer.body)
                )
            except ProtocolError as error:
                LOGGER.warning("a name server's route of %s cannot be read: %s", topic, error)
                continue
            if isinstance(brokers, int) and brokers > 0:
                self._logical.brokers_heard[topic] = brokers
            if queues is not None:
                listed.append(queues)
        size_bytes = sum(len(answer.body) for answer in answers)
        queues = await read_answer(size_bytes, partial(_latest, listed))
        is_unlisted = bool(answers) and all(answer.code != 0 for answer in answers)
        return queues, is_unlisted

    async def account_of(self, host: Segment, topic: str) -> LogicalQueues | None:
        """Ask the broker of ``host`` for its own account of a topic; None where it has no logical
        queues.

        Raises ``Refused`` where it does not answer, or with something else.
        """
        header = QueryLogicalQueueMapping(topic=topic)
        asked = request(RequestCode.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING, header.to_fields())
        answer = await self._peers.call(host.broker_name, host.broker_address, asked, ASK_S)
        if answer.code != 0:
            raise Refused(answer.code, answer.remark or "")
        try:
            body = answer.body
            return await read_answer(len(body), partial(LogicalQueues.decode, body))
        except ProtocolError as error:
            raise Refused(1, f"the mapping of {host.broker_name} cannot be read: {error}") from None

    async def chain_at(self, host: Segment) -> Chain:
        """Ask the broker of ``host`` for its account of the logical queue. Raises ``Refused``."""
        queues = await self.account_of(host, host.topic)
        index = host.logical_index
        return (queues.get(index) if queues is not None else None) or Chain(index)

    async def known_end(self, topic: str, index: int) -> tuple[int, int, bool]:
        """Find the known end of a logical queue, the number of its last migration, and
        whether it is open somewhere.

        No offset below that end may be given out again, and no number up to that one.
        """
        view = (await self.of(topic)).get(index, Chain(index))
        mapping = self._logical.get(topic)
        known = mapping.chain(index) if mapping is not None else Chain(index)
        end = max(known.known_end, view.known_end)
        last = max(known.last_migration, view.last_migration)
        return end, last, bool(known.normal or view.normal)

    async def ask_step(
        self, code: int, host: Segment, move: MigrateLogicalQueue
    ) -> MigrateLogicalQueue | None:
        """Ask the broker of ``host`` for a step of a migration. Raises ``Refused`` if it fails."""
        asked: Frame = request(code, {}, move.encode())
        answer = await self._peers.call(host.broker_name, host.broker_address, asked, ASK_S)
        if answer.code != 0:
            raise Refused(answer.code, answer.remark or "")
        try:
            return MigrateLogicalQueue.decode(answer.body) if answer.body else None
        except ProtocolError as error:
            raise Refused(1, f"the answer of {host.broker_name} cannot be read: {error}") from None


def _read_route(body: bytes) -> tuple[LogicalQueues | None, object]:
    """Read a route: its logical queues, and the member for the number of brokers."""
    route = RouteData.decode(body)
    return LogicalQueues.of_route(route.extra), route.extra.get(LOGICAL_BROKERS_MEMBER)


def _latest(listed: list[LogicalQueues]) -> LogicalQueues:
    """Return all segments of some lists, each as the list has it that knows it best."""
    segments: dict[SegmentKey, Segment] = {}
    for queues in listed:
        for segment in queues.segments:
            known = segments.get(segment.key)
            if known is None or progress(segment) > progress(known):
                segments[segment.key] = segment
    return LogicalQueues.of(segments.values())


def hosts(mapping: TopicMapping, view: Chain) -> list[Segment]:
    """Return one segment of each other broker that has a part in a logical queue."""
    found: dict[str, Segment] = {}
    for segment in (*view, *mapping.chain(view.index)):
        if not mapping.is_own(segment):
            found[segment.broker_name] = segment
    return list(found.values())
