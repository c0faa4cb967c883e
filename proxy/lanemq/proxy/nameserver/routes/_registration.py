"""The registration of a broker at a name server, and its answer.

Source: RocketMQ 4.9.8, RouteInfoManager.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from lanemq.wire.bodies import DataVersion, TopicConfig


class RegisteredTopic(msgspec.Struct, frozen=True, gc=False):
    """The members of a ``TopicConfig`` that routes have. A registration may bring very many, of
    which no collection of garbage should walk over each."""

    topic_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int

    @classmethod
    def of(cls, topic: TopicConfig) -> "RegisteredTopic":
        """Return these members of ``topic``."""
        read, write = topic.read_queue_nums, topic.write_queue_nums
        return cls(topic.topic_name, read, write, topic.perm, topic.topic_sys_flag)


@dataclass(frozen=True, kw_only=True, slots=True)
class Registration:
    """A broker's description of itself."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    """The address as ``host:port``, handed to clients unchanged."""
    host: str = ""
    """The address of the peer that registers it."""
    ha_address: str = ""
    """Address from which its slaves would replicate."""
    data_version: DataVersion
    """Version that changes when any of its topics does."""
    topics: Sequence[TopicConfig | RegisteredTopic] = ()
    """The topics: all, or only those that changed."""
    filter_servers: Sequence[str] | None = None
    """Filter servers; None from brokers too old to have any; empty means that there are none
    now."""


@dataclass(frozen=True, slots=True)
class MasterAddresses:
    """The master's addresses for a slave that registers: None where there is no master (yet)."""

    master_address: str | None = None
    ha_address: str | None = None


def is_changed(known: DataVersion | None, now: DataVersion) -> bool:
    """Return whether a broker's topics may differ from those that are known.

    The state version counts as 0 where it is missing: brokers before 5.x have none.
    """
    if known is None or (known.timestamp, known.counter) != (now.timestamp, now.counter):
        return True
    return (known.state_version or 0) != (now.state_version or 0)
