"""Checks before anything goes on the wire; each error says what to change.

Source: RocketMQ 4.9.8, Validators.
"""

from collections.abc import Mapping
from functools import lru_cache

from lanemq.wire import group_name_problem, is_closed_topic, topic_name_problem
from lanemq.wire.message import MAX_PROPERTIES_BYTES, Property

from ._errors import InvalidName, MessageRejected

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


@lru_cache(maxsize=1024)  # producers ask again for every message; errors are not kept
def check_send_topic(topic: str) -> None:
    """Raise ``InvalidName`` unless clients may send to ``topic``."""
    check_topic(topic)
    if is_closed_topic(topic):
        raise InvalidName(f"the topic {topic} belongs to the broker; clients may not send to it")


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise ``MessageRejected`` unless an application may set ``properties``."""
    for name, value in properties.items():
        if name in FORBIDDEN_PROPERTIES:
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
