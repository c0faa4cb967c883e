"""What name servers and other brokers know of logical queues.

Source: RocketMQ 5.0.0-PREVIEW, MQClientAPIImpl (105 with the flag, 413).
"""

import logging
from typing import Final

from lanemq.wire import (
    Frame,
    GetRouteInfo,
    ProtocolError,
    QueryLogicalQueueMapping,
    Refused,
    RequestCode,
    RouteData,
    request,
)
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    Chain,
    LogicalQueues,
    MigrateLogicalQueue,
    Segment,
)

from ..logical import Move, progress
from ._context import BrokerContext

LOGGER = logging.getLogger("lanemq.proxy.broker.logical")

ASK_S: Final = 2.0
"""How long another broker may take to show its mapping, or to take a step of a migration."""


async def view_of(broker: BrokerContext, topic: str) -> LogicalQueues:
    """All segments that any name server lists; of one they tell differently, all accounts."""
    header = GetRouteInfo(topic=topic, sys_flag=LOGICAL_QUEUE_FLAG)
    asked = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.to_fields())
    segments: dict[object, Segment] = {}
    for answer in await broker.peers.ask_name_servers(asked):
        if answer.code != 0:
            continue
        try:
            queues = LogicalQueues.of_route(RouteData.decode(answer.body).extra)
        except ProtocolError as error:
            LOGGER.warning("a name server's route of %s cannot be read: %s", topic, error)
            continue
        for segment in queues.segments if queues is not None else ():
            known = segments.get(segment.key)
            if known is None or progress(segment) > progress(known):
                segments[segment.key] = segment
    return LogicalQueues.of(segments.values())


async def account_of(
    broker: BrokerContext, broker_name: str, address: str | None, topic: str
) -> LogicalQueues | None:
    """A broker's own account of a topic; None where it has no logical queues.

    Raises ``Refused`` where it does not answer, or with something else.
    """
    header = QueryLogicalQueueMapping(topic=topic)
    asked = request(RequestCode.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING, header.to_fields())
    answer = await broker.peers.call(broker_name, address, asked, ASK_S)
    if answer.code != 0:
        raise Refused(answer.code, answer.remark or "")
    try:
        return LogicalQueues.decode(answer.body)
    except ProtocolError as error:
        raise Refused(1, f"the mapping of {broker_name} cannot be read: {error}") from None


async def known_end(broker: BrokerContext, topic: str, index: int) -> tuple[int, bool]:
    """Where a logical queue ends as far as anyone can tell, and whether it is open somewhere.

    No offset below that end may be given out again.
    """
    view = (await view_of(broker, topic)).get(index, Chain(index))
    mapping = broker.logical.get(topic)
    known = mapping.chain(index) if mapping is not None else Chain(index)
    return max(known.known_end, view.known_end), bool(known.normal or view.normal)


async def ask_step(
    broker: BrokerContext, code: int, host: Segment, move: Move
) -> MigrateLogicalQueue | None:
    """Ask the broker of ``host`` for a step of a migration. Raises ``Refused`` if it does not."""
    body = MigrateLogicalQueue(move.source, move.target).encode()
    asked: Frame = request(code, {}, body)
    answer = await broker.peers.call(host.broker_name, host.broker_address, asked, ASK_S)
    if answer.code != 0:
        raise Refused(answer.code, answer.remark or "")
    try:
        return MigrateLogicalQueue.decode(answer.body) if answer.body else None
    except ProtocolError as error:
        raise Refused(1, f"the answer of {host.broker_name} cannot be read: {error}") from None
