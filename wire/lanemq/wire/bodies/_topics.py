"""The configuration of topics, as brokers keep, register and hand it out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import final

from .. import fastjson
from .._errors import RemoteProtocolError
from .._numbers import Int
from .._shown import show_text
from .._sys_flags import Permission
from ._body import Body

TEXT_SEPARATOR = " "


@final
class TopicFilterType(StrEnum):
    """The rules for hashing tags; both give the same code."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


@dataclass(frozen=True, slots=True)
class DataVersion(Body):
    """The version of a table: a counter and the time of its last change.

    ``timestamp`` is in milliseconds since 1970. ``state_version`` exists since 5.x and is
    ``None`` where the sender did not write it. Source: RocketMQ 4.9.8 and 5.3.3, DataVersion.
    """

    timestamp: int = 0
    counter: int = 0
    state_version: int | None = None

    def next(self, now_ms: int) -> "DataVersion":
        """Return the version after one more change."""
        return DataVersion(now_ms, self.counter + 1, self.state_version)


@dataclass(frozen=True, slots=True)
class TopicConfig(Body):
    """One topic at one broker. ``attributes`` exist since 5.x; ``extra`` keeps later members.

    Source: RocketMQ 4.9.8 and 5.3.3, TopicConfig.
    """

    topic_name: str
    read_queue_nums: Int = 16
    write_queue_nums: Int = 16
    perm: Int = Permission.READ_WRITE
    topic_filter_type: str = TopicFilterType.SINGLE_TAG.value
    topic_sys_flag: Int = 0
    order: bool = False
    attributes: Mapping[str, str] | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def queue_count(self) -> int:
        """The number of its queues, whether for readers, for writers, or for both."""
        return max(self.read_queue_nums, self.write_queue_nums)

    def encode_text(self) -> str:
        """Return the short form: name, queues to read and to write, permission, filter type.

        Attributes, which only 5.x understands, follow as JSON where there are any.
        """
        parts = [
            self.topic_name,
            str(self.read_queue_nums),
            str(self.write_queue_nums),
            str(self.perm),
            self.topic_filter_type,
        ]
        if self.attributes:
            parts.append(fastjson.dumps(dict(self.attributes)).decode())
        return TEXT_SEPARATOR.join(parts)

    @classmethod
    def decode_text(cls, text: str) -> "TopicConfig":
        """Read the short form. Raises ``RemoteProtocolError`` for any other text."""
        name, *rest = text.split(TEXT_SEPARATOR, 5)
        if len(rest) < 4:
            raise RemoteProtocolError(
                f"topic configuration of fewer than five parts: {show_text(text)}"
            )
        members: dict[str, object] = dict(
            zip(("readQueueNums", "writeQueueNums", "perm", "topicFilterType"), rest, strict=False)
        )
        if len(rest) == 5 and rest[4]:
            members["attributes"] = fastjson.loads(rest[4])
        return cls.from_json({"topicName": name, **members})


@dataclass(frozen=True, slots=True)
class TopicConfigWrapper(Body):
    """All topics of a broker, or those that changed. ``extra`` keeps the queue mappings of 5.x.

    Source: RocketMQ 4.9.8, TopicConfigSerializeWrapper.
    """

    topic_config_table: Mapping[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicConfigList(Body):
    """Several topics (request 18). Source: RocketMQ 5.3.3, CreateTopicListRequestBody."""

    topic_config_list: tuple[TopicConfig, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicList(Body):
    """Names of topics; ``broker_addr`` only where the tool has to ask on. Source: TopicList."""

    topic_list: tuple[str, ...] = ()
    broker_addr: str | None = None
