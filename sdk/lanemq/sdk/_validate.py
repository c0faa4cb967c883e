"""Checks before anything goes on the wire; each error says what to change.

Source: RocketMQ 4.9.8, Validators.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from lanemq.wire import group_name_problem, is_closed_topic, topic_name_problem
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.message import MAX_PROPERTIES_BYTES, Property

from ._errors import InvalidName, MessageRejected, WrongUse
from ._messages import Message
from ._values import INT32_MAX, INT64_MAX, check_text, check_whole, is_number, is_whole, shown

# Set by applications though RocketMQ knows them: request-reply, timers, sharding, tracing.
SETTABLE_PROPERTIES = frozenset(
    {
        Property.CHECK_IMMUNITY_TIME_IN_SECONDS,
        Property.CORRELATION_ID,
        Property.INSTANCE_ID,
        Property.MSG_TYPE,
        Property.REPLY_TO_CLIENT,
        Property.SHARDING_KEY,
        Property.TIMER_DELAY_MS,
        Property.TIMER_DELAY_SEC,
        Property.TIMER_DELIVER_MS,
        Property.TRACE_CONTEXT,
        Property.TTL,
    }
)
# The rest would mislead brokers and clients; TAGS, KEYS and the like have fields of their own.
FORBIDDEN_PROPERTIES = (
    frozenset(value for name, value in vars(Property).items() if not name.startswith("_"))
    - SETTABLE_PROPERTIES
)


def _check_is_text(what: str, name: object) -> None:
    if not isinstance(name, str):
        raise InvalidName(f"the name of {what} is a text, as 'Orders', not {name!r}")


def check_body(body: object) -> None:
    """Raise ``MessageRejected`` unless ``body`` is bytes."""
    if isinstance(body, str):
        raise MessageRejected("the body is a text, and messages carry bytes: write body.encode()")
    if not isinstance(body, bytes | bytearray | memoryview):
        raise MessageRejected(
            f"the body is {type(body).__name__}, and messages carry bytes: encode it, as by"
            " json.dumps(…).encode()"
        )


def check_group(group: str) -> None:
    """Raise ``InvalidName`` unless a client may join ``group``."""
    _check_is_text("a group", group)
    problem = group_name_problem(group)
    if problem is None and group == "DEFAULT_CONSUMER":
        problem = "the group DEFAULT_CONSUMER is reserved; choose a name of your own"
    if problem is not None:
        raise InvalidName(problem)


def check_topic(topic: str) -> None:
    """Raise ``InvalidName`` unless ``topic`` can be a topic."""
    _check_is_text("a topic", topic)
    problem = topic_name_problem(topic)
    if problem is not None:
        raise InvalidName(problem)


def check_queue(queue: object) -> None:
    """Raise ``InvalidName`` unless ``queue`` can be a queue of a broker's."""
    if not isinstance(queue, MessageQueue):
        raise InvalidName(f"a queue is a MessageQueue(topic, broker, number), not {queue!r}")
    check_topic(queue.topic)
    check_text("the name of a broker", queue.broker_name, most_bytes=255, error=InvalidName)
    check_whole("the number of a queue", queue.queue_id, least=0, most=INT32_MAX, error=InvalidName)


def checked_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return the queues as a list. Raises ``InvalidName`` as ``check_queue``."""
    found = list(queues)
    for queue in found:
        check_queue(queue)
    return found


def check_offset(offset: object) -> None:
    """Raise ``WrongUse`` unless ``offset`` can be one of a queue."""
    if not is_whole(offset) or not 0 <= offset <= INT64_MAX:
        raise WrongUse(f"an offset counts messages from 0, {offset!r} does not exist")


def check_times(times: Mapping[MessageQueue, int]) -> None:
    """Raise ``InvalidName`` or ``WrongValue`` unless all are queues and milliseconds."""
    checked_queues(times)
    for time_ms in times.values():
        check_whole("a time in milliseconds", time_ms, least=0, most=INT64_MAX)


@lru_cache(maxsize=1024)  # producers ask again for every message; errors are not kept
def check_send_topic(topic: str) -> None:
    """Raise ``InvalidName`` unless clients may send to ``topic``."""
    check_topic(topic)
    if is_closed_topic(topic):
        raise InvalidName(f"the topic {topic} belongs to the broker; clients may not send to it")


def check_kinds(message: Message) -> None:
    """Raise ``MessageRejected`` unless the fields beside topic and body are of their kinds."""
    tags, keys, flag = message.tags, message.keys, message.flag
    if (
        type(message.properties) in (dict, MappingProxyType)
        and type(tags) is str
        and not keys
        and type(flag) is int
        and -INT32_MAX - 1 <= flag <= INT32_MAX
        and type(message.delay_level) is int
        and type(message.wait) is bool
        and message.delay_s is None
        and message.deliver_at_ms is None
    ):
        return  # as most are, in a third of the time that the checks below take
    if not isinstance(message.properties, Mapping):
        raise MessageRejected(
            "`properties` must map names to values, as {'region': 'eu'}, not"
            f" {message.properties!r}"
        )
    if not isinstance(tags, str):
        raise MessageRejected(f"`tags` must be one text, as tags='paid', not {tags!r}")
    if keys:
        # An easy slip where types are not checked: each letter would become a key.
        if isinstance(keys, str) or not isinstance(keys, Sequence):  # type: ignore[unreachable]
            raise MessageRejected("`keys` must be a tuple of texts, as keys=('order-1',)")
        for key in keys:
            if not isinstance(key, str):
                raise MessageRejected(f"`keys` must be texts, not {key!r}: write str({key!r})")
    if not is_whole(flag) or not -INT32_MAX - 1 <= flag <= INT32_MAX:
        raise MessageRejected(f"`flag` must be a whole number of 32 bits, not {flag!r}")
    if not is_whole(message.delay_level):
        raise MessageRejected(f"`delay_level` must be a whole number, not {message.delay_level!r}")
    if type(message.wait) is not bool:
        raise MessageRejected(f"`wait` must be True or False, not {message.wait!r}")
    if message.delay_s is not None and not is_number(message.delay_s):
        raise MessageRejected(f"`delay_s` must be a number of seconds, not {message.delay_s!r}")
    if message.deliver_at_ms is not None and not is_whole(message.deliver_at_ms):
        raise MessageRejected(
            f"`deliver_at_ms` must be whole milliseconds since 1970, not {message.deliver_at_ms!r}"
        )


def check_encodable(message: Message) -> None:
    """Raise ``MessageRejected`` for the first text of a message that UTF-8 cannot encode."""
    texts = {"`tags`": [message.tags], "`keys`": message.keys}
    for name, value in message.properties.items():
        texts[f"the property {shown(name)}"] = [name, value]
    for what, parts in texts.items():
        for part in parts:
            check_text(what, part, error=MessageRejected)


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise ``MessageRejected`` unless an application may set ``properties``."""
    for name, value in properties.items():
        if isinstance(name, str) and name in FORBIDDEN_PROPERTIES:
            raise MessageRejected(
                f"the property {name} is used by RocketMQ itself; choose another name"
            )
        if not isinstance(name, str) or not isinstance(value, str):
            raise MessageRejected(
                f"the property {name!r} has the value {value!r}: names and values are texts, so"
                f" write {str(name)!r}: {str(value)!r}"
            )
        if not name or not value:
            raise MessageRejected(
                f"the property {name!r} has the value {value!r}: RocketMQ cannot carry empty names"
                " or values; leave it out"
            )
        if "\x01" in name or "\x02" in name or "\x01" in value or "\x02" in value:
            raise MessageRejected(
                f"the property {name!r} holds the character 0x01 or 0x02, which RocketMQ uses to"
                " separate properties"
            )


def check_size(body_bytes: int, properties_bytes: int, body_bytes_max: int) -> None:
    """Raise ``MessageRejected`` for a message larger than brokers take."""
    if body_bytes > body_bytes_max:
        raise MessageRejected(
            f"the body has {body_bytes} bytes, more than the {body_bytes_max} allowed; split it,"
            " or raise `message_bytes_max` here and `maxMessageSize` at the broker"
        )
    if properties_bytes > MAX_PROPERTIES_BYTES:
        raise MessageRejected(
            f"the properties have {properties_bytes} bytes, more than the"
            f" {MAX_PROPERTIES_BYTES} allowed; move data into the body"
        )
