"""The body of a heartbeat: a client's producer and consumer groups, for every broker it uses."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple, final

from .._errors import LocalProtocolError
from .._hashing import java_hash
from ._body import Body

SUBSCRIBE_ALL: Final = "*"
TAG_SEPARATOR: Final = "||"


@final
class ConsumeType(StrEnum):
    """The two kinds of consumers: push and pull. Source: RocketMQ 4.9.8, ConsumeType."""

    ACTIVELY = "CONSUME_ACTIVELY"
    PASSIVELY = "CONSUME_PASSIVELY"


@final
class MessageModel(StrEnum):
    """The distribution of messages among the consumers of a group."""

    CLUSTERING = "CLUSTERING"
    """One of the group's consumers gets a message; offsets are kept at the broker."""
    BROADCASTING = "BROADCASTING"
    """Every consumer gets every message; offsets are kept in a local file, and nothing is delivered
    again."""


@final
class ConsumeFromWhere(StrEnum):
    """The start position of a group without progress. Source: RocketMQ 4.9.8, ConsumeFromWhere."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@final
class ExpressionType(StrEnum):
    """The language of a subscription expression."""

    TAG = "TAG"
    SQL92 = "SQL92"


class TagExpression(NamedTuple):
    """A parsed expression of tags: its text, the tags and their hashes; none mean all."""

    text: str
    tags: frozenset[str]
    codes: frozenset[int]


def parse_tag_expression(text: str | None) -> TagExpression:
    """Read ``TagA || TagB``; ``*``, an empty text or None mean every message.

    Raises ``LocalProtocolError`` for a text of separators and blanks only: the reference
    refuses ``||``, and such a subscription would match nothing.
    Source: RocketMQ 4.9.8, FilterAPI.buildSubscriptionData.
    """
    if not text or text == SUBSCRIBE_ALL:
        return TagExpression(SUBSCRIBE_ALL, frozenset(), frozenset())
    tags = frozenset(tag for part in text.split(TAG_SEPARATOR) if (tag := part.strip()))
    if not tags:
        raise LocalProtocolError(f"a tag expression without a tag: {text!r}")
    return TagExpression(text, tags, frozenset(map(java_hash, tags)))


@dataclass(frozen=True, slots=True)
class SubscriptionData(Body):
    """One subscription of a group.

    ``sub_version`` is a time in milliseconds: the newer of two wins. Empty ``tags_set`` and
    ``code_set`` with the expression ``*`` mean every message. Source: 4.9.8, SubscriptionData.
    """

    topic: str
    sub_string: str = SUBSCRIBE_ALL
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[int] = frozenset()
    sub_version: int = 0
    class_filter_mode: bool = False
    expression_type: str = ExpressionType.TAG.value
    filter_class_source: str | None = None

    @classmethod
    def of_tags(cls, topic: str, text: str | None, *, sub_version: int = 0) -> "SubscriptionData":
        """Return a subscription by tags; errors as ``parse_tag_expression``."""
        expression = parse_tag_expression(text)
        return cls(topic, expression.text, expression.tags, expression.codes, sub_version)


@dataclass(frozen=True, slots=True)
class ConsumerData(Body):
    """One consumer group of a client. Source: RocketMQ 4.9.8, ConsumerData."""

    group_name: str
    consume_type: str = ConsumeType.PASSIVELY.value
    message_model: str = MessageModel.CLUSTERING.value
    consume_from_where: str = ConsumeFromWhere.LAST_OFFSET.value
    subscription_data_set: tuple[SubscriptionData, ...] = ()
    unit_mode: bool = False


@dataclass(frozen=True, slots=True)
class ProducerData(Body):
    """One producer group of a client. Source: RocketMQ 4.9.8, ProducerData."""

    group_name: str


@dataclass(frozen=True, slots=True)
class HeartbeatData(Body):
    """All groups of one client. The last two members exist since 5.x. Source: HeartbeatData."""

    NAMES: ClassVar = {"client_id": "clientID"}

    client_id: str
    producer_data_set: tuple[ProducerData, ...] = ()
    consumer_data_set: tuple[ConsumerData, ...] = ()
    heartbeat_fingerprint: int | None = None
    without_sub: bool | None = None


@dataclass(frozen=True, slots=True)
class CheckClientRequestBody(Body):
    """A client asks whether a broker takes its subscription (request 46).

    Source: RocketMQ 4.9.8, CheckClientRequestBody.
    """

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerIdList(Body):
    """The clients of a group. Source: RocketMQ 4.9.8, GetConsumerListByGroupResponseBody."""

    consumer_id_list: tuple[str, ...] = ()
