"""Checks before anything goes on the wire; each error says what to change.

Source: RocketMQ 4.9.8, Validators.
"""

from collections.abc import Mapping
from functools import lru_cache

from lanemq.wire import (
    CLOSED_TOPICS,
    MAX_PROPERTIES_BYTES,
    Property,
    group_name_problem,
    topic_name_problem,
)

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


def check_group(group: str) -> None:
    """Raise ``InvalidName`` unless a client may join ``group``."""
    problem = group_name_problem(group)
    if problem is None and group == "DEFAULT_CONSUMER":
        problem = "the group DEFAULT_CONSUMER is reserved; choose a name of your own"
    if problem is not None:
        raise InvalidName(problem)


def check_topic(topic: str) -> None:
    """Raise ``InvalidName`` unless ``topic`` can be a topic."""
    problem = topic_name_problem(topic)
    if problem is not None:
        raise InvalidName(problem)


@lru_cache(maxsize=1024)  # producers ask again for every message; errors are not kept
def check_send_topic(topic: str) -> None:
    """Raise ``InvalidName`` unless clients may send to ``topic``."""
    check_topic(topic)
    if topic in CLOSED_TOPICS:
        raise InvalidName(f"the topic {topic} belongs to the broker; clients may not send to it")


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise ``MessageRejected`` unless an application may set ``properties``."""
    for name, value in properties.items():
        if name in FORBIDDEN_PROPERTIES:
            raise MessageRejected(
                f"the property {name} is used by RocketMQ itself; choose another name"
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
