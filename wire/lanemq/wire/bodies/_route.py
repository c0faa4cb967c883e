"""Routes: the name servers' answers about topics, brokers and clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Final

from .._names import ROUTE_QUEUES_MAX, queue_ids
from .._numbers import read_number
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
    def read_queues(self) -> range:
        """The ids of its queues for readers; see ``queue_ids`` for how many."""
        return queue_ids(self.read_queue_nums)

    @property
    def write_queues(self) -> range:
        """The ids of its queues for writers."""
        return queue_ids(self.write_queue_nums)

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
class StaticQueue:
    """The place of a queue of a static topic."""

    broker_name: str
    queue_id: int
    """The id of the broker's own queue."""
    epoch: int
    """The version of the broker's mapping, in milliseconds."""


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

    def static_queues(self) -> dict[int, StaticQueue]:
        """Return the queues of a static topic of RocketMQ 5.x by their ids; empty for any other.

        A queue is at the broker that mapped it last, by the epochs of their mappings. Members
        that are no mappings are left out.

        Source: RocketMQ 5.3.3, TopicRouteData, TopicQueueMappingInfo.
        """
        mappings = self.extra.get("topicQueueMappingByBroker")
        found: dict[int, StaticQueue] = {}
        for name, mapping in mappings.items() if isinstance(mappings, dict) else ():
            members = mapping if isinstance(mapping, dict) else {}
            epoch, ids = members.get("epoch"), members.get("currIdMap")
            if not isinstance(epoch, int) or not isinstance(ids, dict):
                continue
            for number, own in islice(ids.items(), ROUTE_QUEUES_MAX):
                queue_id, place = _queue_id(number), _queue_id(own)
                if queue_id is None or place is None or epoch < _epoch(found.get(queue_id)):
                    continue
                found[queue_id] = StaticQueue(name, place, epoch)
        return dict(sorted(found.items()))


def _queue_id(value: object) -> int | None:
    """Return an id from JSON, where it may be a text as a key; None for what is none."""
    try:
        return read_number(str(value), range(ROUTE_QUEUES_MAX))
    except ValueError:
        return None


def _epoch(place: StaticQueue | None) -> int:
    return -1 if place is None else place.epoch


@dataclass(frozen=True, slots=True)
class ClusterInfo(Body):
    """All brokers by name, and the broker names of every cluster. Source: 4.9.8, ClusterInfo."""

    broker_addr_table: Mapping[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
