"""Operators' questions to a broker that one of its clients answers.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.callConsumer, Broker2Client; 5.3.3 for the reset
of one queue.
"""

from collections.abc import Callable, Sequence
from typing import Final, final

import trio
from attrs import define

from lanemq.local import get_logger
from lanemq.storage import Store
from lanemq.wire import (
    PROOF_FIELDS,
    Refused,
    RequestCode,
    ResponseCode,
    Version,
    version_name,
)
from lanemq.wire.bodies import (
    MessageQueue,
    MessageQueueOffset,
    ResetOffsetListBody,
)
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import (
    GetConsumerRunningInfo,
    ResetOffset,
)

from ...acl import Rights, Sender, consumes_as
from ...net._answers import passed_on
from ...net._dispatch import Handlers, typed
from ...net._long_answer import LongAnswer
from ...net._session import PeerTimedOut, Session, SessionClosed
from ...net._turns import for_turns
from ...sessions.state._clients import ClientRegistry
from ...sessions.state._members import Client
from ...sessions.state._stages import GroupStages
from ..context._context import BrokerContext
from ..settings._config import BrokerConfig
from ..state._groups import Groups
from ..state._topics import Topics
from ..state._unknown_progress import UnknownProgress
from ._own_queues import OwnQueues

LOGGER = get_logger("lanemq.proxy.admin", by_peers=True)

RELAY_TIMEOUT_S: Final = 10.0
END: Final = -1


@final
@define(eq=False, kw_only=True, repr=False)
class Relay:
    """The questions of operators to clients."""

    _clients: ClientRegistry[Session]
    _rights_of: Callable[[Sender, str], Rights]

    def find(
        self,
        group: str,
        client_id: str | None,
        may_have: Callable[[Rights], bool] = lambda rights: True,
    ) -> Client[Session]:
        """Return the member of a group that has that id, has the right to the group now, and whose
        rights ``may_have`` finds sufficient. Raises ``Refused``."""

        def is_fit(client: Client[Session]) -> bool:
            rights = self._rights_of(client.sender, client.session.peer.host)
            return rights.may(*consumes_as(group, ())) and may_have(rights)

        found = self._clients.consumer_group(group)
        client = found.find(client_id or "", is_fit) if found is not None else None
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
        # The operator's proof means nothing to the client, which must not see it either.
        fields = {name: value for name, value in fields.items() if name not in PROOF_FIELDS}
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
class MemberOffsets:
    """The offsets that the members of a group hold, set."""

    _clients: ClientRegistry[Session]
    _config: BrokerConfig
    _groups: Groups
    _queues: OwnQueues
    _stages: GroupStages
    _store: Store
    _topics: Topics
    _unknown: UnknownProgress

    async def reset(self, header: ResetOffset, frame: Frame, session: Session) -> Frame:
        """Tell the members of a group the offsets to continue at. Their commits then move the
        offsets.

        Without any member connected the offsets themselves are moved, as 5.3.3 does it, unless
        ``useServerSideResetOffset`` is false and a time is named. 5.x tools may name one queue and
        its offset.
        """
        is_own_move = _names_a_queue(header) or self._config.use_server_side_reset_offset
        async with LongAnswer.begin(session, frame.code) as answer:
            has_members = self._clients.consumer_group(header.group) is not None
            needs_offsets = has_members or not is_own_move
            targets: dict[MessageQueue, int] = {}
            members = []
            for queue_ids in for_turns(self._queue_ids(header)):
                found = {
                    self._queues.named(header.topic, queue_id): self._target(
                        header, queue_id, needs_offsets=needs_offsets
                    )
                    for queue_id in queue_ids
                }
                targets |= found
                members.append(await answer.members(found))
            table = await answer.object(members)
            body = await answer.body({"offsetTable": table})
            as_list = _as_list(targets) if frame.language == "CPP" else body
        LOGGER.info(
            "reset of %s in %s by %s: %d queues",
            header.group,
            header.topic,
            session.peer,
            len(targets),
        )
        group = self._clients.consumer_group(header.group)
        if group is not None or is_own_move:
            self._move(header.group, targets, is_kept=group is None)
        if group is None:
            if is_own_move:
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
        code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        note = request(code, told.to_fields(), body=as_list)
        for some in for_turns(list(group.clients)):
            for member in some:
                member.oneway(note)
            await trio.lowlevel.checkpoint()
        return frame.reply(body=body)

    def _move(self, group: str, targets: dict[MessageQueue, int], *, is_kept: bool) -> None:
        """Let the stages of a group begin again at its targets, which are kept if ``is_kept``.

        Raises ``Refused`` as ``UnknownProgress.check`` then, before anything is done.
        """
        offsets = self._store.tables.consumer_offsets
        for queue in targets if is_kept else ():
            self._unknown.check(group, queue.topic, queue.queue_id)
        for queue, offset in targets.items():
            key = group, queue.topic, queue.queue_id
            if offsets.get(*key) != offset:
                self._stages.restart(*key, offset)
        if is_kept:
            for queue, offset in targets.items():
                self._unknown.room.put(group, queue.topic, queue.queue_id, offset)

    def _queue_ids(self, header: ResetOffset) -> Sequence[int]:
        """Return the queues to reset. Raises ``Refused``."""
        topic = header.topic
        config = self._topics.get(topic)
        if config is None:
            remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        if not _names_a_queue(header):
            return self._topics.queue_ids(config.write_queue_nums)
        assert header.queue_id is not None
        if header.queue_id >= config.read_queue_nums:
            remark = f"queue {header.queue_id}@{topic} is not exist!"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        if header.offset is not None and header.offset >= 0:
            least, end = self._store.bounds(topic, header.queue_id)
            if not least <= header.offset <= end:
                remark = f"Target offset {header.offset} not in consume queue range [{least}-{end}]"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return [header.queue_id]

    def _target(self, header: ResetOffset, queue_id: int, *, needs_offsets: bool) -> int:
        """Compute the target offset of a queue; none goes forward without force. Where the group
        ``needs_offsets``, it must have one in each queue."""
        topic, store = header.topic, self._store
        if _names_a_queue(header) and header.offset is not None and header.offset >= 0:
            return header.offset
        consumed = store.tables.consumer_offsets.get(header.group, topic, queue_id)
        if consumed is None and (needs_offsets or self._groups.get(header.group) is None):
            remark = f"THe consumer group <{header.group}> not exist"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        if header.timestamp == END:
            target = store.bounds(topic, queue_id)[1]
        else:
            target = max(0, store.offset_by_time(topic, queue_id, header.timestamp))
        if consumed is not None and not header.is_force:
            return min(target, consumed)
        return target


def register(handlers: Handlers, broker: BrokerContext, *, queues: OwnQueues) -> None:
    """Register requests 307 and 222."""
    relay = Relay(clients=broker.clients, rights_of=broker.rights_of)
    member_offsets = MemberOffsets(
        clients=broker.clients,
        config=broker.config,
        groups=broker.groups,
        queues=queues,
        stages=broker.stages,
        store=broker.store,
        topics=broker.topics,
        unknown=broker.unknown_progress,
    )
    handlers.add(
        RequestCode.GET_CONSUMER_RUNNING_INFO, typed(GetConsumerRunningInfo, relay.running_info)
    )
    handlers.add(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, typed(ResetOffset, member_offsets.reset)
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
