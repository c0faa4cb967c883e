"""Operators' questions to a broker that one of its clients answers.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.callConsumer, Broker2Client; 5.3.3 for the reset
of one queue.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, final

import trio
from attrs import define

from lanemq.storage import Store
from lanemq.wire import (
    ACCESS_KEY_FIELD,
    SECURITY_TOKEN_FIELD,
    SIGNATURE_FIELD,
    Refused,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
    Version,
    version_name,
)
from lanemq.wire.bodies import (
    GetConsumerStatusBody,
    MessageQueue,
    MessageQueueOffset,
    ResetOffsetBody,
    ResetOffsetListBody,
)
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    GetConsumerStatus,
    ResetOffset,
)
from lanemq.wire.message import decode_offset_id

from ...net._answers import passed_on
from ...net._dispatch import Handlers, typed
from ...net._session import PeerTimedOut, Session, SessionClosed
from ..context._context import BrokerContext
from ..handlers.pulls._old_readers import for_reader
from ..state._clients import ClientRegistry
from ..state._members import Client
from ..state._stages import GroupStages
from ..state._topics import Topics
from ._own_queues import OwnQueues

LOGGER = logging.getLogger("lanemq.proxy.admin")

RELAY_TIMEOUT_S: Final = 10.0
STATUS_TIMEOUT_S: Final = 5.0
END: Final = -1

# The operator's signature means nothing to the client, which must not see it either.
SIGNATURE_FIELDS: Final = frozenset(
    {ACCESS_KEY_FIELD, SIGNATURE_FIELD, SECURITY_TOKEN_FIELD, "OnsChannel"}
)


@final
@define(eq=False, kw_only=True, repr=False)
class Relay:
    """The questions of operators to clients."""

    _clients: ClientRegistry[Session]

    def find(self, group: str, client_id: str | None) -> Client[Session]:
        found = self._clients.consumer_group(group)
        client = found.find(client_id or "") if found is not None else None
        if client is None:
            remark = f"The Consumer <{group}> <{client_id}> not online"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        if client.version < Version.V3_1_8_SNAPSHOT:
            remark = (
                f"The Consumer <{client_id}> Version <{version_name(client.version)}> too low to "
                "finish, please upgrade it to V3_1_8_SNAPSHOT"
            )
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return client

    async def relay(
        self, frame: Frame, client: Client[Session], fields: dict[str, str], body: bytes
    ) -> Frame:
        """Relay the operator's question to the client, and its answer back."""
        fields = {name: value for name, value in fields.items() if name not in SIGNATURE_FIELDS}
        asked = request(frame.code, fields, body=body)
        try:
            answer = await client.session.request(asked, RELAY_TIMEOUT_S)
        except PeerTimedOut as error:
            remark = f"consumer <{client.client_id}> Timeout: {error}"
            raise Refused(ResponseCode.CONSUME_MSG_TIMEOUT, remark) from error
        except SessionClosed as error:
            remark = f"invoke consumer <{client.client_id}> Exception: {error}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from error
        return passed_on(frame, answer)

    async def running_info(
        self, header: GetConsumerRunningInfo, frame: Frame, session: Session
    ) -> Frame:
        client = self.find(header.consumer_group, header.client_id)
        return await self.relay(frame, client, dict(frame.fields), frame.body)


@final
@define(eq=False, kw_only=True, repr=False)
class DirectConsumption:
    """Direct consumption (309): an operator hands one stored message to one consumer, outside its
    queue.

    Source: RocketMQ 4.9.8, AdminBrokerProcessor.consumeMessageDirectly.
    """

    _broker_name: str
    _record_at: Callable[[int], Awaitable[bytes | None]]
    """The record at a position, as the port's clients see it; None if there is none."""
    _relay: Relay

    async def consume(
        self, header: ConsumeMessageDirectly, frame: Frame, session: Session
    ) -> Frame:
        """Find the message, and answer the consumer's result. Raises ``Refused``."""
        client = self._relay.find(header.consumer_group, header.client_id)
        try:
            _, log_position = decode_offset_id(header.msg_id or "")
        except RemoteProtocolError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        record = await self._record_at(log_position)
        if record is None:
            remark = f"can not find message by the offset, {log_position}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        fields = dict(frame.fields) | {"brokerName": self._broker_name}
        return await self._relay.relay(frame, client, fields, for_reader(record, client.version))


@final
@define(eq=False, kw_only=True, repr=False)
class MemberOffsets:
    """The offsets that the members of a group hold, asked for or set."""

    _clients: ClientRegistry[Session]
    _queues: OwnQueues
    _stages: GroupStages
    _store: Store
    _topics: Topics

    def reset(self, header: ResetOffset, frame: Frame, session: Session) -> Frame:
        """Tell the members of a group the offsets to continue at. Their commits then move the
        offsets.

        5.x tools may name one queue and its offset; without any member connected, that is stored.
        """
        targets = self._targets(header)
        group = self._clients.consumer_group(header.group)
        LOGGER.info(
            "reset of %s in %s by %s: %s", header.group, header.topic, session.peer, targets
        )
        body = ResetOffsetBody(targets).encode()
        if group is not None or _names_a_queue(header):
            for queue, offset in targets.items():
                key = header.group, queue.topic, queue.queue_id
                if self._store.tables.consumer_offsets.get(*key) != offset:
                    self._stages.restart(*key, offset)
        if group is None:
            if _names_a_queue(header):
                for queue, offset in targets.items():
                    self._store.tables.consumer_offsets.put(
                        header.group, queue.topic, queue.queue_id, offset
                    )
                return frame.reply(body=body)
            remark = (
                f"Consumer not online, so can not reset offset, Group: {header.group} "
                f"Topic: {header.topic} Timestamp: {header.timestamp}"
            )
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        for client in group.clients.values():
            if client.version < Version.V3_0_7_SNAPSHOT:
                name = version_name(client.version)
                remark = f"the client does not support this feature. version={name}"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        told = ResetOffset(
            topic=header.topic, group=header.group, timestamp=header.timestamp, is_force=False
        )
        note = request(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
            told.to_fields(),
            body=_as_list(targets) if frame.language == "CPP" else body,
        )
        for member in group.clients:
            member.oneway(note)
        return frame.reply(body=body)

    def _targets(self, header: ResetOffset) -> dict[MessageQueue, int]:
        """Compute the target offset of each of the group's queues; none goes forward without
        force."""
        topic, store = header.topic, self._store
        config = self._topics.get(topic)
        if config is None:
            remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        if _names_a_queue(header):
            assert header.queue_id is not None
            if header.queue_id >= config.read_queue_nums:
                remark = f"queue {header.queue_id}@{topic} is not exist!"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
            if header.offset is not None and header.offset >= 0:
                return {self._queues.named(topic, header.queue_id): header.offset}
        queue_ids = (
            [header.queue_id or 0]
            if _names_a_queue(header)
            else self._topics.queue_ids(config.write_queue_nums)
        )
        targets = {}
        for queue_id in queue_ids:
            consumed = store.tables.consumer_offsets.get(header.group, topic, queue_id)
            if consumed is None:
                remark = f"THe consumer group <{header.group}> not exist"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
            if header.timestamp == END:
                target = store.bounds(topic, queue_id)[1]
            else:
                target = max(0, store.offset_by_time(topic, queue_id, header.timestamp))
            if not header.is_force and target >= consumed:
                target = consumed
            targets[self._queues.named(topic, queue_id)] = target
        return targets

    async def status(self, header: GetConsumerStatus, frame: Frame, session: Session) -> Frame:
        """Answer the consumed offsets that the members of a group, or one of them, hold in
        memory."""
        group = self._clients.consumer_group(header.group)
        if group is None:
            remark = f"No Any Consumer online in the consumer group: [{header.group}]"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        asked = request(
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
            GetConsumerStatus(topic=header.topic, group=header.group).to_fields(),
        )
        table: dict[str, dict[MessageQueue, int]] = {}

        async def ask(client: Client[Session]) -> None:
            try:
                answer = await client.session.request(asked, STATUS_TIMEOUT_S)
                if answer.code == ResponseCode.SUCCESS and answer.body:
                    status = GetConsumerStatusBody.decode(answer.body)
                    table[client.client_id] = dict(status.message_queue_table)
            except (PeerTimedOut, SessionClosed, RemoteProtocolError) as error:
                LOGGER.warning("no status from %s: %s", client.client_id, error)

        async with trio.open_nursery() as nursery:
            for client in group.clients.values():
                if not header.client_addr or header.client_addr == client.client_id:
                    nursery.start_soon(ask, client)
        return frame.reply(body=GetConsumerStatusBody(consumer_table=table).encode())


def register(handlers: Handlers, broker: BrokerContext, *, queues: OwnQueues) -> None:
    """Register requests 307, 309, 222 and 223."""
    relay = Relay(clients=broker.clients)

    async def stored(position: int) -> bytes | None:
        return broker.store.record_at(position)

    direct = DirectConsumption(broker_name=broker.config.broker_name, record_at=stored, relay=relay)
    member_offsets = MemberOffsets(
        clients=broker.clients,
        queues=queues,
        stages=broker.stages,
        store=broker.store,
        topics=broker.topics,
    )
    handlers.add(
        RequestCode.GET_CONSUMER_RUNNING_INFO, typed(GetConsumerRunningInfo, relay.running_info)
    )
    handlers.add(
        RequestCode.CONSUME_MESSAGE_DIRECTLY, typed(ConsumeMessageDirectly, direct.consume)
    )
    handlers.add(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, typed(ResetOffset, member_offsets.reset)
    )
    handlers.add(
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        typed(GetConsumerStatus, member_offsets.status),
    )


def _names_a_queue(header: ResetOffset) -> bool:
    return header.queue_id is not None and header.queue_id >= 0


def _as_list(targets: dict[MessageQueue, int]) -> bytes:
    """Write the targets in the form that clients in C++ read."""
    return ResetOffsetListBody(
        tuple(
            MessageQueueOffset(queue.topic, queue.broker_name, queue.queue_id, offset)
            for queue, offset in targets.items()
        )
    ).encode()
