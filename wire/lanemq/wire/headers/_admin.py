"""Headers of the operator's requests to a broker: topics, groups, statistics."""

from typing import final

from .._numbers import Int, Long
from ._header import Header


@final
class CreateTopic(Header, frozen=True):
    """UPDATE_AND_CREATE_TOPIC 17; ``perm`` is a permission bit set.

    Source: RocketMQ 4.9.8 and 5.3.3, CreateTopicRequestHeader.
    """

    topic: str
    default_topic: str
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    topic_filter_type: str
    topic_sys_flag: Int | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


@final
class DeleteTopic(Header, frozen=True):
    """DELETE_TOPIC_IN_BROKER 215. Source: RocketMQ 4.9.8, DeleteTopicRequestHeader."""

    topic: str


@final
class GetTopicConfig(Header, frozen=True):
    """GET_TOPIC_CONFIG 351 (5.x); ``lo``: the physical topic only, no static mapping.

    Source: RocketMQ 5.3.3, GetTopicConfigRequestHeader, TopicRequestHeader.
    """

    topic: str
    lo: bool | None = None


@final
class QueryLogicalQueueMapping(Header, frozen=True):
    """QUERY_TOPIC_LOGICAL_QUEUE_MAPPING 413.

    Source: RocketMQ 5.0.0-PREVIEW, QueryTopicLogicalQueueMappingRequestHeader.
    """

    topic: str


@final
class DeleteLogicalQueueMapping(Header, frozen=True):
    """DELETE_TOPIC_LOGICAL_QUEUE_MAPPING 422.

    Source: RocketMQ 5.0.0-PREVIEW, DeleteTopicLogicalQueueRequestHeader.
    """

    topic: str


@final
class GetSubscriptionGroupConfig(Header, frozen=True):
    """GET_SUBSCRIPTIONGROUP_CONFIG 352 (5.x). Source: GetSubscriptionGroupConfigRequestHeader."""

    group: str


@final
class UpdateGroupForbidden(Header, frozen=True):
    """UPDATE_AND_GET_GROUP_FORBIDDEN 353 (5.x). Source: UpdateGroupForbiddenRequestHeader."""

    group: str
    topic: str
    readable: bool | None = None


@final
class DeleteSubscriptionGroup(Header, frozen=True):
    """DELETE_SUBSCRIPTIONGROUP 207; 4.9 says ``remove_offset``, 5.x ``clean_offset``.

    Source: RocketMQ 4.9.8 and 5.3.3, DeleteSubscriptionGroupRequestHeader.
    """

    group_name: str
    remove_offset: bool | None = None
    clean_offset: bool | None = None


@final
class GetBrokerConfigResponse(Header, frozen=True):
    """``version`` is a data version in JSON. Source: 4.9.8, GetBrokerConfigResponseHeader."""

    version: str


@final
class GetTopicStatsInfo(Header, frozen=True):
    """GET_TOPIC_STATS_INFO 202. Source: RocketMQ 4.9.8, GetTopicStatsInfoRequestHeader."""

    topic: str


@final
class GetConsumeStats(Header, frozen=True):
    """GET_CONSUME_STATS 208; no topic means all of the group's.

    Source: RocketMQ 4.9.8 and 5.3.3, GetConsumeStatsRequestHeader.
    """

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@final
class GetConsumeStatsInBroker(Header, frozen=True):
    """GET_BROKER_CONSUME_STATS 317. Source: RocketMQ 4.9.8, GetConsumeStatsInBrokerHeader."""

    is_order: bool


@final
class QueryTopicConsumeByWho(Header, frozen=True):
    """QUERY_TOPIC_CONSUME_BY_WHO 300. Source: 4.9.8, QueryTopicConsumeByWhoRequestHeader."""

    topic: str


@final
class QueryTopicsByConsumer(Header, frozen=True):
    """QUERY_TOPICS_BY_CONSUMER 343 (5.x). Source: 5.3.3, QueryTopicsByConsumerRequestHeader."""

    group: str


@final
class QuerySubscriptionByConsumer(Header, frozen=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER 345 (5.x).

    Source: RocketMQ 5.3.3, QuerySubscriptionByConsumerRequestHeader.
    """

    group: str
    topic: str | None = None


@final
class QueryConsumeTimeSpan(Header, frozen=True):
    """QUERY_CONSUME_TIME_SPAN 303. Source: RocketMQ 4.9.8, QueryConsumeTimeSpanRequestHeader."""

    topic: str
    group: str


@final
class QueryCorrectionOffset(Header, frozen=True):
    """QUERY_CORRECTION_OFFSET 308; ``filter_groups`` is joined by commas.

    Source: RocketMQ 4.9.8, QueryCorrectionOffsetHeader.
    """

    compare_group: str
    topic: str
    filter_groups: str | None = None


@final
class CloneGroupOffset(Header, frozen=True):
    """CLONE_GROUP_OFFSET 314. Source: RocketMQ 4.9.8, CloneGroupOffsetRequestHeader."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@final
class ViewBrokerStatsData(Header, frozen=True):
    """VIEW_BROKER_STATS_DATA 315. Source: RocketMQ 4.9.8, ViewBrokerStatsDataRequestHeader."""

    stats_name: str
    stats_key: str


@final
class QueryConsumeQueue(Header, frozen=True):
    """QUERY_CONSUME_QUEUE 321; ``index`` counts messages.

    Source: RocketMQ 4.9.8, QueryConsumeQueueRequestHeader.
    """

    topic: str | None = None
    queue_id: Int = 0
    index: Long = 0
    count: Int = 0
    consumer_group: str | None = None


@final
class CreateAccessConfig(Header, frozen=True):
    """UPDATE_AND_CREATE_ACL_CONFIG 50 (4.x); permission lists are joined by commas.

    Source: RocketMQ 4.9.8, CreateAccessConfigRequestHeader.
    """

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


@final
class DeleteAccessConfig(Header, frozen=True):
    """DELETE_ACL_CONFIG 51 (4.x). Source: RocketMQ 4.9.8, DeleteAccessConfigRequestHeader."""

    access_key: str


@final
class GetBrokerAclConfigResponse(Header, frozen=True):
    """Response of GET_BROKER_CLUSTER_ACL_INFO 52 (4.x). Source: 4.9.8,
    GetBrokerAclConfigResponseHeader."""

    version: str
    broker_name: str
    broker_addr: str
    cluster_name: str
    all_acl_file_version: str | None = None


@final
class UpdateGlobalWhiteAddrsConfig(Header, frozen=True):
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG 53 (4.x).

    Source: RocketMQ 4.9.8, UpdateGlobalWhiteAddrsConfigRequestHeader.
    """

    global_white_addrs: str
    acl_file_full_path: str | None = None  # sent since 4.9.4


@final
class ProxyMoveQueue(Header, frozen=True):
    """PROXY_MOVE_QUEUE 310432, lanemq's own."""

    topic: str
    index: Int
    """The queue's place in the list that clients see, from 0 on."""
    broker: str = ""
    """The broker of the cluster to go to."""
    abort: bool = False
    """Call the move off."""


@final
class ProxyQueues(Header, frozen=True):
    """PROXY_QUEUES 310433, lanemq's own."""

    topic: str


@final
class ProxyDrainBroker(Header, frozen=True):
    """PROXY_DRAIN_BROKER 310434, lanemq's own."""

    broker: str
    forget: bool = False
    """It is gone, and will not come back."""


@final
class ProxyLostMessages(Header, frozen=True):
    """PROXY_LOST_MESSAGES 310435, lanemq's own."""

    broker: str
    passes: bool = False
    """Let readers pass over them."""
