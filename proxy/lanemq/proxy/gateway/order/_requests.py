"""Tables of requests by their codes, for the port of a broker and that of an added one.

Source: RocketMQ 4.9.8 and 5.3.3, the request headers, MQClientInstance, DefaultMQAdminExtImpl.
"""

from collections.abc import Mapping
from typing import Final

from lanemq.wire import RequestCode

Code = RequestCode
LONG: Final = ("topic", "queueId")
SHORT: Final = ("b", "e")
SENDS: Final[dict[int, tuple[str, str]]] = {
    Code.SEND_MESSAGE: LONG,
    Code.SEND_MESSAGE_V2: SHORT,
    Code.SEND_BATCH_MESSAGE: SHORT,
}
PULLS: Final = frozenset({Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE})
FIELDS: Final[Mapping[int, tuple[str, str]]] = SENDS | dict.fromkeys(
    (
        Code.PULL_MESSAGE,
        Code.LITE_PULL_MESSAGE,
        Code.QUERY_CONSUMER_OFFSET,
        Code.UPDATE_CONSUMER_OFFSET,
        Code.SEARCH_OFFSET_BY_TIMESTAMP,
        Code.GET_MAX_OFFSET,
        Code.GET_MIN_OFFSET,
        Code.GET_EARLIEST_MSG_STORETIME,
        Code.QUERY_CONSUME_QUEUE,
    ),
    LONG,
)
"""Requests that name one queue -> the names of its fields for topic and queue."""
BODIES: Final[Mapping[int, bytes]] = {
    Code.LOCK_BATCH_MQ: b'{"lockOKMQSet":[]}',
    Code.UNLOCK_BATCH_MQ: b"",
}
"""Requests whose bodies name queues -> the body of the answer to one that names none."""
POSITIONS: Final[Mapping[int, str]] = {
    Code.VIEW_MESSAGE_BY_ID: "offset",
    Code.CONSUMER_SEND_MSG_BACK: "offset",
    Code.END_TRANSACTION: "commitLogOffset",
}
"""Requests that name a position in a log -> the name of its field."""
IDS: Final[Mapping[int, str]] = {
    Code.CONSUME_MESSAGE_DIRECTLY: "msgId",
    Code.RESUME_CHECK_HALF_MESSAGE: "msgId",
}
"""Requests that name a message by its id, which has the position -> the name of its field."""
BY_TOPIC: Final = frozenset(
    {
        Code.QUERY_TOPIC_CONSUME_BY_WHO,
        Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
        Code.GET_TOPIC_STATS_INFO,
        Code.GET_TOPIC_CONFIG,
    }
)
"""Requests that name a topic, and no queue."""
READS: Final = BY_TOPIC | {
    Code.PULL_MESSAGE,
    Code.LITE_PULL_MESSAGE,
    Code.VIEW_MESSAGE_BY_ID,
    Code.QUERY_CONSUME_QUEUE,
    Code.QUERY_CONSUMER_OFFSET,
    Code.UPDATE_CONSUMER_OFFSET,
    Code.GET_CONSUMER_LIST_BY_GROUP,
    Code.QUERY_ASSIGNMENT,
    Code.CHECK_CLIENT_CONFIG,
}
"""Requests that clients and tools make of a slave where no master is there, progress among them."""
PLAIN: Final = frozenset(
    {
        Code.GET_CONSUMER_CONNECTION_LIST,
        Code.GET_PRODUCER_CONNECTION_LIST,
        Code.QUERY_TOPICS_BY_CONSUMER,
        Code.GET_CONSUMER_RUNNING_INFO,
        Code.GET_BROKER_RUNTIME_INFO,
        Code.GET_ALL_TOPIC_CONFIG,
        Code.GET_SUBSCRIPTIONGROUP_CONFIG,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Code.GET_BROKER_CONFIG,
        Code.VIEW_BROKER_STATS_DATA,
    }
)
"""Requests that name neither a topic nor a place in a log, and mean one broker: they pass where one
alone is behind the port."""
BY_NAME: Final = BY_TOPIC | {
    Code.QUERY_ASSIGNMENT,
    Code.CHECK_CLIENT_CONFIG,
    Code.GET_CONSUMER_LIST_BY_GROUP,
    Code.GET_CONSUMER_CONNECTION_LIST,
    Code.GET_PRODUCER_CONNECTION_LIST,
    Code.QUERY_TOPICS_BY_CONSUMER,
    Code.GET_CONSUMER_RUNNING_INFO,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG,
}
"""Requests that name a topic or a group alone, and so mean the same at another broker."""
EMPTY: Final[Mapping[int, bytes]] = {
    Code.UNREGISTER_CLIENT: b"",
    Code.CLONE_GROUP_OFFSET: b"",
    # Tools find brokers for it by the group's retry topic, and continue at the same port by number.
    Code.GET_CONSUME_STATS: b'{"consumeTps":0.0,"offsetTable":{}}',
    Code.INVOKE_BROKER_TO_RESET_OFFSET: b'{"offsetTable":{}}',
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: b'{"consumerTable":{},"messageQueueTable":{}}',
    Code.QUERY_CONSUME_TIME_SPAN: b'{"consumeTimeSpanSet":[]}',
}
"""Requests that clients and tools make of each broker of a route -> the body of the answer here:
the broker's own port does them for all its queues."""
NO_GROUPS: Final = b'{"clientID":"lanemq-proxy","consumerDataSet":[],"producerDataSet":[]}'
"""A heartbeat of nobody, which keeps the connection alive and tells the broker's version. The
client registers at the broker's own port: with two connections it would be two members."""
RENAMED_ANSWERS: Final = frozenset(
    {
        Code.LOCK_BATCH_MQ,
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
        Code.QUERY_CONSUME_TIME_SPAN,
        Code.QUERY_ASSIGNMENT,
    }
)
"""Requests whose answers name queues."""
NAMING: Final = RENAMED_ANSWERS | {Code.GET_TOPIC_STATS_INFO}
"""Requests whose answers have names of queues to change. Statistics of a topic are asked for at all
brokers of its route: each port has its own queues."""
RESET: Final = Code.RESET_CONSUMER_CLIENT_OFFSET
OF_BROKERS: Final = frozenset(
    {
        RESET,
        Code.CHECK_TRANSACTION_STATE,
        Code.CONSUME_MESSAGE_DIRECTLY,
    }
)
"""Requests of brokers that name queues: the first in its body, the others by a message."""
RECORDS: Final = frozenset({Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.VIEW_MESSAGE_BY_ID})
BROKER_FIELDS: Final = ("bname", "n", "brokerName")
"""Fields that have the name of a broker; ``n`` is that of the one-letter headers."""
