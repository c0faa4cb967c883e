"""Administering a RocketMQ cluster: topics, groups, offsets, and looking at messages."""

from ._broker import BrokerRequests
from ._client import (
    ORDER_TOPIC_NAMESPACE,
    AdminClient,
    addresses_of,
    chosen_address,
    open_admin,
    queues_of,
)
from ._consumers import ConsumerRequests
from ._logical import LogicalQueueRequests
from ._messages import MessageRequests, Pulled, PulledRecords, PullStatus, message_id
from ._migration_steps import Migrated, MigrationRefused
from ._moves import LogicalQueueOperations
from ._name_server import NameServerRequests
from ._reset import ResetOffsets, Rollback, reset_offsets_by_time
from ._servers import ServerRequests, UnknownCluster
from ._tracks import MessageTrack, TrackType, tracks_of

__all__ = [
    "ORDER_TOPIC_NAMESPACE",
    "AdminClient",
    "BrokerRequests",
    "ConsumerRequests",
    "LogicalQueueOperations",
    "LogicalQueueRequests",
    "MessageRequests",
    "MessageTrack",
    "Migrated",
    "MigrationRefused",
    "NameServerRequests",
    "PullStatus",
    "Pulled",
    "PulledRecords",
    "ResetOffsets",
    "Rollback",
    "ServerRequests",
    "TrackType",
    "UnknownCluster",
    "addresses_of",
    "chosen_address",
    "message_id",
    "open_admin",
    "queues_of",
    "reset_offsets_by_time",
    "tracks_of",
]
