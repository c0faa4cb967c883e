"""What clients tell the broker of themselves: 34, 35, 46; what they ask of others: 38.

Source: RocketMQ 4.9.8, ClientManageProcessor, ConsumerManageProcessor,
DefaultConsumerIdsChangeListener, ClientHousekeepingService.
"""

from collections.abc import Iterable
from typing import Final, final

import trio

from lanemq.wire import (
    CheckClientRequestBody,
    ConsumerIdList,
    Frame,
    HeartbeatData,
    Refused,
    RequestCode,
    ResponseCode,
    TopicSysFlag,
    request,
    retry_topic,
)
from lanemq.wire.headers import GetConsumerListByGroup, UnregisterClient
from lanemq.wire.sql92 import SqlInvalid

from .._dispatch import Handlers, typed
from .._session import Session
from ._consumer_filters import compile_filter, is_tag_type
from ._context import BrokerContext
from ._filter import require_supported

SCAN_S: Final = 10.0
"""Time between two looks for clients and locks that nobody renewed."""

_REGISTERED: Final = "clients"


@final
class Heartbeats:
    """The handlers around the client registry of one broker."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker

    def heartbeat(self, frame: Frame, session: Session) -> Frame:
        """Register first, answer second: the client may ask for its group at once."""
        broker = self._broker
        data = HeartbeatData.decode(frame.body)
        for consumer in data.consumer_data_set:
            config = broker.groups.find(consumer.group_name)
            if config is not None:
                broker.topics.ensure(
                    retry_topic(consumer.group_name),
                    queues=config.retry_queue_nums,
                    sys_flag=TopicSysFlag.UNIT_SUB if consumer.unit_mode else 0,
                )
        if not session.closed:
            if _REGISTERED not in session.attributes:
                session.attributes[_REGISTERED] = True
                session.on_close.append(self.closed)
            changed = broker.clients.heartbeat(
                session,
                data,
                language=frame.language,
                version=frame.version,
                now_s=broker.now_s(),
            )
            self.notify(changed)
        return frame.reply()

    def unregister(self, header: UnregisterClient, frame: Frame, session: Session) -> Frame:
        """Take the connection out of the groups it names; the others hear of it at once."""
        self.notify(
            self._broker.clients.unregister(
                session,
                producer_group=header.producer_group,
                consumer_group=header.consumer_group,
            )
        )
        return frame.reply()

    def closed(self, session: Session) -> None:
        """A connection has ended: its clients are gone."""
        self.notify(self._broker.clients.closed(session))

    def notify(self, groups: Iterable[str]) -> None:
        """Tell every member of the groups that membership or subscriptions changed."""
        broker = self._broker
        if not broker.config.notify_consumer_ids_changed_enable:
            return
        for group in groups:
            config = broker.groups.get(group)
            if config is not None and not config.notify_consumer_ids_changed_enable:
                continue
            note = request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})
            for session in broker.clients.sessions_of(group):
                session.oneway(note)

    def consumer_list(
        self, header: GetConsumerListByGroup, frame: Frame, session: Session
    ) -> Frame:
        """Answer the ids of a group's members; without any it is an error, as clients expect."""
        group = self._broker.clients.consumer_group(header.consumer_group)
        if group is None:
            remark = f"no consumer for this group, {header.consumer_group}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return frame.reply(body=ConsumerIdList(tuple(group.client_ids())).encode())

    def check_client(self, frame: Frame, session: Session) -> Frame:
        """Answer whether the broker can filter as a consumer that is about to start wants."""
        subscription = CheckClientRequestBody.decode(frame.body).subscription_data
        if subscription is not None and not is_tag_type(subscription.expression_type):
            require_supported(
                subscription.expression_type,
                property_filter=self._broker.config.enable_property_filter,
            )
            try:
                compile_filter(subscription.expression_type, subscription.sub_string)
            except SqlInvalid as error:
                raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error
        return frame.reply()

    async def expire(self) -> None:
        """Drop clients and locks that nobody renewed, for as long as the broker runs."""
        broker = self._broker
        while True:
            await trio.sleep(SCAN_S)
            departed = broker.clients.expire(broker.now_s())
            for session in departed.sessions:
                session.close()
            self.notify(departed.changed_groups)
            broker.locks.expire(broker.now_s())


def register(handlers: Handlers, broker: BrokerContext) -> Heartbeats:
    """Heartbeats, unregistration, configuration checks, and the lists of a group's members."""
    heartbeats = Heartbeats(broker)
    handlers.add(RequestCode.HEART_BEAT, heartbeats.heartbeat)
    handlers.add(RequestCode.UNREGISTER_CLIENT, typed(UnregisterClient, heartbeats.unregister))
    handlers.add(
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        typed(GetConsumerListByGroup, heartbeats.consumer_list),
    )
    handlers.add(RequestCode.CHECK_CLIENT_CONFIG, heartbeats.check_client)
    return heartbeats
