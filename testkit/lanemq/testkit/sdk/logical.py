"""The cluster in memory with logical queues: brokers that seal, redirect, and are migrated.

What a client can tell apart, and the administrator's requests that migrations are made of.
"""

from typing import cast

import trio

from lanemq.wire import (
    PullSysFlag,
    Refused,
    RequestCode,
    ResponseCode,
    encode_properties_text,
)
from lanemq.wire.bodies import ConsumerOffsetTable, MessageQueue, TopicConfig, TopicConfigWrapper
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    CreateTopic,
    GetMaxOffset,
    GetTopicConfig,
    PullMessage,
    PullMessageResponse,
    QueryLogicalQueueMapping,
    SendMessage,
)
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    REDIRECT_FIELD,
    REDIRECT_VALUE,
    SEGMENT_FIELD,
    Chain,
    CreateQueueForLogicalQueue,
    LogicalQueues,
    MigrateLogicalQueue,
    Redirect,
    ReuseLogicalQueue,
    SealLogicalQueue,
    Segment,
    SegmentState,
    UpdateLogicalQueueMapping,
    with_logical_queues,
)
from lanemq.wire.message import decode_message

from .cluster import FakeBroker, FakeCluster, Peer

ERROR = ResponseCode.SYSTEM_ERROR
RETRY_IMMEDIATELY = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
NOT_FOUND = int(ResponseCode.PULL_NOT_FOUND)


class LogicalBroker(FakeBroker):
    """A broker whose queues may be parts of logical ones."""

    def __init__(self, nursery: trio.Nursery, address: str, name: str) -> None:
        super().__init__(nursery, address, name)
        self.peers_by_name: dict[str, LogicalBroker] = {}
        code = RequestCode
        self.handlers |= {
            code.GET_MAX_OFFSET: self._max_of_part,
            code.GET_TOPIC_CONFIG: self._topic_config,
            code.GET_ALL_TOPIC_CONFIG: self._topic_configs,
            code.UPDATE_AND_CREATE_TOPIC: self._put_topic,
            code.GET_BROKER_CONFIG: self._config,
            code.GET_ALL_CONSUMER_OFFSET: self._offset_table,
            code.GET_TOPIC_STATS_INFO: self._no_stats,
            code.UPDATE_TOPIC_LOGICAL_QUEUE_MAPPING: self._map,
            code.DELETE_TOPIC_LOGICAL_QUEUE_MAPPING: self._unmap,
            code.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING: self._query,
            code.SEAL_TOPIC_LOGICAL_QUEUE: self._seal,
            code.REUSE_TOPIC_LOGICAL_QUEUE: self._reuse,
            code.CREATE_MESSAGE_QUEUE_FOR_LOGICAL_QUEUE: self._create,
            code.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE: self._prepare,
            code.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT: self._commit,
            code.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY: self._told,
        }

    def _no_stats(self, frame: Frame, peer: Peer) -> Frame:
        return frame.reply(ResponseCode.TOPIC_NOT_EXIST, remark="it keeps no statistics")

    def _offset_table(self, frame: Frame, peer: Peer) -> Frame:
        table: dict[str, dict[int, int]] = {}
        for (group, topic, queue_id), offset in self.offsets.items():
            table.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        return frame.reply(body=ConsumerOffsetTable(table).encode())

    # What is known

    def _chain(self, topic: str, index: int) -> Chain:
        return self.chains.get(topic, LogicalQueues()).get(index) or Chain(index)

    def _latest(self, topic: str, queue_id: int) -> Segment | None:
        queues = self.chains.get(topic)
        segments = () if queues is None else queues.by_queue(self.name).get(queue_id, ())
        return segments[-1] if segments else None

    def _keep(self, topic: str, *segments: Segment) -> None:
        self.chains[topic] = self.chains.get(topic, LogicalQueues()).put_segments(*segments)
        for (name, _), queue in self.queues.items():
            if name == topic:  # tasks that wait there look again
                queue.arrived.set()
                queue.arrived = trio.Event()

    def expire(self, topic: str, index: int) -> None:
        """Retention takes the messages of every sealed segment here."""
        for segment in self._chain(topic, index):
            if segment.broker_name == self.name and segment.state is SegmentState.READ_ONLY:
                queue = self.queue(topic, segment.queue_id)
                queue.trimmed = max(queue.trimmed, segment.offset_max)
                self._keep(topic, segment.with_state(SegmentState.EXPIRED))

    # Sending

    def _send(self, frame: Frame, peer: Peer) -> Frame:
        header = SendMessage.from_letters(frame.fields)
        segment = self._latest(header.topic, header.queue_id)
        understands = header.sys_flag & LOGICAL_QUEUE_FLAG
        meant = frame.fields.pop(SEGMENT_FIELD, None)
        is_mapped = header.topic in self.chains
        if meant is not None and is_mapped and (segment is None or not segment.is_meant(meant)):
            fields = {REDIRECT_FIELD: REDIRECT_VALUE}
            return frame.reply(ResponseCode.NO_PERMISSION, fields, b"", "another segment")
        frame.fields["f"] = str(header.sys_flag & ~LOGICAL_QUEUE_FLAG)
        if segment is None or segment.is_writable:
            return super()._send(frame, peer)
        target = self._chain(header.topic, segment.logical_index).writable
        if target is None:
            raise Refused(ResponseCode.NO_PERMISSION, "not writable")
        if understands:
            fields = {REDIRECT_FIELD: REDIRECT_VALUE}
            body = Redirect(segment, target).encode()
            return frame.reply(ResponseCode.NO_PERMISSION, fields, body, "redirect")
        frame.fields["e"] = str(target.queue_id)
        answer = self.peers_by_name[target.broker_name]._send(frame, peer)
        answer.fields["queueId"] = str(header.queue_id)
        return answer

    # Reading

    async def _pull(self, frame: Frame, peer: Peer) -> Frame:
        header = PullMessage.from_fields(frame.fields)
        if header.topic not in self.chains:
            return await super()._pull(frame, peer)
        wants = self._wants(header, peer)
        if wants is None:
            return frame.reply(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark="subscription not exist")
        queue = self.queue(header.topic, header.queue_id)
        wait_s = header.suspend_timeout_millis / 1000
        until_s = trio.current_time() + wait_s * bool(header.sys_flag & PullSysFlag.SUSPEND)
        while True:
            early = self._early(header)
            if early is not None:
                return self._elsewhere(frame, header, *early)
            segment = self._segment_at(header)
            at_end = header.queue_offset == self._end(queue.max_offset, segment)
            if not at_end or trio.current_time() >= until_s:
                break
            with trio.move_on_at(until_s):
                await queue.arrived.wait()
        return self._cut(self._read_queue(frame, header, queue, wants), segment)

    def _segment_at(self, header: PullMessage) -> Segment | None:
        queues = self.chains[header.topic].by_queue(self.name).get(header.queue_id, ())
        found = [s for s in queues if s.offset_delta <= header.queue_offset]
        return found[-1] if found else None

    def _early(self, header: PullMessage) -> tuple[Segment, Segment] | None:
        """Return the segment asked and the one to ask, where there is nothing here any more."""
        segment = self._segment_at(header)
        if segment is None:
            return None
        ended = segment.state is SegmentState.EXPIRED or not segment.keeps(header.queue_offset)
        following = self._chain(header.topic, segment.logical_index).next_readable(segment)
        return None if not ended or following is None else (segment, following)

    @staticmethod
    def _end(max_offset: int, segment: Segment | None) -> int:
        return max_offset if segment is None else segment.clamp_max(max_offset)

    def _elsewhere(
        self, frame: Frame, header: PullMessage, segment: Segment, following: Segment
    ) -> Frame:
        offset = max(segment.offset_max, 0)
        fields = PullMessageResponse(0, offset, header.queue_offset, offset).to_fields()
        fields[REDIRECT_FIELD] = REDIRECT_VALUE
        return frame.reply(RETRY_IMMEDIATELY, fields, Redirect(segment, following).encode())

    def _cut(self, answer: Frame, segment: Segment | None) -> Frame:
        """Leave out messages from behind the end of a sealed segment."""
        if segment is None or not segment.is_sealed:
            return answer
        header = PullMessageResponse.from_fields(answer.fields)
        records, kept = answer.body, b""
        while records:
            message = decode_message(records)
            if segment.keeps(message.queue_offset):
                kept += records[: message.size_bytes]
            records = records[message.size_bytes :]
        offset = min(header.next_begin_offset, segment.offset_max)
        low, high = segment.clamp_min(header.min_offset), segment.clamp_max(header.max_offset)
        fields = PullMessageResponse(0, offset, low, high).to_fields()
        code = answer.code if kept or answer.code else NOT_FOUND
        return Frame(code, answer.opaque, answer.flag, fields, kept, answer.remark)

    def _max_of_part(self, frame: Frame, peer: Peer) -> Frame:
        header = GetMaxOffset.from_fields(frame.fields)
        answer = self._max_offset(frame, peer)
        segment = self._latest(header.topic, header.queue_id)
        if segment is None or not header.logical_queue:
            return answer
        answer.fields["offset"] = str(segment.clamp_max(int(answer.fields["offset"])))
        placed = [s for s in self._chain(header.topic, segment.logical_index) if s.delta >= 0]
        if placed and placed[-1].key != segment.key:
            answer.fields[REDIRECT_FIELD] = REDIRECT_VALUE
        return answer

    # Of administrators

    def _topic_config(self, frame: Frame, peer: Peer) -> Frame:
        topic = GetTopicConfig.from_fields(frame.fields).topic
        if topic not in self.topics:
            raise Refused(ERROR, f"No topic in this broker. topic: {topic}")
        queues = self.topics[topic]
        return frame.reply(body=TopicConfig(topic, queues, queues, self.perms[topic]).encode())

    def _topic_configs(self, frame: Frame, peer: Peer) -> Frame:
        table = {
            topic: TopicConfig(topic, queues, queues, self.perms[topic])
            for topic, queues in self.topics.items()
        }
        extra = with_logical_queues({}, self.chains)
        return frame.reply(body=TopicConfigWrapper(table, extra=extra).encode())

    def _put_topic(self, frame: Frame, peer: Peer) -> Frame:
        header = CreateTopic.from_fields(frame.fields)
        self.create_topic(header.topic, header.write_queue_nums, header.perm)
        return frame.reply()

    def _config(self, frame: Frame, peer: Peer) -> Frame:
        return frame.reply(body=encode_properties_text({"fileReservedTime": "72"}))

    def _query(self, frame: Frame, peer: Peer) -> Frame:
        topic = QueryLogicalQueueMapping.from_fields(frame.fields).topic
        queues = self.chains.get(topic)
        return frame.reply(body=b"null" if queues is None else queues.encode())

    def _map(self, frame: Frame, peer: Peer) -> Frame:
        body = UpdateLogicalQueueMapping.decode(frame.body)
        if body.topic not in self.topics:
            raise Refused(ERROR, "topic not exist")
        if body.logical_index < 0:
            return frame.reply(remark=self._call_off(body))
        queue = MessageQueue(body.topic, self.name, body.queue_id)
        self._keep(body.topic, Segment(queue, body.logical_index, 0, broker_address=self.address))
        return frame.reply(remark="set up")

    def _call_off(self, body: UpdateLogicalQueueMapping) -> str:
        """Return the destination of a migration ends as it is, if it is empty."""
        topic, queue_id = body.topic, body.queue_id
        segment = self._latest(topic, queue_id)
        if segment is None:
            return "already deleted"
        end = self.queue(topic, queue_id).max_offset
        if end > segment.offset_delta and not body.force:
            raise Refused(ERROR, f"message queue {queue_id} has messages")
        self._keep(topic, segment.with_delta(max(segment.delta, 0)).sealed(end))
        return "deleted"

    def _unmap(self, frame: Frame, peer: Peer) -> Frame:
        topic = QueryLogicalQueueMapping.from_fields(frame.fields).topic
        queues = self.chains.get(topic, LogicalQueues()).of_broker(self.name)
        if queues.segments:
            raise Refused(ERROR, f"still {len(queues.segments)} message queues")
        self.chains.pop(topic, None)
        return frame.reply(remark="deleted")

    def _sealed(self, segment: Segment) -> Segment:
        end = self.queue(segment.topic, segment.queue_id).max_offset
        records = self.queue(segment.topic, segment.queue_id).records
        times = [
            decode_message(record).store_timestamp_ms
            for record in records[segment.offset_delta : end]
        ]
        first, last = (times[0], times[-1]) if times else (0, 0)
        return segment.sealed(end, first_time_ms=first, last_time_ms=last)

    def _seal(self, frame: Frame, peer: Peer) -> Frame:
        body = SealLogicalQueue.decode(frame.body)
        segment = self._latest(body.topic, body.queue_id)
        if segment is None:
            raise Refused(ERROR, "message queue not exist")
        if segment.is_writable:
            segment = self._sealed(segment)
            self._keep(body.topic, segment)
        return frame.reply(body=segment.encode())

    def _open(
        self, topic: str, queue_id: int, index: int, state: SegmentState, delta: int | None
    ) -> Segment:
        chain = self._chain(topic, index)
        if any(s.is_writable for s in chain if s.broker_name == self.name):
            raise Refused(ERROR, "multiple WriteOnly queue")
        if delta is None:
            delta = -1 if state is SegmentState.WRITE_ONLY else chain.known_end
        segment = Segment(
            MessageQueue(topic, self.name, queue_id),
            index,
            delta,
            state,
            self.queue(topic, queue_id).max_offset,
            broker_address=self.address,
        )
        self._keep(topic, segment)
        return segment

    def _reuse(self, frame: Frame, peer: Peer) -> Frame:
        body = ReuseLogicalQueue.decode(frame.body)
        latest = self._latest(body.topic, body.queue_id)
        if latest is not None and latest.is_writable:
            raise Refused(ERROR, "queue writable")
        segment = self._open(body.topic, body.queue_id, body.logical_index, body.state, body.delta)
        return frame.reply(body=segment.encode())

    def _create(self, frame: Frame, peer: Peer) -> Frame:
        body = CreateQueueForLogicalQueue.decode(frame.body)
        queue_id = self.topics.get(body.topic, 0)
        segment = self._open(body.topic, queue_id, body.logical_index, body.state, body.delta)
        self.create_topic(body.topic, queue_id + 1)
        return frame.reply(body=segment.encode())

    def _prepare(self, frame: Frame, peer: Peer) -> Frame:
        body = MigrateLogicalQueue.decode(frame.body)
        assert body.source is not None
        assert body.destination is not None
        topic, index = body.source.topic, body.source.logical_index
        chain = self._chain(topic, index)
        source = chain.find(body.source.key)
        if source is None:
            raise Refused(ERROR, f"message queue {body.source.queue_id} not exist")
        known = chain.find(body.destination.key)
        if source.is_sealed and (known is None or known.delta != source.next_delta):
            raise Refused(ERROR, "migration in progress")
        sealed = source if source.is_sealed else self._sealed(source)
        # What was known of an empty segment at the same place before counts no more.
        destination = body.destination.with_delta(sealed.next_delta)
        self._keep(topic, sealed, destination)
        return frame.reply(body=MigrateLogicalQueue(sealed, destination).encode())

    def _commit(self, frame: Frame, peer: Peer) -> Frame:
        body = MigrateLogicalQueue.decode(frame.body)
        wanted = body.destination
        assert wanted is not None
        own = self._chain(wanted.topic, wanted.logical_index).find(wanted.key)
        if own is None:
            raise Refused(ERROR, f"message queue {wanted.queue_id} not exist")
        if own.state is SegmentState.NORMAL and own.delta != wanted.delta:
            raise Refused(ERROR, "delta is fixed")
        done = own.with_delta(wanted.delta).with_state(SegmentState.NORMAL)
        self._keep(wanted.topic, *(() if body.source is None else (body.source,)), done)
        return frame.reply(body=MigrateLogicalQueue(body.source, done).encode())

    def _told(self, frame: Frame, peer: Peer) -> Frame:
        body = MigrateLogicalQueue.decode(frame.body)
        for segment in (body.source, body.destination):
            if segment is not None:
                self._keep(segment.topic, segment)
        return frame.reply()


class LogicalCluster(FakeCluster):
    """A name server and brokers ``broker-a``, ``broker-b`` and so on, for logical queues."""

    def __init__(self, nursery: trio.Nursery, brokers: int) -> None:
        super().__init__(nursery)
        self.add_name_server()
        self.by_name: dict[str, LogicalBroker] = {}
        for _ in range(brokers):
            self.add_logical_broker()

    def add_logical_broker(self) -> LogicalBroker:
        """Add one more broker, without any topic."""
        broker = cast(LogicalBroker, self.add_broker(LogicalBroker))
        self.by_name[broker.name] = broker
        broker.peers_by_name = self.by_name
        return broker

    def enable(self, topic: str, queues: int) -> None:
        """Make a topic with ``queues`` on each broker, and logical queues of all of them."""
        self.create_topic(topic, queues)
        index = 0
        for broker in self.by_name.values():
            segments = []
            for queue_id in range(queues):
                queue = MessageQueue(topic, broker.name, queue_id)
                segments.append(Segment(queue, index, 0, broker_address=broker.address))
                index += 1
            broker._keep(topic, *segments)

    def chain(self, topic: str, index: int) -> Chain:
        """Return one logical queue, with each segment as its own broker reports it."""
        return Chain(
            index,
            (
                segment
                for broker in self.by_name.values()
                for segment in broker._chain(topic, index)
                if segment.broker_name == broker.name
            ),
        )

    def bodies_of(self, topic: str, index: int) -> list[bytes]:
        """Return a logical queue's messages in order of logical offsets, expired ones included."""
        found: list[bytes] = []
        for segment in self.chain(topic, index):
            records = self.by_name[segment.broker_name].queue(topic, segment.queue_id).records
            end = segment.offset_max if segment.is_sealed else len(records)
            found += [decode_message(r).body for r in records[segment.offset_delta : end]]
        return found
