"""Delivery of the broker's own messages for queues that continue at another broker.

A delayed message is due at a queue that was sealed meanwhile: it goes to wherever the logical
queue takes messages. Where that cannot be reached it waits a little longer, in the log, and so
it is never lost; with its unique key, whoever gets it twice can tell.

Source: RocketMQ 5.0.0-PREVIEW writes such messages behind the end of the sealed segment.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Self, final

import trio
from attrs import define
from msgspec.structs import replace

from lanemq.local import get_logger
from lanemq.storage import NewMessage, Store
from lanemq.wire import (
    ProtocolError,
    Refused,
    RequestCode,
    ResponseCode,
    SysFlag,
    SystemTopic,
)
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import SendMessage
from lanemq.wire.logical import (
    BORN_HOST_FIELD,
    HOPS_FIELD,
    LOGICAL_QUEUE_FLAG,
    REDIRECT_FIELD,
    SEGMENT_FIELD,
    LogicalQueues,
    Redirect,
    Segment,
)
from lanemq.wire.message import Property, remove_property

from ....logical.rules._gate import SegmentClosed
from ....logical.rules._view import merged
from ...cluster._peers import Peers
from ...context._context import BrokerContext
from ...settings._config import BrokerConfig
from ...state._stats import BrokerStatistics
from ...writing._undelivered import Undelivered
from ...writing._writer import Writer
from ..state._state import LogicalState

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

AGAIN_LEVEL: Final = 3
"""The delay level after which an undelivered message is tried again: 10 s by default."""
GROUP: Final = "CID_LANEMQ_DELIVERY"
"""The producer group named to other brokers."""
ATTEMPTS: Final = 2
"""Number of targets tried for one message: the second is the one named by the first."""


@final
@define(eq=False, kw_only=True, repr=False)
class Deliveries:
    """The delivery of messages that their own queues did not take."""

    _commit: Callable[[], None]
    _commit_all: Callable[[], Awaitable[None]]
    _config: BrokerConfig
    _logical: LogicalState
    _peers: Peers
    _statistics: BrokerStatistics
    _store: Store
    _writer: Writer
    _undelivered: Undelivered

    @classmethod
    def of(cls, broker: BrokerContext, undelivered: Undelivered) -> Self:
        """Return the deliveries of ``broker``."""
        return cls(
            undelivered=undelivered,
            commit=broker.commit,
            commit_all=broker.commit_all,
            config=broker.config,
            logical=broker.logical,
            peers=broker.peers,
            statistics=broker.statistics,
            store=broker.store,
            writer=broker.writer,
        )

    async def deliver(self, messages: Iterable[NewMessage]) -> None:
        """Deliver messages; returns when each is stored, here or elsewhere, or waits in the log.

        Raises ``Refused`` where not even that can be; some may be stored then.
        """
        waiting: list[NewMessage] = []
        errors: list[Refused] = []
        illegal: list[tuple[NewMessage, Refused]] = []

        async def one(message: NewMessage) -> None:
            try:
                if not await self._deliver(message):
                    waiting.append(message)
            except Refused as error:
                if error.code == ResponseCode.MESSAGE_ILLEGAL:
                    illegal.append((message, error))
                else:
                    errors.append(error)

        async with trio.open_nursery() as nursery:
            for message in messages:
                nursery.start_soon(one, message)
        if errors:
            raise errors[0]
        for message, error in illegal:
            self._undelivered.keep(message, error.remark)
        for message in waiting:
            self._writer.append_waiting(message, AGAIN_LEVEL)
        await self._commit_all()

    async def _deliver(self, message: NewMessage) -> bool:
        """Try to deliver a message now; returns whether it was delivered."""
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

    async def at_end(self, message: NewMessage, index: int) -> bool:
        """Store a message at the open end of a logical queue; returns whether that is certain.

        What is stored here is durable then. Where no answer came, it may be stored or not: then it
        is tried nowhere else.
        """
        for _ in range(ATTEMPTS):
            mapping = self._logical.get(message.topic)
            target = mapping.open_end(index) if mapping is not None else None
            if target is None:
                return False
            if target.broker_name != self._logical.broker_name:
                is_stored = await self._send(message, target)
                if is_stored is not False:
                    return bool(is_stored)
            elif self._append(replace(message, queue_id=target.queue_id)):
                await self._store.flushed(self._store.max_position)
                return True
        return False

    def _append(self, message: NewMessage) -> bool:
        try:
            put = self._writer.append(message)
        except SegmentClosed:
            return False
        self._commit()
        self._statistics.put(message.topic, 1, put.size_bytes)
        return True

    def _target(self, message: NewMessage) -> Segment | None:
        mapping = self._logical.get(message.topic)
        segment = mapping.latest(message.queue_id) if mapping is not None else None
        if mapping is None or segment is None:
            return None
        return mapping.open_end(segment.logical_index)

    async def _send(self, message: NewMessage, target: Segment) -> bool | None:
        """Send a message to another broker, and learn from its answer; returns whether it was
        stored, or None where no answer came."""
        timeout_s = self._config.forward_timeout / 1000
        counters = self._logical.counters
        try:
            answer = await self._peers.call(
                target.broker_name, target.broker_address, _as_send(message, target), timeout_s
            )
        except Refused as error:
            LOGGER.warning("a delayed message for %s has to wait: %s", target, error.remark)
            counters.forwards_failed += 1
            return None
        if answer.code == 0:
            counters.forwards += 1
            return True
        counters.forwards_failed += 1
        if answer.code == ResponseCode.MESSAGE_ILLEGAL:
            raise Refused(answer.code, f"broker {target.broker_name}: {answer.remark}")
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
    """Make the request that has ``message`` stored at ``target``, and not delayed again."""
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
