"""The permissions that a request needs: for each topic and group that it names, PUB or SUB.

A group is named by its retry topic. Requests that are not listed need an account, and nothing
else. lanemq asks for more than Apache's brokers of 4.9 at requests by which these can be gone
around: batches (320), lite pulls (361), replies to a topic that is not for replies (324, 325),
and sends to a retry topic with the long header (10).

Source: RocketMQ 4.9.8, PlainAccessValidator.parse, Permission; 5.3.3,
DefaultAuthorizationContextBuilder, for batches and lite pulls.
"""

from collections.abc import Callable, Mapping
from typing import Final

from lanemq.wire import REPLY_POSTFIX, RETRY_PREFIX, RequestCode
from lanemq.wire.bodies import HeartbeatData
from lanemq.wire.frame import Frame
from lanemq.wire.kv import DEFAULT_NAMESPACE, kv_topic

from ..net._dispatch import check_body
from ._accounts import PUB, SUB
from ._codes import LOGICAL_QUEUE_CHANGES

Code = RequestCode

ADMIN_CODES: Final = frozenset(
    {
        Code.UPDATE_AND_CREATE_TOPIC,
        Code.UPDATE_AND_CREATE_TOPIC_LIST,
        Code.UPDATE_BROKER_CONFIG,
        Code.DELETE_TOPIC_IN_BROKER,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        Code.DELETE_SUBSCRIPTIONGROUP,
        # Apache's brokers of 4.9 let every account change all others.
        Code.UPDATE_AND_CREATE_ACL_CONFIG,
        Code.DELETE_ACL_CONFIG,
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        *LOGICAL_QUEUE_CHANGES,  # and have none of these
    }
)
"""Requests of administrators."""

Need = tuple[str, int]
"""A topic, or the retry topic of a group, and the permission."""

Needs = tuple[Need, ...]


def needs_of(frame: Frame) -> Needs:
    """Return the permissions that a request needs. Raises ``RemoteProtocolError`` for a body
    that cannot be read."""
    read = _READERS.get(frame.code)
    return () if read is None else read(frame)


def _send(topic_field: str, group_field: str) -> Callable[[Frame], Needs]:
    def read(frame: Frame) -> Needs:
        topic = frame.fields.get(topic_field)
        if topic is None:
            return ()  # refused for that by its handler
        if not topic.startswith(RETRY_PREFIX):
            return ((topic, PUB),)
        group = frame.fields.get(group_field)
        return ((topic if group is None else RETRY_PREFIX + group, SUB),)

    return read


def _reply(topic_field: str) -> Callable[[Frame], Needs]:
    def read(frame: Frame) -> Needs:
        topic = frame.fields.get(topic_field)
        return () if topic is None or topic.endswith(REPLY_POSTFIX) else ((topic, PUB),)

    return read


def _consume(topic_field: str | None, group_field: str | None) -> Callable[[Frame], Needs]:
    def read(frame: Frame) -> Needs:
        needs: list[Need] = []
        if topic_field is not None and (topic := frame.fields.get(topic_field)) is not None:
            needs.append((topic, SUB))
        if group_field is not None and (group := frame.fields.get(group_field)) is not None:
            needs.append((RETRY_PREFIX + group, SUB))
        return tuple(needs)

    return read


def _heartbeat(frame: Frame) -> Needs:
    check_body(frame, is_json=True)
    needs: dict[Need, None] = {}
    for consumer in HeartbeatData.decode(frame.body).consumer_data_set:
        needs[RETRY_PREFIX + consumer.group_name, SUB] = None
        for subscription in consumer.subscription_data_set:
            needs[subscription.topic, SUB] = None
    return tuple(needs)


def _keys(permission: int) -> Callable[[Frame], Needs]:
    def read(frame: Frame) -> Needs:
        namespace = frame.fields.get("namespace", DEFAULT_NAMESPACE)
        return ((kv_topic(namespace), permission),)

    return read


_READERS: Final[Mapping[int, Callable[[Frame], Needs]]] = {
    Code.SEND_MESSAGE: _send("topic", "group"),
    Code.SEND_MESSAGE_V2: _send("b", "a"),
    Code.SEND_BATCH_MESSAGE: _send("b", "a"),
    Code.RECALL_MESSAGE: _send("topic", "producerGroup"),
    Code.SEND_REPLY_MESSAGE: _reply("topic"),
    Code.SEND_REPLY_MESSAGE_V2: _reply("b"),
    Code.CONSUMER_SEND_MSG_BACK: _consume(None, "group"),
    Code.PULL_MESSAGE: _consume("topic", "consumerGroup"),
    Code.LITE_PULL_MESSAGE: _consume("topic", "consumerGroup"),
    Code.QUERY_MESSAGE: _consume("topic", None),
    Code.HEART_BEAT: _heartbeat,
    Code.UNREGISTER_CLIENT: _consume(None, "consumerGroup"),
    Code.GET_CONSUMER_LIST_BY_GROUP: _consume(None, "consumerGroup"),
    Code.UPDATE_CONSUMER_OFFSET: _consume("topic", "consumerGroup"),
    Code.KV_WRITE: _keys(PUB),
    Code.KV_GET: _keys(SUB),
    Code.KV_STATE: _keys(SUB),
    Code.KV_MULTI_GET: _keys(SUB),
    Code.KV_SCAN: _keys(SUB),
    Code.KV_WATCH: _keys(SUB),
}
