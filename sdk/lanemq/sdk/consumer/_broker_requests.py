"""Answers to the requests that brokers send to a consumer.

NOTIFY_CONSUMER_IDS_CHANGED 40, RESET_CONSUMER_CLIENT_OFFSET 220, GET_CONSUMER_STATUS_FROM_CLIENT
221, GET_CONSUMER_RUNNING_INFO 307, CONSUME_MESSAGE_DIRECTLY 309.
Source: RocketMQ 4.9.8, ClientRemotingProcessor.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final, final

import trio

from lanemq.wire import VERSION, Refused, RequestCode, ResponseCode, Version
from lanemq.wire.bodies import (
    ConsumeMessageDirectlyResultBody,
    ConsumeResult,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    MessageQueue,
    ProcessQueueInfo,
    ResetOffsetBody,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    GetConsumerStatus,
    NotifyConsumerIdsChanged,
    ResetOffset,
)
from lanemq.wire.message import decode_message

from .._messages import ReceivedMessage, is_success
from .._namespace import out_of_namespace, queue_out
from .._tasks import read_body
from .._unpacking import unpack
from ..listeners._listener import ConcurrentListener
from ..listeners._listener_context import ListenerContext, takes_context
from ..listeners._ordered_listeners import (
    KeyOrderedListener,
    OrderlyListener,
    StagedConcurrentListener,
)
from ..observe._log import get_logger
from ..observe._task_dump import task_dump
from ._consumer_core import ConsumerCore
from .pulls._held_queue import HeldQueue

LOGGER = get_logger("lanemq.sdk.consumer.requests", by_peers=True)

MIB = 1 << 20
RESET_BYTES_MAX: Final = 1 << 20
"""The longest body of a reset: one has the queues of one topic, some 100 bytes each."""
DUMP_PERIOD_S: Final = 1.0
"""Seconds for which a dump of all tasks is the answer: one takes as long as there are tasks."""


Listener = ConcurrentListener | OrderlyListener | KeyOrderedListener | StagedConcurrentListener


def answer_brokers(
    core: ConsumerCore,
    listener: Listener | None,
    *,
    is_locked: Callable[[MessageQueue], bool] | None = None,
    concurrency: Callable[[], int] = lambda: 0,
) -> None:
    """Answer the brokers' requests for ``core``; without a listener, 309 is refused.

    ``is_locked`` says of an ordered consumer's queue whether its lock is held, ``concurrency``
    how many listeners may run at once.
    """
    requests = _Requests(core, listener, is_locked, concurrency)
    handle = core.client.remoting.handle
    handle(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, requests.group_changed)
    handle(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, requests.reset_offsets)
    handle(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, requests.status)
    handle(RequestCode.GET_CONSUMER_RUNNING_INFO, requests.running_info)
    handle(RequestCode.CONSUME_MESSAGE_DIRECTLY, requests.consume_directly)


@final
@dataclass(eq=False, repr=False, slots=True)
class _Requests:
    core: ConsumerCore
    listener: Listener | None
    is_locked: Callable[[MessageQueue], bool] | None
    concurrency: Callable[[], int]
    reading: trio.Lock = field(init=False, default_factory=trio.Lock)
    dump: str = field(init=False, default="")
    dumped_s: float = field(init=False, default=-inf)

    def _check_group(self, group: str) -> None:
        if group != self.core.group:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer Group <{group}> not exist in this consumer",
            )

    def group_changed(self, frame: Frame, address: str) -> None:
        """Divide the queues again, a member joined or left: NOTIFY_CONSUMER_IDS_CHANGED (40)."""
        header = NotifyConsumerIdsChanged.from_fields(frame.fields)
        if header.consumer_group == self.core.group:
            LOGGER.info("%s: group %s changed", address, header.consumer_group)
            self.core.rebalance.wake()

    async def reset_offsets(self, frame: Frame, address: str) -> None:
        """Go on from the offsets in the body: RESET_CONSUMER_CLIENT_OFFSET (220).

        All of that happens, also if the broker's connection ends meanwhile.
        """
        header = ResetOffset.from_fields(frame.fields)
        self._check_group(header.group)
        body = frame.body
        if len(body) > RESET_BYTES_MAX:
            remark = f"a reset of {len(body)} bytes, at most {RESET_BYTES_MAX} are read"
            LOGGER.warning("%s: %s", address, remark)
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        async with self.reading:  # what comes later also counts later
            table = (await read_body(body, ResetOffsetBody.decode)).offset_table
        LOGGER.info("%s: reset of %s, %d queues", address, header.topic, len(table))
        done = trio.Event()

        async def reset() -> None:
            await self.core.reset(dict(table), header.topic)
            done.set()

        self.core.nursery.start_soon(reset)
        await done.wait()

    def status(self, frame: Frame, address: str) -> Frame:
        """Return the offsets in memory, reported or not: GET_CONSUMER_STATUS_FROM_CLIENT (221)."""
        header = GetConsumerStatus.from_fields(frame.fields)
        self._check_group(header.group)
        core = self.core
        table = {
            queue: offset
            for queue in core.rebalance.held
            if queue.topic == header.topic and (offset := core.offsets.get(queue)) is not None
        }
        return frame.reply(body=GetConsumerStatusBody(message_queue_table=table).encode())

    def running_info(self, frame: Frame, address: str) -> Frame:
        """Return queues, subscriptions, rates and settings: GET_CONSUMER_RUNNING_INFO (307)."""
        header = GetConsumerRunningInfo.from_fields(frame.fields)
        self._check_group(header.consumer_group)
        core, now_s = self.core, trio.current_time()
        listener = self.listener
        info = ConsumerRunningInfo(
            properties={
                "PROP_NAMESERVER_ADDR": ";".join(core.client.routes.name_servers.addresses),
                "PROP_CONSUME_TYPE": core.consume_type.value,
                "PROP_CONSUMEORDERLY": str(isinstance(listener, OrderlyListener)).lower(),
                "PROP_THREADPOOL_CORE_SIZE": str(self.concurrency()),
                "PROP_CLIENT_VERSION": Version(VERSION).name,
                "PROP_CONSUMER_START_TIMESTAMP": str(core.started_ms),
            },
            subscription_set=tuple(core.subscriptions.values()),
            mq_table={queue: self._queue_info(held) for queue, held in core.rebalance.held.items()},
            status_table={
                topic: core.topic_stats(topic).status(now_s) for topic in core.subscriptions
            },
            jstack=self._dump(now_s) if header.jstack_enable else None,
        )
        return frame.reply(body=info.encode())

    def _dump(self, now_s: float) -> str:
        if now_s - self.dumped_s >= DUMP_PERIOD_S:
            self.dump, self.dumped_s = task_dump(), now_s
        return self.dump

    def _queue_info(self, held: HeldQueue) -> ProcessQueueInfo:
        offsets = held.messages.offsets
        return ProcessQueueInfo(
            commit_offset=self.core.offsets.get(held.queue) or 0,
            cached_msg_min_offset=offsets[0] if offsets else 0,
            cached_msg_max_offset=offsets[-1] if offsets else 0,
            cached_msg_count=len(offsets),
            cached_msg_size_in_mib=held.messages.size_bytes // MIB,
            last_pull_timestamp=held.last_pull_ms,
            last_consume_timestamp=held.last_consume_ms,
            locked=self.is_locked is not None and self.is_locked(held.queue),
        )

    async def consume_directly(self, frame: Frame, address: str) -> Frame:
        """Run the listener on the message in the body: CONSUME_MESSAGE_DIRECTLY (309)."""
        header = ConsumeMessageDirectly.from_fields(frame.fields)
        self._check_group(header.consumer_group)
        if self.listener is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "this consumer has no listener")
        stored = decode_message(frame.body)
        queue = MessageQueue(stored.topic, header.broker_name or "", stored.queue_id)
        namespace = self.core.client.options.namespace
        limit = self.core.options.body_bytes_max
        message = ReceivedMessage(stored, queue_out(namespace, queue), namespace, None, 0, limit)
        await unpack((message,))
        started_s, remark = trio.current_time(), None
        try:
            handle = self.listener.handle
            if takes_context(handle):
                attempt = 1 + message.reconsume_times
                group = out_of_namespace(namespace, self.core.group)
                context = ListenerContext(group, message.queue, attempt, None)
                outcome = await handle((message,), context)
            else:
                outcome = await handle((message,))
        except Exception as error:  # the application's own
            LOGGER.exception("the listener failed on %s, handed over by an operator", message)
            result, remark = ConsumeResult.THROW_EXCEPTION, f"{type(error).__name__}: {error}"
        else:
            result = ConsumeResult.SUCCESS if is_success(outcome) else ConsumeResult.LATER
        body = ConsumeMessageDirectlyResultBody(
            consume_result=result.value,
            remark=remark,
            spent_time_mills=int((trio.current_time() - started_s) * 1000),
        )
        return frame.reply(body=body.encode())
