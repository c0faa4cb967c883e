"""Transactions and request-reply of a broker in memory, added to a `FakeBroker`."""

from typing import Final

from msgspec.structs import replace

from lanemq.wire import HostAddress, RequestCode, SysFlag, SystemTopic, reply_topic
from lanemq.wire.bodies import HeartbeatData
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import (
    CheckTransactionState,
    EndTransaction,
    ReplyMessage,
    SendMessage,
    SendMessageResponse,
)
from lanemq.wire.message import (
    Property,
    StoredMessage,
    decode_message,
    decode_properties,
    encode_message,
    encode_offset_id,
    encode_properties,
)

from .cluster import FakeBroker, Peer, clock_ms

HALF: Final = SystemTopic.TRANSACTION_HALF
SEND: Final = RequestCode.SEND_MESSAGE_V2


class FakeProducers:
    """Knows the connections of producers, as a broker does from their heartbeats."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.peers: dict[str, Peer] = {}  # by client id
        self.groups: dict[str, list[Peer]] = {}
        self._heartbeat = broker.handlers[RequestCode.HEART_BEAT]
        broker.handlers[RequestCode.HEART_BEAT] = self._note

    def _note(self, frame: Frame, peer: Peer) -> Frame | None:
        body = HeartbeatData.decode(frame.body)
        if body.producer_data_set:
            self.peers[body.client_id] = peer
        for producer in body.producer_data_set:
            self.groups.setdefault(producer.group_name, []).append(peer)
        return self._heartbeat(frame, peer)


class FakeTransactions:
    """Half messages, their end, and checks, when a test asks for one."""

    def __init__(self, producers: FakeProducers) -> None:
        self.producers = producers
        self.broker = producers.broker
        self.ended: list[EndTransaction] = []
        self.remarks: list[str | None] = []
        self._send = self.broker.handlers[SEND]
        self.broker.handlers[SEND] = self._store
        self.broker.handlers[RequestCode.END_TRANSACTION] = self._end

    def _store(self, frame: Frame, peer: Peer) -> Frame | None:
        header = SendMessage.from_letters(frame.fields)
        properties = decode_properties(header.properties or "")
        if properties.get(Property.TRAN_MSG) != "true":
            return self._send(frame, peer)
        assert header.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_PREPARED
        properties[Property.REAL_TOPIC] = header.topic
        properties[Property.REAL_QID] = str(header.queue_id)
        offset = self.broker.put(HALF, 0, frame.body, **properties)
        (half,) = (m for m in self.broker.messages(HALF) if m.queue_offset == offset)
        answer = SendMessageResponse(
            encode_offset_id(half.store_host, half.log_position), header.queue_id, offset
        )
        return frame.reply(fields=answer.to_fields())

    def _end(self, frame: Frame, peer: Peer) -> None:
        assert frame.is_oneway
        header = EndTransaction.from_fields(frame.fields)
        self.ended.append(header)
        self.remarks.append(frame.remark)
        half = self.half(header.tran_state_table_offset)
        assert half.log_position == header.commit_log_offset
        assert half.properties[Property.PGROUP] == header.producer_group
        if header.commit_or_rollback == SysFlag.TRANSACTION_COMMIT:
            topic, queue_id = self._target(half)
            self.broker.put(topic, queue_id, half.body, **half.properties)

    def half(self, queue_offset: int) -> StoredMessage:
        return decode_message(self.broker.queue(HALF, 0).records[queue_offset])

    @staticmethod
    def _target(half: StoredMessage) -> tuple[str, int]:
        properties = half.properties
        return properties[Property.REAL_TOPIC], int(properties[Property.REAL_QID])

    def check(self, queue_offset: int) -> None:
        """Ask a producer of its group what became of a half message."""
        half = self.half(queue_offset)
        key = half.properties[Property.UNIQ_KEY]
        header = CheckTransactionState(
            queue_offset, half.log_position, msg_id=key, transaction_id=key
        )
        topic, queue_id = self._target(half)
        size = half.size_bytes + len(topic) - len(half.topic)
        body = encode_message(replace(half, topic=topic, queue_id=queue_id, size_bytes=size))
        frame = request(
            RequestCode.CHECK_TRANSACTION_STATE, header.to_fields(), body=body, oneway=True
        )
        self.producers.groups[half.properties[Property.PGROUP]][-1].post(frame)


class FakeReplies:
    """Hands replies on to the producer that asked."""

    def __init__(self, producers: FakeProducers) -> None:
        self.producers = producers
        self.codes: list[int] = []  # that requesters answered
        broker = producers.broker
        broker.own_properties[Property.CLUSTER] = "c"
        broker.create_topic(reply_topic("c"), 1)
        broker.waiters[RequestCode.SEND_REPLY_MESSAGE_V2] = self._relay

    async def _relay(self, frame: Frame, peer: Peer) -> Frame:
        header = SendMessage.from_letters(frame.fields)
        properties = decode_properties(header.properties or "")
        client_id = properties[Property.REPLY_TO_CLIENT]
        asker = self.producers.peers.get(client_id)
        if asker is None:
            return frame.reply(1, remark=f"push reply message fail, <{client_id}> not found.")
        properties[Property.PUSH_REPLY_TIME] = str(clock_ms())
        pushed = ReplyMessage(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            born_host=str(HostAddress("10.9.8.7", 4711)),
            store_host=self.producers.broker.address,
            store_timestamp=clock_ms(),
            properties=encode_properties(properties).decode(),
            reconsume_times=header.reconsume_times,
        )
        answer = await asker.call(
            request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed.to_fields(), body=frame.body)
        )
        self.codes.append(answer.code)
        return frame.reply(fields=SendMessageResponse("0", header.queue_id, 0).to_fields())
