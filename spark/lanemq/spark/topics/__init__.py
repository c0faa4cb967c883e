"""The source and sink ``rocketmq``: topics of a cluster, read and written through its brokers."""

from ._cluster import Cluster
from ._copies import COLUMNS
from ._kv_load import KvLoad
from ._offsets import Bounds, Known
from ._replay import Replay
from ._replayed import check_replayed
from ._source import TopicSource, queue_bounds

__all__ = [
    "COLUMNS",
    "Bounds",
    "Cluster",
    "Known",
    "KvLoad",
    "Replay",
    "TopicSource",
    "check_replayed",
    "queue_bounds",
]
