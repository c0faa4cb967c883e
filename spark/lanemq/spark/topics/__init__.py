"""The source and sink ``rocketmq``: topics of a cluster, read and written through its brokers."""

from ._cluster import Cluster
from ._kv_load import KvLoad
from ._replay import COLUMNS, Replay
from ._source import TopicSource

__all__ = ["COLUMNS", "Cluster", "KvLoad", "Replay", "TopicSource"]
