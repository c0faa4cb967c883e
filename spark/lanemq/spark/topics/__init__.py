"""The source and sink ``rocketmq``: topics of a cluster, read and written through its brokers."""

from ._cluster import Cluster
from ._kv_load import KvLoad
from ._offsets import Known
from ._replay import COLUMNS, Replay
from ._source import TopicSource, queue_bounds

__all__ = ["COLUMNS", "Cluster", "Known", "KvLoad", "Replay", "TopicSource", "queue_bounds"]
