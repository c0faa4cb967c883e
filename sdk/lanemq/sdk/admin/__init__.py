"""Administering a RocketMQ cluster: topics, groups, offsets, and looking at messages."""

from .._pull_status import PullStatus
from ._client import (
    AdminClient,
    addresses_of,
    chosen_address,
    open_admin,
    queues_of,
)
from ._dead_letters import DeadLetter, dead_letters_of, resend_dead_letters
from ._reset import ResetOffsets, Rollback, reset_offsets_by_time
from ._tracks import MessageTrack, TrackType, tracks_of
from .logical._migration_steps import Migrated, MigrationRefused
from .logical._operations import LogicalQueueOperations
from .requests._broker import BrokerRequests
from .requests._consumers import ConsumerRequests
from .requests._logical import LogicalQueueRequests
from .requests._messages import MessageRequests, Pulled, PulledRecords, message_id
from .requests._name_server import NameServerRequests
from .requests._servers import ServerRequests, UnknownCluster

__all__ = [
    "AdminClient",
    "BrokerRequests",
    "ConsumerRequests",
    "DeadLetter",
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
    "dead_letters_of",
    "message_id",
    "open_admin",
    "queues_of",
    "resend_dead_letters",
    "reset_offsets_by_time",
    "tracks_of",
]
