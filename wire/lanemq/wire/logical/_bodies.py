"""Bodies of the requests about logical queues, and of a redirect.

Source: RocketMQ 5.0.0-PREVIEW, UpdateTopicLogicalQueueMappingRequestBody,
SealTopicLogicalQueueRequestBody, ReuseTopicLogicalQueueRequestBody,
CreateMessageQueueForLogicalQueueRequestBody, MigrateLogicalQueueBody, MQClientAPIImpl.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from .. import fastjson
from .._errors import RemoteProtocolError
from ..bodies._body import Body
from ._segment import Segment
from ._segment_state import SegmentState

REDIRECT_BYTES_MAX: Final = 8 << 10
"""The longest redirect: two segments, each with three names of 255 bytes and some numbers. Any
answer may be one, so event loops read it as it comes."""


@dataclass(frozen=True, slots=True)
class UpdateLogicalQueueMapping(Body):
    """UPDATE_TOPIC_LOGICAL_QUEUE_MAPPING 411; a negative index takes the queue out.

    ``force`` is lanemq's own member: take it out although it has messages.
    """

    NAMES: ClassVar = {"logical_index": "logicalQueueIdx"}

    topic: str
    queue_id: int
    logical_index: int
    force: bool | None = None


@dataclass(frozen=True, slots=True)
class SealLogicalQueue(Body):
    """SEAL_TOPIC_LOGICAL_QUEUE 414."""

    NAMES: ClassVar = {"logical_index": "logicalQueueIndex"}

    topic: str
    queue_id: int
    logical_index: int


@dataclass(frozen=True, slots=True)
class ReuseLogicalQueue(Body):
    """REUSE_TOPIC_LOGICAL_QUEUE 415: one more segment on a physical queue that had some.

    ``delta`` is lanemq's own member: where a Normal segment begins. Absent, the broker finds
    it out.
    """

    NAMES: ClassVar = {
        "logical_index": "logicalQueueIndex",
        "state": "messageQueueRouteState",
        "delta": "logicalQueueDelta",
    }

    topic: str
    queue_id: int
    logical_index: int
    state: SegmentState
    delta: int | None = None


@dataclass(frozen=True, slots=True)
class CreateQueueForLogicalQueue(Body):
    """CREATE_MESSAGE_QUEUE_FOR_LOGICAL_QUEUE 416; ``delta`` as in ``ReuseLogicalQueue``."""

    NAMES: ClassVar = {
        "logical_index": "logicalQueueIndex",
        "state": "messageQueueStatus",
        "delta": "logicalQueueDelta",
    }

    topic: str
    logical_index: int
    state: SegmentState
    delta: int | None = None


@dataclass(frozen=True, slots=True)
class MigrateLogicalQueue(Body):
    """The two ends of a migration: MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE 417 to NOTIFY 419.

    ``source`` may be absent where it is down for good. ``progress`` is lanemq's own member: group
    -> logical offset, as the source knows it; in the answer to a prepare, and in a commit. So is
    ``source_is_gone``: an operator's word that a source which a name server lists is lost.
    """

    NAMES: ClassVar = {
        "source": "fromQueueRouteData",
        "destination": "toQueueRouteData",
        "progress": "lanemqProgress",
        "source_is_gone": "lanemqSourceIsGone",
    }

    source: Segment | None = None
    destination: Segment | None = None
    progress: Mapping[str, int] | None = None
    source_is_gone: bool | None = None


@dataclass(frozen=True, slots=True)
class AppendSuperseded(Body):
    """APPEND_SUPERSEDED_MESSAGES, lanemq's own: of one topic, or of all."""

    topic: str | None = None


@dataclass(frozen=True, slots=True)
class AppendSupersededResult(Body):
    """The answer to it: the number of messages appended to the ends of their logical queues."""

    messages: int = 0


@dataclass(frozen=True, slots=True)
class Redirect:
    """The body of an answer that sends a client elsewhere; see ``REDIRECT_FIELD``."""

    current: Segment
    """The present state of the segment that was asked."""
    following: Segment
    """The segment to ask instead."""

    def encode(self) -> bytes:
        """Encode both segments without the numbers of migrations, which clients do not need."""
        segments = self.current, self.following
        return fastjson.dumps([segment.with_migration(None) for segment in segments])

    @classmethod
    def decode(cls, data: bytes) -> "Redirect | None":
        """Read the body; None where it is empty: everything is to be asked for again.

        Raises ``RemoteProtocolError`` for anything but an array of two segments, and for one of
        more than ``REDIRECT_BYTES_MAX``, before it is read.
        """
        value = fastjson.loads(data, max_bytes=REDIRECT_BYTES_MAX) if data else None
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != 2:
            raise RemoteProtocolError("a redirect is not an array of two segments")
        current, following = map(Segment.from_json, value)
        return cls(current, following)
