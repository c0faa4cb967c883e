"""Routes: the name servers' answers about topics, brokers and clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from .._sys_flags import Permission
from ._body import Body

MASTER_ID: Final = 0  # the broker id of a master; slaves have others


@dataclass(frozen=True, slots=True)
class QueueData(Body):
    """The queues of a topic at one broker name.

    Up to 4.8 the flag was spelled ``topicSynFlag``. Source: RocketMQ 4.9.8, QueueData.
    """

    OTHER_SPELLINGS: ClassVar = {"topicSynFlag": "topicSysFlag"}

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int = Permission.READ_WRITE
    topic_sys_flag: int = 0

    @property
    def queue_count(self) -> int:
        """The number of its queues, whether for readers, for writers, or for both."""
        return max(self.read_queue_nums, self.write_queue_nums)


@dataclass(frozen=True, slots=True)
class BrokerData(Body):
    """The addresses behind one broker name, by broker id.

    The last two members exist since 5.x. Source: RocketMQ 4.9.8 and 5.3.3, BrokerData.
    """

    cluster: str
    broker_name: str
    broker_addrs: Mapping[int, str]
    enable_acting_master: bool | None = None
    zone_name: str | None = None

    @property
    def master_addr(self) -> str | None:
        return self.broker_addrs.get(MASTER_ID)


@dataclass(frozen=True, slots=True)
class RouteData(Body):
    """The route of one topic. ``filter_server_table`` is always written: clients rely on it.

    ``order_topic_conf`` is ``broker:queues;broker:queues`` where an operator has set it.
    ``extra`` keeps the queue mappings of 5.x. Source: RocketMQ 4.9.8, TopicRouteData.
    """

    queue_datas: tuple[QueueData, ...] = ()
    broker_datas: tuple[BrokerData, ...] = ()
    order_topic_conf: str | None = None
    filter_server_table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterInfo(Body):
    """All brokers by name, and the broker names of every cluster. Source: 4.9.8, ClusterInfo."""

    broker_addr_table: Mapping[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
