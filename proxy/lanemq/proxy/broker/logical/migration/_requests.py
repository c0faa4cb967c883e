"""Common parts of requests about logical queues: decoding bodies, and checking topics.

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor.
"""

from typing import Final, Protocol, TypeVar

from lanemq.local import get_logger
from lanemq.wire import DLQ_PREFIX, KV_PREFIX, RETRY_PREFIX, RemoteProtocolError
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.frame import Frame

from ....logical.rules._refusals import refusal
from ...state._topics import Topics

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

NO_TOPIC: Final = "topic not exist"

BodyT = TypeVar("BodyT", covariant=True)


class _Body(Protocol[BodyT]):
    def decode(self, data: bytes, /) -> BodyT: ...


def decoded(body: _Body[BodyT], frame: Frame, remark: str = "decode error") -> BodyT:
    """Decode the body of a request. Raises ``Refused`` with ``remark`` for one that cannot be
    read."""
    try:
        return body.decode(frame.body)
    except RemoteProtocolError as error:
        LOGGER.warning("request %d has a bad body: %s", frame.code, error)
        raise refusal(remark) from None


def existing(topics: Topics, topic: str) -> TopicConfig:
    """Return the settings of a topic. Raises ``Refused`` (SYSTEM_ERROR)."""
    config = topics.get(topic)
    if config is None:
        raise refusal(NO_TOPIC)
    return config


def require_no_partitions(topic: str) -> None:
    """Refuse what would change the number of partitions of a namespace of keys."""
    if topic.startswith(KV_PREFIX):
        raise refusal(
            f"the logical queues of {topic} are the partitions of a namespace of keys: they can be "
            "migrated, but none comes or goes"
        )


def require_ordinary(topics: Topics, topic: str) -> None:
    """Refuse topics that the broker itself uses, which have no logical queues."""
    if topics.is_system(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise refusal(f"the topic[{topic}] cannot have logical queues")
