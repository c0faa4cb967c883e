"""Operators' requests about groups: their members, and all offsets.

Source: RocketMQ 4.9.8, AdminBrokerProcessor; 5.3.3 for 343, 345 and 352.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, final

from attrs import define

from lanemq.local import get_logger
from lanemq.storage import ConfigTables
from lanemq.wire import Refused, RequestCode, ResponseCode, fastjson
from lanemq.wire.bodies import (
    ClientConnection,
    ConsumerConnection,
    DelayOffsetTable,
    ProducerConnection,
    ProducerInfo,
    TopicList,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    CloneGroupOffset,
    DeleteSubscriptionGroup,
    GetConsumerConnectionList,
    GetProducerConnectionList,
    GetSubscriptionGroupConfig,
    QuerySubscriptionByConsumer,
    QueryTopicsByConsumer,
)

from ...acl import changes_progress, reads_group
from ...net._dispatch import Handlers, typed
from ...net._long_answer import LongAnswer
from ...net._session import Session
from ...net._turns import for_turns, reply_made
from ...sessions.state._clients import ClientRegistry
from ...sessions.state._members import Client
from ...sessions.values._rights import RightsOf
from ..context._context import BrokerContext
from ..state._topics import Topics
from ..state._unknown_progress import UnknownProgress
from ._group_settings import GroupSettings

LOGGER = get_logger("lanemq.proxy.admin", by_peers=True)

_POINTER_BYTES: Final = 8
_CLONE_LOOKS: Final = 4
"""Entries of a table that take as long to look at as one offset to be copied."""


@final
@define(eq=False, kw_only=True, repr=False)
class Members:
    """The clients of groups, and what they subscribe to."""

    _clients: ClientRegistry[Session]
    _now_ms: Callable[[], int]
    _now_s: Callable[[], float]

    def consumers(
        self, header: GetConsumerConnectionList, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        """Answer the members of a consumer group and what they subscribe to."""
        group = self._clients.consumer_group(header.consumer_group)
        if group is None:
            remark = f"the consumer group[{header.consumer_group}] not online"
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        clients = tuple(group.clients.values())
        said = ConsumerConnection(
            subscription_table=dict(group.subscriptions),
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )

        def make() -> bytes:
            return replace(said, connection_set=tuple(map(connection, clients))).encode()

        subscriptions = said.subscription_table.values()
        tags = sum(len(one.tags_set) + len(one.code_set) for one in subscriptions)
        return reply_made(frame, session, make, len(clients) + len(subscriptions) + tags)

    def producers(
        self, header: GetProducerConnectionList, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        """Answer the members of a producer group."""
        clients = tuple(self._clients.producers(header.producer_group))
        if not clients:
            remark = f"the producer group[{header.producer_group}] not exist"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)

        def make() -> bytes:
            return ProducerConnection(tuple(map(connection, clients))).encode()

        return reply_made(frame, session, make, len(clients))

    async def all_producers(self, frame: Frame, session: Session) -> Frame:
        """Answer every producer of every group, with the time it was last heard from."""
        now_s, now_ms = self._now_s(), self._now_ms()

        def info(client: Client[Session]) -> ProducerInfo:
            return ProducerInfo(
                client_id=client.client_id,
                remote_ip=f"/{client.session.peer}",  # as Java writes an address
                language=client.language,
                version=client.version,
                last_update_timestamp=now_ms - int((now_s - client.seen_s) * 1000),
            )

        async with LongAnswer.begin(session, frame.code) as answer:
            groups = []
            for name in tuple(self._clients.producer_groups()):
                clients = tuple(self._clients.producers(name))
                if not clients:
                    continue  # all have left meanwhile
                infos = [await answer.items([*map(info, some)]) for some in for_turns(clients)]
                group = {name: await answer.array(infos)}
                answer.charge(-sum(map(len, infos)))  # the text of the group has them again
                groups.append(await answer.members(group))
            return frame.reply(body=await answer.body({"data": await answer.object(groups)}))

    def subscription(
        self, header: QuerySubscriptionByConsumer, frame: Frame, session: Session
    ) -> Frame:
        """Answer the subscription of a connected group to one topic."""
        group = self._clients.consumer_group(header.group)
        found = group.subscriptions.get(header.topic or "") if group is not None else None
        value = {"group": header.group, "subscriptionData": found, "topic": header.topic}
        return frame.reply(body=fastjson.dumps(value))


def connection(client: Client[Session]) -> ClientConnection:
    """Return the description of a member."""
    return ClientConnection(
        client.client_id, str(client.session.peer), client.language, client.version
    )


@final
@define(eq=False, kw_only=True, repr=False)
class GroupProgress:
    """The offsets of groups in topics."""

    _clients: ClientRegistry[Session]
    _rights: RightsOf
    _tables: ConfigTables
    _topics: Topics
    _unknown: UnknownProgress

    def topics_of(self, group: str) -> set[str]:
        found = self._clients.consumer_group(group)
        live = found.subscriptions if found is not None else ()
        return {*self._tables.consumer_offsets.topics_of(group), *live}

    def topics(
        self, header: QueryTopicsByConsumer, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        """Answer the topics that a group subscribes to or has offsets in."""
        topics = self.topics_of(header.group)

        def make() -> bytes:
            return TopicList(tuple(sorted(topics))).encode()

        return reply_made(frame, session, make, len(topics))

    async def clone(self, header: CloneGroupOffset, frame: Frame, session: Session) -> Frame:
        """Copy the offsets of one group to another; without a topic, in all topics of it.

        That takes the right to both groups and to each of the topics. Raises ``Refused``.
        (4.9.8 copies nothing then.) Unless ``offline``, topics that the connected source no longer
        subscribes to are left out. Also raises ``Refused`` as ``UnknownProgress.check``.
        """
        rights = self._rights(frame, session)
        rights.require(reads_group(header.src_group))
        async with LongAnswer.begin(session, frame.code) as work:
            topics = (header.topic,) if header.topic else tuple(self.topics_of(header.src_group))
            work.charge(len(topics) * _POINTER_BYTES)
            for topic in topics:
                rights.require(*changes_progress(header.dest_group, topic))
                await work.look(_CLONE_LOOKS)
            source = self._clients.consumer_group(header.src_group)
            if not header.offline and source is not None:
                topics = tuple(topic for topic in topics if topic in source.subscriptions)
            unknown, target = self._unknown, header.dest_group

            def check(topic: str, queue_id: int, _offset: int) -> None:
                unknown.check(target, topic, queue_id)

            def put(topic: str, queue_id: int, offset: int) -> None:
                if self._tables.consumer_offsets.get(target, topic, queue_id) is None:
                    unknown.room.require()  # others may have filled it
                unknown.room.put(target, topic, queue_id, offset)

            await self._each(header.src_group, topics, check, work)
            await self._each(header.src_group, topics, put, work)
        return frame.reply()

    async def _each(
        self,
        group: str,
        topics: Iterable[str],
        call: Callable[[str, int, int], None],
        work: LongAnswer,
    ) -> None:
        """Call with topic, queue and offset of each that a group has, of topics that exist, in
        turns."""
        offsets = self._tables.consumer_offsets
        for topic in topics:
            await work.look(1)
            for some in for_turns(tuple(offsets.queues(group, topic).items())):
                await work.look(_CLONE_LOOKS * len(some))
                if self._topics.get(topic) is None:
                    break
                for queue_id, offset in some:
                    call(topic, queue_id, offset)

    async def all_offsets(self, frame: Frame, session: Session) -> Frame:
        """Answer the offsets of all groups; those of one group in one topic are read together."""
        offsets = self._tables.consumer_offsets
        async with LongAnswer.begin(session, frame.code) as answer:
            for group, topic in self._consumed():
                names_bytes = len(group) + len(topic)
                await answer.expect(names_bytes + len(offsets.queues(group, topic)) * len("0:0,"))
            members = [
                await answer.members({f"{topic}@{group}": queues})
                for group, topic in self._consumed()
                if (queues := dict(offsets.queues(group, topic)))
            ]
            return frame.reply(body=fastjson.dumps({"offsetTable": await answer.object(members)}))

    def _consumed(self) -> Iterator[tuple[str, str]]:
        """Iterate over groups and topics, whatever changes meanwhile."""
        offsets = self._tables.consumer_offsets
        for group in offsets.groups:
            for topic in offsets.topics_of(group):
                yield group, topic

    def delay_offsets(self, frame: Frame, session: Session) -> Frame:
        return frame.reply(body=DelayOffsetTable(self._tables.delay_offsets.as_table()).encode())


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register the requests about groups' settings, connected members, and tables of offsets."""
    group_settings = GroupSettings(
        commit_all=broker.commit_all,
        groups=broker.groups,
        stages=broker.stages,
        statistics=broker.statistics,
        tables=broker.store.tables,
        topics=broker.topics,
    )
    members = Members(
        clients=broker.clients,
        now_ms=broker.now_ms,
        now_s=broker.now_s,
    )
    group_progress = GroupProgress(
        clients=broker.clients,
        rights=broker.rights,
        tables=broker.store.tables,
        topics=broker.topics,
        unknown=broker.unknown_progress,
    )
    handlers.add(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group_settings.put)
    handlers.add(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, group_settings.put_all)
    handlers.add(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, group_settings.configs)
    handlers.add(
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        typed(GetSubscriptionGroupConfig, group_settings.config_of),
    )
    handlers.add(
        RequestCode.DELETE_SUBSCRIPTIONGROUP, typed(DeleteSubscriptionGroup, group_settings.delete)
    )
    handlers.add(
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        typed(GetConsumerConnectionList, members.consumers),
    )
    handlers.add(
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        typed(GetProducerConnectionList, members.producers),
    )
    handlers.add(RequestCode.GET_ALL_PRODUCER_INFO, members.all_producers)
    handlers.add(
        RequestCode.QUERY_TOPICS_BY_CONSUMER, typed(QueryTopicsByConsumer, group_progress.topics)
    )
    handlers.add(
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        typed(QuerySubscriptionByConsumer, members.subscription),
    )
    handlers.add(RequestCode.CLONE_GROUP_OFFSET, typed(CloneGroupOffset, group_progress.clone))
    handlers.add(RequestCode.GET_ALL_CONSUMER_OFFSET, group_progress.all_offsets)
    handlers.add(RequestCode.GET_ALL_DELAY_OFFSET, group_progress.delay_offsets)
