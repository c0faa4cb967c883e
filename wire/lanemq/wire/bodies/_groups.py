"""The configuration of consumer groups."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .._numbers import Int
from ._body import Body
from ._topics import DataVersion


@dataclass(frozen=True, slots=True)
class SubscriptionGroupConfig(Body):
    """The settings of one consumer group at a broker.

    ``extra`` keeps what 5.x added: consumeMessageOrderly, consumeTimeoutMinute, groupRetryPolicy,
    groupSysFlag, attributes, subscriptionDataSet.
    Source: RocketMQ 4.9.8 and 5.3.3, SubscriptionGroupConfig.
    """

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: Int = 1
    retry_max_times: Int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: Int = 1
    notify_consumer_ids_changed_enable: bool = True
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubscriptionGroupList(Body):
    """Several groups (request 225). Source: RocketMQ 5.3.3, SubscriptionGroupList."""

    group_config_list: tuple[SubscriptionGroupConfig, ...] = ()


@dataclass(frozen=True, slots=True)
class SubscriptionGroupWrapper(Body):
    """All groups of a broker. ``extra`` keeps the forbiddenTable of 5.x.

    Source: RocketMQ 4.9.8, SubscriptionGroupWrapper.
    """

    subscription_group_table: Mapping[str, SubscriptionGroupConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupList(Body):
    """Names of consumer groups. Source: RocketMQ 4.9.8, GroupList."""

    group_list: tuple[str, ...] = ()
