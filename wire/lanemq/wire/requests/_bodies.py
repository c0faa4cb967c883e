"""The objects that bodies of requests name."""

from collections.abc import Iterator
from typing import Final

from ..bodies import (
    HeartbeatData,
    LockBatch,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    TopicConfigList,
)
from ._rights import Kind
from ._spec import InBody

Names = Iterator[tuple[Kind, str]]


def _heartbeat(body: bytes) -> Names:
    for consumer in HeartbeatData.decode(body).consumer_data_set:
        yield Kind.GROUP, consumer.group_name
        for subscription in consumer.subscription_data_set:
            yield Kind.TOPIC, subscription.topic


def _locks(body: bytes) -> Names:
    locks = LockBatch.decode(body)
    yield Kind.GROUP, locks.consumer_group
    for topic in sorted({queue.topic for queue in locks.mq_set}):
        yield Kind.TOPIC, topic


def _group_config(body: bytes) -> Names:
    yield Kind.GROUP, SubscriptionGroupConfig.decode(body).group_name


def _group_configs(body: bytes) -> Names:
    groups = SubscriptionGroupList.decode(body).group_config_list
    for name in [group.group_name for group in groups] or [""]:  # without any, as one without name
        yield Kind.GROUP, name


def _topic_configs(body: bytes) -> Names:
    topics = TopicConfigList.decode(body).topic_config_list
    for name in [topic.topic_name for topic in topics] or [""]:
        yield Kind.TOPIC, name


HEARTBEAT: Final = InBody("each consumer's group and its subscriptions' topics", _heartbeat)
LOCKS: Final = InBody("the group and the queues' topics", _locks)
GROUP_CONFIG: Final = InBody("the group", _group_config)
GROUP_CONFIGS: Final = InBody("each group", _group_configs)
TOPIC_CONFIGS: Final = InBody("each topic", _topic_configs)
