"""The resources that a request uses, each with the actions of which any one suffices.

Requests that are not listed need a user, and nothing else. lanemq asks for more than 5.3.3 at
requests that are forgotten there: lite pulls (361), replies to a topic that is not for replies
(324, 325), the configuration of the broker (25) and of groups (200), and cleaning (306, 316,
329); and at its own.

Source: RocketMQ 5.3.3, DefaultAuthorizationContextBuilder, the annotations of request headers.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lanemq.wire import REPLY_POSTFIX, RETRY_PREFIX, RequestCode
from lanemq.wire.bodies import HeartbeatData, LockBatch, SubscriptionGroupConfig
from lanemq.wire.frame import Frame
from lanemq.wire.kv import DEFAULT_NAMESPACE, kv_topic

from ...net._dispatch import check_body
from .._codes import LOGICAL_QUEUE_CHANGES
from ._resources import Action, Kind, Need, group_need, topic_need

Code = RequestCode
Reader = Callable[[Frame, str], Iterator[Need]]
"""Returns the needs of a request, given the name of the cluster."""

_PUB, _SUB, _GET = Action.PUB, Action.SUB, Action.GET


def needs_of(frame: Frame, cluster: str) -> tuple[Need, ...]:
    """Return the resources and actions that a request to a broker of ``cluster`` needs. Raises
    ``RemoteProtocolError`` for a body that cannot be read."""
    read = _READERS.get(frame.code)
    return () if read is None else tuple(read(frame, cluster))


def _send(topic_field: str, group_field: str) -> Reader:
    def read(frame: Frame, cluster: str) -> Iterator[Need]:
        topic = frame.fields.get(topic_field, "")
        if topic.startswith(RETRY_PREFIX):
            yield group_need(frame.fields.get(group_field) or topic, _SUB)
        elif topic:
            yield topic_need(topic, _PUB)

    return read


def _reply(topic_field: str) -> Reader:
    def read(frame: Frame, cluster: str) -> Iterator[Need]:
        topic = frame.fields.get(topic_field, "")
        if not topic.endswith(REPLY_POSTFIX):
            yield topic_need(topic, _PUB)

    return read


def _uses(*actions: Action, topic: str = "", group: str = "", topics: str = "") -> Reader:
    """Read the fields that name a topic, a group, and topics with ``;`` between."""

    def read(frame: Frame, cluster: str) -> Iterator[Need]:
        fields = frame.fields
        if topic in fields:
            yield topic_need(fields[topic], *actions)
        if group in fields:
            yield group_need(fields[group], *actions)
        for one in fields.get(topics, "").split(";"):
            if one:
                yield topic_need(one, *actions)

    return read


def _consumes(*actions: Action) -> Reader:
    """Read a request of a consumer: its own retry topic needs the group alone."""

    def read(frame: Frame, cluster: str) -> Iterator[Need]:
        topic = frame.fields.get("topic", "")
        if topic and not topic.startswith(RETRY_PREFIX):
            yield topic_need(topic, *actions)
        yield group_need(frame.fields.get("consumerGroup", ""), *actions)

    return read


def _unregister(frame: Frame, cluster: str) -> Iterator[Need]:
    group = frame.fields.get("consumerGroup", "")
    if group.strip():
        yield group_need(group, _SUB)


def _heartbeat(frame: Frame, cluster: str) -> Iterator[Need]:
    check_body(frame, is_json=True)
    for consumer in HeartbeatData.decode(frame.body).consumer_data_set:
        yield group_need(consumer.group_name, _SUB)
        for subscription in consumer.subscription_data_set:
            if not subscription.topic.startswith(RETRY_PREFIX):
                yield topic_need(subscription.topic, _SUB)


def _locks(frame: Frame, cluster: str) -> Iterator[Need]:
    check_body(frame, is_json=True)
    body = LockBatch.decode(frame.body)
    yield group_need(body.consumer_group, _SUB)
    for topic in sorted({queue.topic for queue in body.mq_set}):
        if not topic.startswith(RETRY_PREFIX):
            yield topic_need(topic, _SUB)


def _group_settings(frame: Frame, cluster: str) -> Iterator[Need]:
    check_body(frame, is_json=True)
    group = SubscriptionGroupConfig.decode(frame.body).group_name
    yield group_need(group, Action.CREATE, Action.UPDATE)


def _correction(frame: Frame, cluster: str) -> Iterator[Need]:
    for group in frame.fields.get("filterGroups", "").split(","):
        if group:
            yield group_need(group, _GET)
    yield from _uses(_GET, topic="topic", group="compareGroup")(frame, cluster)


def _cluster(action: Action) -> Reader:
    def read(frame: Frame, cluster: str) -> Iterator[Need]:
        yield Need(Kind.CLUSTER, cluster, frozenset({action}))

    return read


def _keys(action: Action) -> Reader:
    def read(frame: Frame, cluster: str) -> Iterator[Need]:
        yield topic_need(kv_topic(frame.fields.get("namespace", DEFAULT_NAMESPACE)), action)

    return read


_CLUSTER_UPDATES: Final = (
    Code.UPDATE_BROKER_CONFIG,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE,
    Code.CLEAN_UNUSED_TOPIC,
    Code.DELETE_EXPIRED_COMMITLOG,
    *LOGICAL_QUEUE_CHANGES,
    Code.AUTH_CREATE_USER,
    Code.AUTH_UPDATE_USER,
    Code.AUTH_DELETE_USER,
    Code.AUTH_CREATE_ACL,
    Code.AUTH_UPDATE_ACL,
    Code.AUTH_DELETE_ACL,
)
_CLUSTER_READS: Final = (
    Code.GET_ALL_PRODUCER_INFO,
    Code.GET_BROKER_CONSUME_STATS,
    Code.GET_PRODUCER_CONNECTION_LIST,
    Code.VIEW_BROKER_STATS_DATA,
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON,
    Code.AUTH_GET_USER,
    Code.AUTH_LIST_USER,
    Code.AUTH_GET_ACL,
    Code.AUTH_LIST_ACL,
)
_READERS: Final[Mapping[int, Reader]] = {
    Code.SEND_MESSAGE: _send("topic", "group"),
    Code.SEND_MESSAGE_V2: _send("b", "a"),
    Code.SEND_BATCH_MESSAGE: _send("b", "a"),
    Code.RECALL_MESSAGE: _send("topic", "producerGroup"),
    Code.SEND_REPLY_MESSAGE: _reply("topic"),
    Code.SEND_REPLY_MESSAGE_V2: _reply("b"),
    Code.END_TRANSACTION: _uses(_PUB, topic="topic"),
    Code.CONSUMER_SEND_MSG_BACK: _uses(_SUB, group="group"),
    Code.PULL_MESSAGE: _consumes(_SUB),
    Code.LITE_PULL_MESSAGE: _consumes(_SUB),
    Code.QUERY_MESSAGE: _uses(_SUB, _GET, topic="topic"),
    Code.HEART_BEAT: _heartbeat,
    Code.UNREGISTER_CLIENT: _unregister,
    Code.GET_CONSUMER_LIST_BY_GROUP: _uses(_SUB, _GET, group="consumerGroup"),
    Code.QUERY_CONSUMER_OFFSET: _consumes(_SUB, _GET),
    Code.UPDATE_CONSUMER_OFFSET: _consumes(_SUB, Action.UPDATE),
    Code.LOCK_BATCH_MQ: _locks,
    Code.UNLOCK_BATCH_MQ: _locks,
    Code.UPDATE_AND_CREATE_TOPIC: _uses(Action.CREATE, topic="topic"),
    Code.DELETE_TOPIC_IN_BROKER: _uses(Action.DELETE, topic="topic"),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _group_settings,
    Code.DELETE_SUBSCRIPTIONGROUP: _uses(Action.DELETE, group="groupName"),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _uses(Action.UPDATE, topic="topic", group="group"),
    Code.CLONE_GROUP_OFFSET: _uses(Action.UPDATE, topic="topic", group="destGroup"),
    Code.RESUME_CHECK_HALF_MESSAGE: _uses(Action.UPDATE, topic="topic"),
    Code.CONSUME_MESSAGE_DIRECTLY: _uses(_SUB, topic="topic", group="consumerGroup"),
    Code.GET_CONSUME_STATS: _uses(_GET, topic="topic", group="consumerGroup", topics="topicList"),
    Code.GET_CONSUMER_CONNECTION_LIST: _uses(_GET, group="consumerGroup"),
    Code.GET_CONSUMER_RUNNING_INFO: _uses(_GET, group="consumerGroup"),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _uses(_GET, topic="topic", group="group"),
    Code.GET_EARLIEST_MSG_STORETIME: _uses(_GET, topic="topic"),
    Code.GET_MAX_OFFSET: _uses(_GET, topic="topic"),
    Code.GET_MIN_OFFSET: _uses(_GET, topic="topic"),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _uses(_GET, topic="topic"),
    Code.VIEW_MESSAGE_BY_ID: _uses(_GET, topic="topic"),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _uses(_GET, group="group"),
    Code.GET_TOPIC_CONFIG: _uses(_GET, topic="topic"),
    Code.GET_TOPIC_STATS_INFO: _uses(_GET, topic="topic"),
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _uses(_GET, topic="topic"),
    Code.QUERY_CONSUME_QUEUE: _uses(_GET, topic="topic", group="consumerGroup"),
    Code.QUERY_CONSUME_TIME_SPAN: _uses(_GET, topic="topic", group="group"),
    Code.QUERY_CORRECTION_OFFSET: _correction,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: _uses(_GET, topic="topic", group="group"),
    Code.QUERY_TOPICS_BY_CONSUMER: _uses(_GET, group="group"),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _uses(_GET, topic="topic"),
    Code.KV_WRITE: _keys(_PUB),
    Code.KV_GET: _keys(_SUB),
    Code.KV_STATE: _keys(_SUB),
    Code.KV_MULTI_GET: _keys(_SUB),
    Code.KV_SCAN: _keys(_SUB),
    Code.KV_WATCH: _keys(_SUB),
    **dict.fromkeys(_CLUSTER_UPDATES, _cluster(Action.UPDATE)),
    **dict.fromkeys(_CLUSTER_READS, _cluster(_GET)),
}
