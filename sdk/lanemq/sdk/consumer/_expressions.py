"""Subscription expressions: tags, or a condition on properties.

Source: RocketMQ 4.9.8, MessageSelector, FilterAPI.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from lanemq.wire import LocalProtocolError
from lanemq.wire.bodies import ExpressionType, SubscriptionData
from lanemq.wire.sql92 import SqlInvalid, compile_sql

from .._errors import InvalidName
from .._validate import check_topic
from .._values import check_text, shown

EXPRESSION_BYTES_MAX: Final = 256 << 10
"""Bytes of one expression: heartbeats, which have all of them, have to fit a frame."""
SUBSCRIPTION_BYTES: Final = 512  # of one in a heartbeat, beside its expression
TOGETHER_BYTES_MAX: Final = 2 << 20
FORBIDDEN_IN_TAGS: Final = frozenset("|&<>=()")


@final
@dataclass(frozen=True, slots=True)
class Sql:
    """A subscription to the messages whose properties meet a condition, in RocketMQ's SQL92.

    ``Sql("price > 100 AND region IN ('eu', 'us')")``: names are properties (``TAGS`` and
    ``KEYS`` among them), which are texts, turned into numbers where they are compared with
    one. A property that is missing makes a comparison unknown, which does not match; ``IS
    NULL`` asks for that. ``CONTAINS``, ``STARTSWITH`` and ``ENDSWITH`` need lanemq or 5.x.

    The broker filters; one of Apache's needs ``enablePropertyFilter=true`` for it. Raises
    ``InvalidName`` for what is not a condition, with the place; also for anything behind a
    complete one, which brokers would pass over in silence.
    """

    text: str

    def __post_init__(self) -> None:
        check_text("a condition", self.text, most_bytes=EXPRESSION_BYTES_MAX, error=InvalidName)
        try:
            compile_sql(self.text, strict=True)
        except SqlInvalid as error:
            raise InvalidName(f"not a condition in SQL: {error}") from error


def check_together(subscriptions: Sequence[SubscriptionData]) -> None:
    """Raise ``InvalidName`` for more than fits a heartbeat, which has them all."""
    size_bytes = sum(SUBSCRIPTION_BYTES + len(one.sub_string.encode()) for one in subscriptions)
    if size_bytes > TOGETHER_BYTES_MAX:
        raise InvalidName(
            f"the {len(subscriptions)} subscriptions of this consumer have {size_bytes} bytes, at"
            f" most {TOGETHER_BYTES_MAX} are allowed; divide them among consumers"
        )


Expression: TypeAlias = str | Sql
"""Tags, ``"A || B"`` or ``"*"`` for all; or a condition."""


def subscription(topic: str, expression: Expression, version_ms: int) -> SubscriptionData:
    """Return the subscription of ``topic`` for a heartbeat. Raises ``InvalidName``."""
    check_topic(topic)
    if isinstance(expression, Sql):
        return SubscriptionData(
            topic,
            expression.text,
            sub_version=version_ms,
            expression_type=ExpressionType.SQL92.value,
        )
    check_text(
        f"the expression for topic {topic}",
        expression,
        most_bytes=EXPRESSION_BYTES_MAX,
        error=InvalidName,
    )
    try:
        wanted = SubscriptionData.of_tags(topic, expression, sub_version=version_ms)
    except LocalProtocolError as error:
        raise InvalidName(f"the expression for topic {topic}: {error}; write 'A || B'") from error
    for tag in sorted(wanted.tags_set):
        if any(one in FORBIDDEN_IN_TAGS or one.isspace() for one in tag):
            raise InvalidName(
                f"the expression for topic {topic}: {shown(tag)} is not a tag; write tags as"
                " 'A || B', and a condition on properties as Sql('price > 100')"
            )
    return wanted
