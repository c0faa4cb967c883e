"""Who may read a message queue, and what of it a pull gets.

Source: RocketMQ 4.9.8, PullMessageProcessor.
"""

from typing import TYPE_CHECKING, Final, final

from msgspec.structs import replace

from lanemq.storage import Got
from lanemq.wire import (
    Frame,
    Permission,
    PullSysFlag,
    Refused,
    ResponseCode,
    SubscriptionGroupConfig,
    record_properties,
    retry_topic,
)
from lanemq.wire.logical import Segment, SegmentState

from .._session import Session
from ._filter import Wanted, wanted_here, wanted_of_group, wanted_retries
from ._logical_pull import LogicalReads
from ._old_readers import for_reader_all

if TYPE_CHECKING:
    from ._context import BrokerContext

BROADCASTING: Final = "BROADCASTING"


@final
class Reads:
    """What pulls have in common, whichever port they come to."""

    def __init__(self, broker: "BrokerContext") -> None:
        self._broker = broker
        self._mappings = broker.logical.mappings
        self.logical = LogicalReads(broker.logical)

    def allowed(
        self, group_name: str, topic: str, queue_id: int, session: Session
    ) -> SubscriptionGroupConfig:
        """The settings of the group; raises ``Refused`` where it may not read the queue."""
        broker = self._broker
        if not broker.config.broker_permission & Permission.READ:
            remark = f"the broker[{broker.address.host}] pulling message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        group = broker.groups.require(group_name)
        if not group.consume_enable:
            remark = f"subscription group no permission, {group_name}"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        config = broker.topics.get(topic)
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
        self,
        fields: dict[str, str],
        group: SubscriptionGroupConfig,
        topic: str,
        sys_flag: int,
    ) -> Wanted:
        """What to give; from this request, or else from the group's heartbeats."""
        broker, property_filter = self._broker, self._broker.config.enable_property_filter
        members = broker.clients.consumer_group(group.group_name)
        if sys_flag & PullSysFlag.SUBSCRIPTION:
            wanted = wanted_here(
                fields.get("subscription"),
                fields.get("expressionType"),
                property_filter=property_filter,
            )
        else:
            if members is None:
                remark = "the consumer's group info not exist"
                raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
            if members.message_model == BROADCASTING and not group.consume_broadcast_enable:
                remark = f"the consumer group[{group.group_name}] can not consume by broadcast way"
                raise Refused(ResponseCode.NO_PERMISSION, remark)
            version_ms = int(fields.get("subVersion", "0"))
            wanted = wanted_of_group(members, topic, version_ms, property_filter=property_filter)
        if (
            broker.config.filter_support_retry
            and members is not None
            and topic == retry_topic(group.group_name)
        ):
            return wanted_retries(wanted, members.filters)
        return wanted

    def get(self, topic: str, queue_id: int, offset: int, max_count: int, wanted: Wanted) -> Got:
        """Messages as the store gives them, within the limits of one pull."""
        broker, judge = self._broker, wanted.matches
        store, config = broker.store, broker.config
        count_limit = config.max_transfer_count_on_message_in_memory
        max_bytes = config.max_transfer_bytes_on_message_in_memory
        if store.is_cold(store.min_position):  # most stores have nothing cold at all
            units = store.units(topic, queue_id, offset, 1)
            if units and store.is_cold(units[0].log_position):
                count_limit = config.max_transfer_count_on_message_in_disk
                max_bytes = config.max_transfer_bytes_on_message_in_disk
        return store.get(
            topic,
            queue_id,
            offset,
            max_count=min(max_count, count_limit),
            max_bytes=max_bytes,
            tag_codes=wanted.tag_codes,
            matches=judge and (lambda record: judge(record_properties(record))),
        )

    def of_open_segment(
        self,
        frame: Frame,
        session: Session,
        segment: Segment,
        queue_offset: int,
        max_count: int,
    ) -> Got | None:
        """Messages for a pull of a logical queue, read from the segment it ends with here.

        Nothing in it is translated. None where there are no messages, or where more has to be
        looked at (a segment that is not open, a group with stages): the request's handler does
        that. Raises as the handler does.
        """
        fields, topic, queue_id = frame.fields, segment.topic, segment.queue_id
        own = self._mappings[topic].latest(queue_id) if topic in self._mappings else None
        if own is None or own.state is not SegmentState.NORMAL or own.key != segment.key:
            return None
        if queue_offset >= self._broker.store.bounds(topic, queue_id)[1]:
            return None  # caught up: the pull is going to be parked
        group_name = fields["consumerGroup"]
        group = self.allowed(group_name, topic, queue_id, session)
        if group.extra:
            return None
        wanted = self.wanted(fields, group, topic, int(fields["sysFlag"]))
        self.logical.note(topic, group_name, aware=True)
        got = self.get(topic, queue_id, queue_offset, max_count, wanted)
        if not got.records:
            return None
        records = for_reader_all(got.records, frame.version)
        self._broker.statistics.pulled(topic, group_name, len(records), sum(map(len, records)))
        return got if records is got.records else replace(got, records=records)
