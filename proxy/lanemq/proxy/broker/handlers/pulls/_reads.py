"""The common part of pulls: permission to read a message queue, filters, and limits.

Source: RocketMQ 4.9.8, PullMessageProcessor.
"""

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Final, final

from attrs import define
from msgspec.structs import replace

from lanemq.storage import Got, ReadLimits, Store
from lanemq.wire import HostAddress, Permission, PullSysFlag, Refused, ResponseCode, retry_topic
from lanemq.wire.bodies import SubscriptionGroupConfig
from lanemq.wire.logical import Segment, SegmentState
from lanemq.wire.message import record_properties

from ....logical.rules._mapping import TopicMapping
from ....logical.rules._reading import gone_on_at
from ....net._loop_watch import loop_watch
from ....net._session import Session
from ....sessions.state._clients import ClientRegistry
from ....sessions.state._consumer_filters import SUB_ALL, is_tag_type
from ....sessions.state._pull_filters import PullFilters, Wanted
from ....sessions.values._pull_request import PullRequest
from ...logical.traffic._pull import LogicalReads
from ...settings._config import BrokerConfig
from ...state._filter import ALL, wanted_here, wanted_of_group, wanted_retries
from ...state._groups import Groups
from ...state._stats import BrokerStatistics
from ...state._topics import Topics
from ._old_readers import for_reader_all

BROADCASTING: Final = "BROADCASTING"

TRANSFER_COUNT_MAX: Final = 4096
TRANSFER_BYTES_MAX: Final = 4 << 20
"""The most that the settings of transfers have an effect up to: one answer is made in one turn, and
every client takes so long a frame."""

JUDGING_S = 0.03
"""Seconds that one turn of the loop judges messages by their properties. A pull that needs more
gets what was found until then, or the offset to continue at: each looks at one message at least."""


@final
@define(eq=False, kw_only=True, repr=False)
class Reads:
    """The reads of pulls at any port."""

    _address: HostAddress
    _clients: ClientRegistry[Session]
    _config: BrokerConfig
    _groups: Groups
    logical: LogicalReads
    _mappings: Mapping[str, TopicMapping]
    _statistics: BrokerStatistics
    _store: Store
    _topics: Topics

    def allowed(
        self, group_name: str, topic: str, queue_id: int, session: Session
    ) -> SubscriptionGroupConfig:
        """Return the settings of the group; raises ``Refused`` where it may not read the queue."""
        if not self._config.broker_permission & Permission.READ:
            remark = f"the broker[{self._address.host}] pulling message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        group = self._groups.require(group_name)
        if not group.consume_enable:
            remark = f"subscription group no permission, {group_name}"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        config = self._topics.get(topic)
        if config is None:
            remark = f"topic[{topic}] not exist, apply first please!"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        if not config.perm & Permission.READ:
            remark = f"the topic[{topic}] pulling message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        if not 0 <= queue_id < config.read_queue_nums:
            remark = (
                f"queueId[{queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{config.read_queue_nums}] consumer:[{session.peer}]"
            )
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return group

    def wanted(
        self, asked: PullRequest, group: SubscriptionGroupConfig, session: Session
    ) -> Wanted:
        """Return the filter, from the request or else from the group's heartbeats."""
        topic, config = asked.topic, self._config
        if (
            asked.subscription == SUB_ALL  # the most common one, and the pull brings it
            and not config.filter_support_retry
            and is_tag_type(asked.expression_type)
        ):
            return ALL
        property_filter = config.enable_property_filter
        members = self._clients.consumer_group(group.group_name)
        if asked.sys_flag & PullSysFlag.SUBSCRIPTION:
            wanted = wanted_here(
                asked.subscription,
                asked.expression_type,
                PullFilters.of(session),
                property_filter=property_filter,
            )
        else:
            if members is None:
                remark = "the consumer's group info not exist"
                raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
            if members.message_model == BROADCASTING and not group.consume_broadcast_enable:
                remark = f"the consumer group[{group.group_name}] can not consume by broadcast way"
                raise Refused(ResponseCode.NO_PERMISSION, remark)
            wanted = wanted_of_group(
                members, topic, asked.sub_version, property_filter=property_filter
            )
        if (
            config.filter_support_retry
            and members is not None
            and topic == retry_topic(group.group_name)
        ):
            return wanted_retries(wanted, members.filters)
        return wanted

    def get(self, topic: str, queue_id: int, offset: int, max_count: int, wanted: Wanted) -> Got:
        """Read messages from the store within the limits of one pull."""
        judge = wanted.matches
        store, config = self._store, self._config
        limits = ReadLimits(
            min(config.max_transfer_count_on_message_in_memory, TRANSFER_COUNT_MAX),
            min(config.max_transfer_bytes_on_message_in_memory, TRANSFER_BYTES_MAX),
            min(config.max_transfer_count_on_message_in_disk, TRANSFER_COUNT_MAX),
            min(config.max_transfer_bytes_on_message_in_disk, TRANSFER_BYTES_MAX),
        )
        matches: Callable[[bytes], bool | None] | None = None
        if judge is not None:
            until_s = loop_watch().until_s(JUDGING_S)

            def judged(record: bytes) -> bool | None:
                verdict = judge(record_properties(record))
                return None if not verdict and perf_counter() > until_s else verdict

            matches = judged

        return store.get(
            topic,
            queue_id,
            offset,
            max_count=max_count,
            limits=limits,
            tag_codes=wanted.tag_codes,
            matches=matches,
        )

    def of_open_segment(
        self, asked: PullRequest, session: Session, segment: Segment, queue_offset: int
    ) -> Got | None:
        """Read messages for a pull of a logical queue from the segment it ends with here.

        Nothing in it is translated. None where there are no messages, or where more has to be
        looked at (a segment that is not open, a group with stages): the broker's handler does
        that. Raises as the handler does.
        """
        topic, queue_id = segment.topic, segment.queue_id
        mapping = self._mappings.get(topic)
        own = mapping.latest(queue_id) if mapping is not None else None
        if own is None or own.state is not SegmentState.NORMAL or own.key != segment.key:
            return None
        if mapping is None or gone_on_at(mapping, own) is not None:
            return None
        if queue_offset >= self._store.bounds(topic, queue_id)[1]:
            return None  # caught up: the pull is going to be parked
        group_name = asked.group
        group = self.allowed(group_name, topic, queue_id, session)
        if group.extra:
            return None
        wanted = self.wanted(asked, group, session)
        self.logical.note(topic, group_name, aware=True)
        got = self.get(topic, queue_id, queue_offset, asked.max_count, wanted)
        if not got.records:
            return None
        records = for_reader_all(got.records, asked.version)
        self._statistics.pulled(topic, group_name, len(records), sum(map(len, records)))
        return got if records is got.records else replace(got, records=records)
