"""Messages that the broker itself writes, for queues that go on elsewhere by now.

A delayed message is due at a queue that was sealed meanwhile: it goes to wherever the logical
queue takes messages. Where that cannot be reached it waits a little longer, in the log, and so
it is never lost; with its unique key, whoever gets it twice can tell.

Source: RocketMQ 5.0.0-PREVIEW writes such messages behind the end of the sealed segment.
"""

import logging
from collections.abc import Iterable
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.storage import NewMessage
from lanemq.wire import (
    Frame,
    Property,
    ProtocolError,
    Refused,
    RequestCode,
    SysFlag,
    SystemTopic,
    remove_property,
    request,
)
from lanemq.wire.headers import SendMessage
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    REDIRECT_FIELD,
    SEGMENT_FIELD,
    LogicalQueues,
    Redirect,
    Segment,
)

from ..logical import BORN_HOST_FIELD, HOPS_FIELD, SegmentClosed, merged
from ._context import BrokerContext

LOGGER = logging.getLogger("lanemq.proxy.broker.logical")

AGAIN_LEVEL: Final = 3
"""The delay level after which one that could not be delivered is tried again: 10 s by default."""
GROUP: Final = "CID_LANEMQ_DELIVERY"
"""The producer group that another broker is told."""
ATTEMPTS: Final = 2
"""Targets asked for one message: the second is where the first says that the queue goes on."""


@final
class Deliveries:
    """Delivers messages that their own queues did not take."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._logical = broker.logical

    async def deliver(self, messages: Iterable[NewMessage]) -> None:
        """Return when each message is stored, here or elsewhere, or waits in the log.

        Raises ``Refused`` where not even that can be; some may be stored then.
        """
        waiting: list[NewMessage] = []
        errors: list[Refused] = []

        async def one(message: NewMessage) -> None:
            try:
                if not await self._deliver(message):
                    waiting.append(message)
            except Refused as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            for message in messages:
                nursery.start_soon(one, message)
        if errors:
            raise errors[0]
        for message in waiting:
            self._broker.writer.append_waiting(message, AGAIN_LEVEL)
        self._broker.commit()

    async def _deliver(self, message: NewMessage) -> bool:
        """Whether it could be delivered now."""
        for _ in range(ATTEMPTS):
            turn = self._logical.gate.turn((message.topic, message.queue_id))
            if turn is not None:
                async with turn:  # a seal ends soon, one way or the other
                    pass
            if self._append(message):
                return True
            target = self._target(message)
            if target is None:
                return False
            if target.broker_name == self._logical.broker_name:
                message = replace(message, queue_id=target.queue_id)
                if self._append(message):
                    return True
            elif await self._send(message, target):
                return True
        return False

    def _append(self, message: NewMessage) -> bool:
        broker = self._broker
        try:
            put = broker.writer.append(message)
        except SegmentClosed:
            return False
        broker.commit()
        broker.statistics.put(message.topic, 1, put.size_bytes)
        return True

    def _target(self, message: NewMessage) -> Segment | None:
        mapping = self._logical.get(message.topic)
        segment = mapping.latest(message.queue_id) if mapping is not None else None
        if mapping is None or segment is None:
            return None
        return mapping.open_end(segment.logical_index)

    async def _send(self, message: NewMessage, target: Segment) -> bool:
        """Whether another broker has stored it. What it knows better is kept in mind."""
        timeout_s = self._broker.config.forward_timeout / 1000
        counters = self._logical.counters
        try:
            answer = await self._broker.peers.call(
                target.broker_name, target.broker_address, _as_send(message, target), timeout_s
            )
        except Refused as error:
            LOGGER.warning("a delayed message for %s has to wait: %s", target, error.remark)
            counters.forwards_failed += 1
            return False
        if answer.code == 0:
            counters.forwards += 1
            return True
        counters.forwards_failed += 1
        await self._learn(answer, message.topic)
        return False

    async def _learn(self, answer: Frame, topic: str) -> None:
        if REDIRECT_FIELD not in answer.fields:
            LOGGER.warning("a delayed message has to wait: %d %s", answer.code, answer.remark)
            return
        try:
            redirect = Redirect.decode(answer.body)
        except ProtocolError as error:
            LOGGER.warning("a redirect cannot be read: %s", error)
            return
        if redirect is not None:
            news = LogicalQueues.of((redirect.current, redirect.following))
            await self._logical.change(topic, lambda mapping: merged(mapping, news))


def _as_send(message: NewMessage, target: Segment) -> Frame:
    """The request that has ``message`` stored at ``target``, and not delayed again."""
    properties = remove_property(message.properties, Property.DELAY.encode())
    header = SendMessage(
        producer_group=GROUP,
        topic=message.topic,
        default_topic=SystemTopic.AUTO_CREATE,
        default_topic_queue_nums=0,
        queue_id=target.queue_id,
        # The addresses in the record will be the other broker's business.
        sys_flag=message.sys_flag & ~SysFlag.HOSTS_V6_MASK | LOGICAL_QUEUE_FLAG,
        born_timestamp=message.born_timestamp_ms,
        flag=message.flag,
        properties=properties.decode("utf-8", "replace"),
        reconsume_times=message.reconsume_times,
    )
    fields = header.to_letters() | {
        HOPS_FIELD: "1",
        BORN_HOST_FIELD: message.born_host.hex(),
        SEGMENT_FIELD: target.meant,
    }
    return request(RequestCode.SEND_MESSAGE_V2, fields, message.body)
