"""Names of topics and groups that the protocol fixes, and what a name may look like.

Source: RocketMQ 4.9.8 and 5.3.3, MixAll, TopicValidator, KeyBuilder, NamespaceUtil.
"""

import re
from typing import Final, final

from ._codes import ResponseCode
from ._errors import Refused

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
REPLY_POSTFIX: Final = "REPLY_TOPIC"
LMQ_PREFIX: Final = "%LMQ%"
KV_PREFIX: Final = "%KV%"
"""lanemq's own: prefix of the topics whose queues are the logs of namespaces of keys."""
PROGRESS_PREFIX: Final = "%LQ%"
"""lanemq's own: prefix of the names under which groups' progress in logical queues is kept."""
STAGE_PREFIX: Final = "%STAGE%"
"""lanemq's own: prefix of shadow groups, whose offsets are groups' stage records."""
BROKER_STAGE_PREFIX: Final = "%BROKER_STAGE%"
"""The prefix where a broker keeps the stages, for clients that know nothing of them."""
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

ORDER_TOPIC_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""The one namespace of name servers' KV tables with a meaning to servers: topics in order."""

BOUND_LOCK_FIELD: Final = "lanemqBoundLock"
"""lanemq's own: a LOCK_BATCH_MQ with this field asks for locks that end with its connection, and
an answer with it says that they do. Apache brokers pass over it."""

MAX_TOPIC_CHARACTERS: Final = 127
MAX_GROUP_CHARACTERS: Final = 255
TOPIC_QUEUES_MAX: Final = 2048
"""Most queues of one topic at one broker of lanemq, since requests about a topic look at each of
them."""
ROUTE_QUEUES_MAX: Final = 1 << 16
"""Most queues of one topic, at all brokers together, that a client or a name server looks at."""
LISTED_MAX: Final = 4096
"""Most names, numbers or changes in one ext field: a header has room for half a million."""
VIRTUAL_BROKERS_MAX: Final = 64
"""Most brokers at which older clients see the logical queues of a topic."""
LEGAL_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")


@final
class SystemTopic:
    """Topics that brokers make for themselves."""

    AUTO_CREATE: Final = "TBW102"
    SCHEDULE: Final = "SCHEDULE_TOPIC_XXXX"
    TIMER: Final = "rmq_sys_wheel_timer"
    """Messages with a timer of 5.x."""
    BENCHMARK: Final = "BenchmarkTest"
    TRANSACTION_HALF: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
    TRANSACTION_OP_HALF: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    TRANSACTION_CHECK_MAX_TIME: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
    TRACE: Final = "RMQ_SYS_TRACE_TOPIC"
    SELF_TEST: Final = "SELF_TEST_TOPIC"
    OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
    UNDELIVERED: Final = "rmq_sys_UNDELIVERED"
    """lanemq's own: delayed messages that could not be delivered."""


@final
class SystemGroup:
    """Groups with a meaning of their own."""

    DEFAULT_PRODUCER: Final = "DEFAULT_PRODUCER"
    DEFAULT_CONSUMER: Final = "DEFAULT_CONSUMER"
    TOOLS_CONSUMER: Final = "TOOLS_CONSUMER"
    SCHEDULE_CONSUMER: Final = "SCHEDULE_CONSUMER"
    FILTERSRV_CONSUMER: Final = "FILTERSRV_CONSUMER"
    MONITOR_CONSUMER: Final = "__MONITOR_CONSUMER"
    CLIENT_INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
    SELF_TEST_PRODUCER: Final = "SELF_TEST_P_GROUP"
    SELF_TEST_CONSUMER: Final = "SELF_TEST_C_GROUP"
    ONS_HTTP_PROXY: Final = "CID_ONS-HTTP-PROXY"
    ONSAPI_PERMISSION: Final = "CID_ONSAPI_PERMISSION"
    ONSAPI_OWNER: Final = "CID_ONSAPI_OWNER"
    ONSAPI_PULL: Final = "CID_ONSAPI_PULL"
    TRANSACTION: Final = "CID_RMQ_SYS_TRANS"


SYSTEM_TOPICS: Final = frozenset(
    value for name, value in vars(SystemTopic).items() if not name.startswith("_")
)
SYSTEM_GROUPS: Final = frozenset(
    value for name, value in vars(SystemGroup).items() if not name.startswith("_")
)
# A client may not send to these: their records have a meaning to the broker.
CLOSED_TOPICS: Final = frozenset(
    {
        SystemTopic.SCHEDULE,
        SystemTopic.TIMER,
        SystemTopic.TRANSACTION_HALF,
        SystemTopic.TRANSACTION_OP_HALF,
        SystemTopic.TRANSACTION_CHECK_MAX_TIME,
        SystemTopic.SELF_TEST,
        SystemTopic.OFFSET_MOVED_EVENT,
        SystemTopic.UNDELIVERED,
    }
)
WAITING_TOPICS: Final = frozenset(
    {
        SystemTopic.SCHEDULE,
        SystemTopic.TIMER,
        SystemTopic.TRANSACTION_HALF,
        SystemTopic.TRANSACTION_OP_HALF,
        SystemTopic.TRANSACTION_CHECK_MAX_TIME,
        SystemTopic.UNDELIVERED,
    }
)
"""Topics of a broker's own with messages of all others: they wait there, or were put aside."""
_OFFSETS_ONLY: Final = re.compile(
    f"{PROGRESS_PREFIX}|(?:{RETRY_PREFIX}|{DLQ_PREFIX})*(?:{STAGE_PREFIX}|{BROKER_STAGE_PREFIX})"
)
_OF_GROUPS: Final = re.compile(rf"\A(?:{RETRY_PREFIX}|{DLQ_PREFIX})+")
INNER_PRODUCER_PREFIXES: Final = (SystemGroup.CLIENT_INNER_PRODUCER, "_INNER_TRACE_PRODUCER")
"""Begins of the names of producer groups that clients make for themselves: for what consumers send
back, and for traces."""


def retry_topic(group: str) -> str:
    """Return the retry topic of ``group``."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the dead letter topic of ``group``."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Return the topic for the replies of request-reply."""
    return f"{cluster}_{REPLY_POSTFIX}"


def group_of_retry_topic(topic: str) -> str | None:
    """Return the group whose retry topic this is, or None."""
    return topic[len(RETRY_PREFIX) :] if topic.startswith(RETRY_PREFIX) else None


def group_behind(name: str) -> str:
    """Return the group to which a retry or dead-letter topic belongs; any other name as it is.

    A group that is itself called like one belongs to the group behind it, too, however deep:
    ``g`` is behind ``%RETRY%g`` as behind ``%RETRY%%DLQ%g``.
    """
    return _OF_GROUPS.sub("", name) if name.startswith("%") else name


def is_system_topic(topic: str) -> bool:
    """Return True for a topic that belongs to the brokers and not to users."""
    return (
        topic in SYSTEM_TOPICS
        or topic.startswith((SYSTEM_TOPIC_PREFIX, KV_PREFIX))
        or has_only_offsets(topic)
    )


def is_closed_topic(topic: str) -> bool:
    """Return True for a topic closed to clients' sends: its records have a meaning to the
    broker, or it is none (``has_only_offsets``)."""
    return topic in CLOSED_TOPICS or topic.startswith(KV_PREFIX) or has_only_offsets(topic)


def has_only_offsets(name: str) -> bool:
    """Return True for a name under which brokers keep offsets and nothing else: no topic has it,
    and no group.

    It is that of progress in a logical queue or of a shadow group, or would be the retry or
    dead-letter topic of a shadow group, however deep: rights to a group hold for its retry topic's
    group, too. Offsets under it belong to another topic or group, and so do the rights to them.
    """
    return name.startswith("%") and _OFFSETS_ONLY.match(name) is not None


def is_system_group(group: str) -> bool:
    """Return True for a group that belongs to the brokers or tools."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def topic_name_problem(topic: str) -> str | None:
    """Return the reason why ``topic`` is not a legal topic name; None for a legal one."""
    return _problem("topic", topic, MAX_TOPIC_CHARACTERS)


def group_name_problem(group: str) -> str | None:
    """Return the reason why ``group`` is not a legal group name; None for a legal one."""
    return _problem("group", group, MAX_GROUP_CHARACTERS)


def _problem(kind: str, name: str, max_characters: int) -> str | None:
    if not name.strip():
        return f"the {kind} name is blank"
    if len(name) > max_characters:
        return f"the {kind} name has {len(name)} characters, at most {max_characters} are allowed"
    if not LEGAL_NAME.fullmatch(name):
        return f"the {kind} name {name!r} has characters other than letters, digits, % | _ and -"
    return None


def listed(what: str, text: str, separator: str) -> list[str]:
    """Return the parts of an ext field, ``what``, that is a list; empty ones too.

    Raises ``Refused`` (INVALID_PARAMETER) beyond ``LISTED_MAX``, before any part is made.
    """
    number = text.count(separator) + 1
    if number > LISTED_MAX:
        remark = f"{what} lists {number}, at most {LISTED_MAX} are taken at once"
        raise Refused(ResponseCode.INVALID_PARAMETER, remark)
    return text.split(separator)


def queue_ids(count: int) -> range:
    """Return the ids of as many queues as a peer says that a topic has at a broker.

    They are ``TOPIC_QUEUES_MAX`` at most, for a list of them must not be as long as any number that
    a peer may write.
    """
    return range(min(count, TOPIC_QUEUES_MAX))
