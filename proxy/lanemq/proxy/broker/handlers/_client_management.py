"""Clients' requests about themselves (34, 35, 46), and about the members of a group (38).

Source: RocketMQ 4.9.8, ClientManageProcessor, ConsumerManageProcessor,
DefaultConsumerIdsChangeListener, ClientHousekeepingService.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final, final

import trio
from attrs import define, field

from lanemq.wire import (
    TIMERS_FIELD,
    Refused,
    RequestCode,
    ResponseCode,
    TopicSysFlag,
    retry_topic,
)
from lanemq.wire.bodies import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import GetConsumerListByGroup, UnregisterClient
from lanemq.wire.logical import READER_FIELD
from lanemq.wire.sql92 import SqlInvalid

from ...acl import Rights, Sender, consumes_as, produces_as
from ...net._dispatch import Handlers, typed
from ...net._session import Session
from ...net._turns import PARTS_OF_A_TURN, for_turns, in_turns, step_by_step
from ...sessions.state._clients import ClientRegistry
from ...sessions.state._consumer_filters import (
    Compile,
    HeartbeatCompiler,
    compile_filter,
    is_tag_type,
)
from ...sessions.state._locks import QueueLocks
from ...sessions.state._members import can_ask, heartbeat_bytes
from ...sessions.values._rights import RightsOf
from ..context._context import BrokerContext
from ..settings._config import BrokerConfig
from ..state._filter import require_supported
from ..state._groups import Groups
from ..state._topics import Topics
from ._heartbeat_limits import check_names, check_numbers
from ._member_notes import MemberNotes

SCAN_S: Final = 10.0
"""Seconds between two looks for clients and locks that nobody renewed."""

_REGISTERED: Final = "clients"


@final
@define(eq=False, kw_only=True, repr=False)
class Heartbeats:
    """The handlers of heartbeats, over the client registry of one broker."""

    notes: MemberNotes
    _clients: ClientRegistry[Session]
    _config: BrokerConfig
    _groups: Groups
    _has_timers: bool
    _locks: QueueLocks
    _now_s: Callable[[], float]
    _rights: RightsOf
    _rights_of: Callable[[Sender, str], Rights]
    _sender: Callable[[Frame, Session], Sender]
    _topics: Topics
    _refused: OrderedDict[Session, None] = field(init=False, factory=OrderedDict)
    """Connections whose last heartbeat was not let in, and that nobody has looked at since."""

    def heartbeat(self, frame: Frame, session: Session) -> Frame | Awaitable[Frame]:
        """Register the client, and answer only then: it may ask for its group at once.

        Many groups are made in turns, and then registered together.
        """
        data = HeartbeatData.decode(frame.body)
        check_names(data)
        if not session.account.admits(heartbeat_bytes(data)):
            remark = "[OVERLOAD]the groups of this connection are as much as the broker can keep"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        check_numbers(data, self._clients.groups_with(session, data))
        sender = self._check_producers(data, frame, session)
        compiled = self._compile(data)
        if len(data.consumer_data_set) <= PARTS_OF_A_TURN:
            self._make(data.consumer_data_set)
            return self._registered(data, frame, session, sender, compiled)
        return self._register_later(data, frame, session, sender, compiled)

    async def _register_later(
        self, data: HeartbeatData, frame: Frame, session: Session, sender: Sender, compiled: Compile
    ) -> Frame:
        for some in for_turns(data.consumer_data_set):
            self._make(some)
            await trio.lowlevel.checkpoint()
        # Other heartbeats of the connection may have been registered meanwhile.
        check_numbers(data, self._clients.groups_with(session, data))
        return self._registered(data, frame, session, sender, compiled)

    def _make(self, consumers: Iterable[ConsumerData]) -> None:
        """Make groups, and their retry topics, that are not there yet."""
        for consumer in consumers:
            config = self._groups.find(consumer.group_name)
            if config is not None:
                # A group with too long a name for one can consume, but give nothing back.
                with suppress(Refused):
                    self._topics.ensure(
                        retry_topic(consumer.group_name),
                        queues=config.retry_queue_nums,
                        may_be_lost=True,
                        sys_flag=TopicSysFlag.UNIT_SUB if consumer.unit_mode else 0,
                    )

    def _registered(
        self, data: HeartbeatData, frame: Frame, session: Session, sender: Sender, compiled: Compile
    ) -> Frame:
        """Register the client. Raises ``Refused`` where its id is another account's: its consumers
        are registered then, and its producers are not."""
        is_claimed = self._is_claimed(data, frame, session, sender)
        if is_claimed:
            data = replace(data, producer_data_set=())
        if not session.closed:
            if _REGISTERED not in session.attributes:
                session.attributes[_REGISTERED] = True
                session.on_close.append(self.closed)
            changed = self._clients.heartbeat(
                session,
                data,
                language=frame.language,
                version=frame.version,
                now_s=self._now_s(),
                knows_indices=frame.fields.get(READER_FIELD) == "true",
                sender=sender,
                compiled=compiled,
            )
            self.notify(changed)
        if is_claimed:
            remark = (
                f"the client id {data.client_id} is in use by a client of another account: give "
                "this client another instance name"
            )
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        asks = frame.fields.get(TIMERS_FIELD) == "true"
        return frame.reply(0, {TIMERS_FIELD: "true"} if asks and self._has_timers else {})

    def _check_producers(self, data: HeartbeatData, frame: Frame, session: Session) -> Sender:
        """Check that the sender may be a member of the producer groups; returns it.

        Members are shown the messages of the group's transactions. Raises ``Refused``.
        """
        rights, sender = self._rights(frame, session), self._sender(frame, session)
        rights.require(*(produces_as(one.group_name) for one in data.producer_data_set))
        return sender

    def _is_claimed(
        self, data: HeartbeatData, frame: Frame, session: Session, sender: Sender
    ) -> bool:
        """Return whether a heartbeat has producers that ask by an id which is another account's:
        a client id is where replies go."""
        return (
            any(can_ask(one.group_name) for one in data.producer_data_set)
            and self._rights(frame, session).are_limited
            and self._clients.is_claimed(data.client_id, session, sender.name)
        )

    def _compile(self, data: HeartbeatData) -> Compile:
        """Compile what is new before any of it is kept. Raises ``Refused`` for too much."""
        compiler = HeartbeatCompiler()
        for expression_type, expression in self._clients.new_expressions(data):
            with suppress(SqlInvalid):
                compiler.compile(expression_type, expression)
        return compiler.compile

    def unregister(self, header: UnregisterClient, frame: Frame, session: Session) -> Frame:
        """Remove the connection from the groups it names, and notify the other members at once."""
        self.notify(
            self._clients.unregister(
                session,
                producer_group=header.producer_group,
                consumer_group=header.consumer_group,
            )
        )
        return frame.reply()

    def refused(self, session: Session) -> None:
        """Note that a heartbeat was not let in: its connection may have lost the rights to groups
        that it is in."""
        if _REGISTERED in session.attributes and not session.closed:
            self._refused[session] = None

    async def _without_rights(self) -> None:
        """Remove the members whose heartbeats are not let in because their rights are gone."""
        while self._refused:
            session, _ = self._refused.popitem(last=False)
            async for group in in_turns(self._clients.consumer_groups_of(session)):
                member = group.clients.get(session)
                if member is None:
                    continue
                rights = self._rights_of(member.sender, session.peer.host)
                if not rights.may(*consumes_as(group.name, group.subscriptions)):
                    changed = self._clients.unregister(
                        session, producer_group=None, consumer_group=group.name
                    )
                    self.notify(changed)

    def closed(self, session: Session) -> None:
        """Remove the clients of a connection that has ended."""
        self._refused.pop(session, None)
        self.notify(self._clients.closed(session))

    def notify(self, groups: Iterable[str]) -> None:
        """Tell every member of the groups that membership or subscriptions changed."""
        if not self._config.notify_consumer_ids_changed_enable:
            return
        self.notes.tell(group for group in groups if self._wants_notes(group))

    def _wants_notes(self, group: str) -> bool:
        config = self._groups.get(group)
        return config is None or config.notify_consumer_ids_changed_enable

    def consumer_list(
        self, header: GetConsumerListByGroup, frame: Frame, session: Session
    ) -> Frame:
        """Answer the ids of a group's members; none is an error, as clients expect."""
        group = self._clients.consumer_group(header.consumer_group)
        if group is None:
            remark = f"no consumer for this group, {header.consumer_group}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return frame.reply(body=group.listed())

    def check_client(self, frame: Frame, session: Session) -> Frame:
        """Answer whether the broker supports the subscriptions of a consumer that is about to
        start."""
        subscription = CheckClientRequestBody.decode(frame.body).subscription_data
        if subscription is not None and not is_tag_type(subscription.expression_type):
            require_supported(
                subscription.expression_type,
                property_filter=self._config.enable_property_filter,
            )
            try:
                compile_filter(subscription.expression_type, subscription.sub_string)
            except SqlInvalid as error:
                raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error
        return frame.reply()

    async def expire(self) -> None:
        """Drop clients and locks that were not renewed, and clients whose rights are gone, until
        cancelled."""
        while True:
            await trio.sleep(SCAN_S)
            departed = await step_by_step(self._clients.expire(self._now_s()))
            for session in departed.sessions:
                session.close()
            self.notify(departed.changed_groups)
            await self._without_rights()
            await step_by_step(self._locks.expire(self._now_s()))


def register(handlers: Handlers, broker: BrokerContext) -> Heartbeats:
    """Register heartbeats, unregistration, configuration checks, and the lists of a group's
    members."""
    heartbeats = Heartbeats(
        clients=broker.clients,
        config=broker.config,
        groups=broker.groups,
        has_timers=broker.store.timers is not None,
        locks=broker.locks,
        notes=MemberNotes(broker.clients.sessions_of),
        now_s=broker.now_s,
        rights=broker.rights,
        rights_of=broker.rights_of,
        sender=broker.sender,
        topics=broker.topics,
    )
    broker.heartbeat_refused = heartbeats.refused
    handlers.add(RequestCode.HEART_BEAT, heartbeats.heartbeat)
    handlers.add(RequestCode.UNREGISTER_CLIENT, typed(UnregisterClient, heartbeats.unregister))
    handlers.add(
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        typed(GetConsumerListByGroup, heartbeats.consumer_list),
    )
    handlers.add(RequestCode.CHECK_CLIENT_CONFIG, heartbeats.check_client)
    return heartbeats
