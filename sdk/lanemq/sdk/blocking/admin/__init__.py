"""lanemq.sdk.admin for programs without an event loop.

Written by sdk/tools/generate_faces.py.
"""

from ..._pull_status import PullStatus
from ...admin._client import addresses_of, chosen_address, queues_of
from ...admin._dead_letters import DeadLetter
from ...admin._reset import ResetOffsets, Rollback
from ...admin._tracks import MessageTrack, TrackType
from ...admin.logical._migration_steps import Migrated, MigrationRefused
from ...admin.requests._messages import Pulled, PulledRecords, message_id
from ...admin.requests._servers import UnknownCluster
from ._client import (
    AdminClient,
    dead_letters_of,
    resend_dead_letters,
    reset_offsets_by_time,
    tracks_of,
)
from ._consumers import ConsumerRequests, MessageRequests
from ._logical import LogicalQueueRequests
from ._open import open_admin
from ._servers import BrokerRequests, LogicalQueueOperations, NameServerRequests, ServerRequests

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
