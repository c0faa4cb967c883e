"""Requests to a broker about consumers: progress, connections, offsets, relayed questions.

As ``_broker``: the address first, the same errors.
Source: RocketMQ 4.9.8, MQClientAPIImpl, AdminBrokerProcessor, ConsumerManageProcessor.
"""

from collections.abc import Mapping, Sequence

from lanemq.wire import BOUND_LOCK_FIELD, RequestCode, ResponseCode
from lanemq.wire.bodies import (
    ConsumeMessageDirectlyResultBody,
    ConsumerConnection,
    ConsumerOffsetTable,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeStatsList,
    DelayOffsetTable,
    GetConsumerStatusBody,
    LockBatch,
    LockBatchResult,
    MessageQueue,
    ProducerConnection,
    QueryConsumeTimeSpanBody,
    ResetOffsetBody,
)
from lanemq.wire.headers import (
    CloneGroupOffset,
    ConsumeMessageDirectly,
    GetConsumerConnectionList,
    GetConsumerRunningInfo,
    GetConsumerStatus,
    GetConsumeStats,
    GetConsumeStatsInBroker,
    GetMaxOffset,
    GetMinOffset,
    GetProducerConnectionList,
    OffsetResponse,
    QueryConsumerOffset,
    QueryConsumeTimeSpan,
    ResetOffset,
    SearchOffset,
    UpdateConsumerOffset,
)

from ..._tasks import read_body
from ._caller import Caller

# A relayed request waits for a client, ten seconds at most on the broker's side.
RELAY_TIMEOUT_S = 12.0


class ConsumerRequests:
    """Requests, one method each."""

    _caller: Caller

    async def consume_stats(
        self, address: str, group: str, *, topic: str | None = None
    ) -> ConsumeStats:
        """Return a group's progress in each queue (208), of all its topics or of one."""
        frame = await self._caller.ask(
            address,
            RequestCode.GET_CONSUME_STATS,
            GetConsumeStats(consumer_group=group, topic=topic),
            timeout_s=3 * self._caller.timeout_s,
        )
        return await read_body(frame.body, ConsumeStats.decode)

    async def consume_stats_of_all(
        self, address: str, *, only_ordered: bool = False
    ) -> ConsumeStatsList:
        """Return the progress of every group of a broker (317)."""
        frame = await self._caller.ask(
            address,
            RequestCode.GET_BROKER_CONSUME_STATS,
            GetConsumeStatsInBroker(is_order=only_ordered),
            timeout_s=3 * self._caller.timeout_s,
        )
        return await read_body(frame.body, ConsumeStatsList.decode)

    async def consumer_connections(self, address: str, group: str) -> ConsumerConnection | None:
        """Return the connected members of a group (203), None without any."""
        frame = await self._caller.ask(
            address,
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            GetConsumerConnectionList(consumer_group=group),
            accept=(ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE),
        )
        if frame.code != ResponseCode.SUCCESS:
            return None
        return await read_body(frame.body, ConsumerConnection.decode)

    async def producer_connections(self, address: str, group: str) -> ProducerConnection:
        """Return the connected members of a producer group (204)."""
        frame = await self._caller.ask(
            address,
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            GetProducerConnectionList(producer_group=group),
        )
        return await read_body(frame.body, ProducerConnection.decode)

    async def max_offset(self, address: str, queue: MessageQueue) -> int:
        """Return the offset of the next message of a queue (30)."""
        header = GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id)
        frame = await self._caller.ask(address, RequestCode.GET_MAX_OFFSET, header)
        return OffsetResponse.from_fields(frame.fields).offset

    async def min_offset(self, address: str, queue: MessageQueue) -> int:
        """Return the offset of the first message that is still there (31)."""
        header = GetMinOffset(topic=queue.topic, queue_id=queue.queue_id)
        frame = await self._caller.ask(address, RequestCode.GET_MIN_OFFSET, header)
        return OffsetResponse.from_fields(frame.fields).offset

    async def search_offset(self, address: str, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the message stored nearest to a time (29)."""
        header = SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        frame = await self._caller.ask(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return OffsetResponse.from_fields(frame.fields).offset

    async def group_offset(self, address: str, group: str, queue: MessageQueue) -> int | None:
        """Return where a group resumes in a queue (14), None where it never committed.

        A broker may say 0 for that, while the queue is young.
        """
        header = QueryConsumerOffset(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id
        )
        frame = await self._caller.ask(
            address,
            RequestCode.QUERY_CONSUMER_OFFSET,
            header,
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
        )
        if frame.code != ResponseCode.SUCCESS:
            return None
        return OffsetResponse.from_fields(frame.fields).offset

    async def put_offset(
        self, address: str, group: str, queue: MessageQueue, queue_offset: int
    ) -> None:
        """Make a group resume at ``queue_offset`` (15). A running consumer overwrites it."""
        header = UpdateConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=queue_offset,
        )
        await self._caller.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def lock_queues(
        self, address: str, group: str, client_id: str, queues: Sequence[MessageQueue]
    ) -> frozenset[MessageQueue]:
        """Take, or renew, the locks of a group on queues of a broker (41); return those that the
        client has now.

        A lock is nobody else's for 60 s from its last renewal. A broker of lanemq ends it with
        this connection, too.
        """
        body = LockBatch(group, client_id, tuple(queues))
        frame = await self._caller.ask(
            address, RequestCode.LOCK_BATCH_MQ, fields={BOUND_LOCK_FIELD: "true"}, body=body.encode
        )
        locked = await read_body(frame.body, LockBatchResult.decode)
        return frozenset(locked.lock_ok_mq_set) & frozenset(queues)

    async def unlock_queues(
        self, address: str, group: str, client_id: str, queues: Sequence[MessageQueue]
    ) -> None:
        """Give locks of a group back (42), those that the client has."""
        body = LockBatch(group, client_id, tuple(queues))
        await self._caller.ask(address, RequestCode.UNLOCK_BATCH_MQ, body=body.encode)

    async def offset_table(self, address: str) -> Mapping[str, Mapping[int, int]]:
        """Return the offsets that a broker keeps (43): ``topic@group`` -> queue id -> offset."""
        frame = await self._caller.ask(
            address, RequestCode.GET_ALL_CONSUMER_OFFSET, timeout_s=3 * self._caller.timeout_s
        )
        return (await read_body(frame.body, ConsumerOffsetTable.decode)).offset_table

    async def delay_offsets(self, address: str) -> Mapping[int, int]:
        """Return how far delayed delivery is (45): level -> offset of the next message."""
        frame = await self._caller.ask(address, RequestCode.GET_ALL_DELAY_OFFSET)
        return (await read_body(frame.body, DelayOffsetTable.decode)).offset_table

    async def reset_offsets(
        self, address: str, group: str, topic: str, timestamp_ms: int, *, force: bool
    ) -> dict[MessageQueue, int]:
        """Make the connected consumers of a group go to a time (222), -1 being the end.

        Without ``force`` no queue moves forward. Where nobody is connected, brokers of 5.x move
        the group's offsets, and others refuse with ``CONSUMER_NOT_ONLINE``. Stages of a stopped
        group stay as they are: see ``reset_offsets_by_time``.
        """
        frame = await self._caller.ask(
            address,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            ResetOffset(topic=topic, group=group, timestamp=timestamp_ms, is_force=force),
        )
        return dict((await read_body(frame.body, ResetOffsetBody.decode)).offset_table)

    async def consumer_offsets(
        self, address: str, group: str, topic: str, *, client_id: str = ""
    ) -> dict[str, dict[MessageQueue, int]]:
        """Return the progress of each member of a group, as the member says (223)."""
        frame = await self._caller.ask(
            address,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            GetConsumerStatus(topic=topic, group=group, client_addr=client_id),
            timeout_s=RELAY_TIMEOUT_S,
        )
        table = (await read_body(frame.body, GetConsumerStatusBody.decode)).consumer_table
        return {client_id: dict(offsets) for client_id, offsets in table.items()}

    async def running_info(
        self, address: str, group: str, client_id: str, *, stack: bool = False
    ) -> ConsumerRunningInfo:
        """Return what a consumer says about itself (307), relayed by the broker."""
        frame = await self._caller.ask(
            address,
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            GetConsumerRunningInfo(consumer_group=group, client_id=client_id, jstack_enable=stack),
            timeout_s=RELAY_TIMEOUT_S,
        )
        return await read_body(frame.body, ConsumerRunningInfo.decode)

    async def consume_directly(
        self, address: str, group: str, client_id: str, offset_id: str
    ) -> ConsumeMessageDirectlyResultBody:
        """Make one consumer consume one message now (309), relayed by the broker."""
        frame = await self._caller.ask(
            address,
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            ConsumeMessageDirectly(consumer_group=group, client_id=client_id, msg_id=offset_id),
            timeout_s=RELAY_TIMEOUT_S,
        )
        return await read_body(frame.body, ConsumeMessageDirectlyResultBody.decode)

    async def time_span(self, address: str, group: str, topic: str) -> QueryConsumeTimeSpanBody:
        """Return first, last and consumed store time of each queue (303)."""
        frame = await self._caller.ask(
            address,
            RequestCode.QUERY_CONSUME_TIME_SPAN,
            QueryConsumeTimeSpan(topic=topic, group=group),
        )
        return await read_body(frame.body, QueryConsumeTimeSpanBody.decode)

    async def clone_offsets(
        self, address: str, source: str, target: str, topic: str, *, offline: bool = True
    ) -> None:
        """Copy the offsets of group ``source`` to group ``target`` (314)."""
        header = CloneGroupOffset(src_group=source, dest_group=target, topic=topic, offline=offline)
        await self._caller.ask(address, RequestCode.CLONE_GROUP_OFFSET, header)
