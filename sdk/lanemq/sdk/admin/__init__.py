"""Administering a RocketMQ cluster: topics, groups, offsets, and looking at messages."""

from ._broker import BrokerRequests
from ._client import (
    ORDER_TOPIC_NAMESPACE,
    AdminClient,
    UnknownCluster,
    addresses_of,
    chosen_address,
    open_admin,
    queues_of,
)
from ._consumers import ConsumerRequests
from ._messages import MessageRequests, Pulled, PullStatus, message_id
from ._name_server import NameServerRequests
from ._reset import ResetOffsets, Rollback, reset_offsets_by_time
from ._tracks import MessageTrack, TrackType, tracks_of

__all__ = [
    "ORDER_TOPIC_NAMESPACE",
    "AdminClient",
    "BrokerRequests",
    "ConsumerRequests",
    "MessageRequests",
    "MessageTrack",
    "NameServerRequests",
    "PullStatus",
    "Pulled",
    "ResetOffsets",
    "Rollback",
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
