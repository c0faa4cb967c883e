"""The three tables that have a RocksDB form: their names, and their entries as rows.

Source: RocketMQ 5.3.3, RocksDBTopicConfigManager, RocksDBSubscriptionGroupManager,
RocksDBConsumerOffsetManager, RocksDBOffsetSerializeWrapper; ExportRocksDBConfigToJsonRequestHeader.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import Body, DataVersion, SubscriptionGroupConfig, TopicConfig

from .._config_tables import GROUP_MEMBER, TOPIC_MEMBER
from .._offset_tables import OFFSET_MEMBER
from ._values import dump_plain, dump_value, load_value

# Written by 5.3.3, and unknown to 4.9.
_TOPIC_DEFAULTS: Final[Mapping[str, object]] = {"attributes": {}}
_GROUP_DEFAULTS: Final[Mapping[str, object]] = {
    "attributes": {},
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "groupSysFlag": 0,
}


@final
@dataclass(frozen=True, slots=True)
class Kind:
    """One of the tables."""

    name: str
    """The name of the directory under ``config``, also used in requests and tools."""
    file: str
    """The JSON file that holds it otherwise."""
    member: str
    """The member of that file."""
    row: Callable[[object], bytes]
    """Makes a row's value from an entry: a value of JSON, or one from the table in memory.

    Equal entries give equal bytes. Raises ``RemoteProtocolError``."""
    entry: Callable[[bytes], object]
    """Makes an entry, as JSON, from a row's value. Raises ``RemoteProtocolError``."""
    holds_offsets: bool = False


def _config_row(
    config: type[TopicConfig | SubscriptionGroupConfig], defaults: Mapping[str, object]
) -> Callable[[object], bytes]:
    def row(value: object) -> bytes:
        body = value if isinstance(value, Body) else config.from_json(value)
        members = {name: member for name, member in body.to_json().items() if member is not None}
        return dump_value(dict(sorted({**defaults, **members}.items())))

    return row


def parse_offsets(value: object) -> dict[int, int]:
    """Parse queue id -> offset from JSON. Raises ``RemoteProtocolError``."""
    if not isinstance(value, Mapping):
        raise RemoteProtocolError("the offsets of a group are not an object")
    try:
        return {int(queue_id): int(offset) for queue_id, offset in value.items()}
    except (TypeError, ValueError) as error:
        raise RemoteProtocolError(f"no offset: {error}") from None


def _offset_row(value: object) -> bytes:
    return dump_value({OFFSET_MEMBER: dict(sorted(parse_offsets(value).items()))})


def _offset_entry(row: bytes) -> object:
    value = load_value(row)
    if not isinstance(value, dict):
        raise RemoteProtocolError("it is not an object")
    return value.get(OFFSET_MEMBER) or {}


TOPICS: Final = Kind(
    "topics", "topics.json", TOPIC_MEMBER, _config_row(TopicConfig, _TOPIC_DEFAULTS), load_value
)
GROUPS: Final = Kind(
    "subscriptionGroups",
    "subscriptionGroup.json",
    GROUP_MEMBER,
    _config_row(SubscriptionGroupConfig, _GROUP_DEFAULTS),
    load_value,
)
OFFSETS: Final = Kind(
    "consumerOffsets",
    "consumerOffset.json",
    OFFSET_MEMBER,
    _offset_row,
    _offset_entry,
    holds_offsets=True,
)
KINDS: Final = (TOPICS, GROUPS, OFFSETS)


def version_row(version: DataVersion) -> bytes:
    """Make the value of the version row."""
    return dump_plain(
        {
            "counter": version.counter,
            "stateVersion": version.state_version or 0,
            "timestamp": version.timestamp,
        }
    )


def parse_version(row: bytes) -> DataVersion:
    """Parse the value of the version row. Raises ``RemoteProtocolError``."""
    return DataVersion.from_json(load_value(row))


def plain_object(row: bytes) -> dict[str, Any]:
    """Parse the value of a row that is a plain object. Raises ``RemoteProtocolError``."""
    value = load_value(row)
    if not isinstance(value, dict):
        raise RemoteProtocolError("it is not an object")
    return value
