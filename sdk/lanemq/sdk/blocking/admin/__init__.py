"""lanemq.sdk.admin for programs without an event loop.

Written by sdk/tools/generate_faces.py.
"""

from ...admin._client import ORDER_TOPIC_NAMESPACE, addresses_of, chosen_address, queues_of
from ...admin._reset import ResetOffsets, Rollback
from ...admin._tracks import MessageTrack, TrackType
from ...admin.logical._migration_steps import Migrated, MigrationRefused
from ...admin.requests._messages import Pulled, PulledRecords, PullStatus, message_id
from ...admin.requests._servers import UnknownCluster
from ._broker import BrokerRequests
from ._client import AdminClient
from ._consumers import ConsumerRequests
from ._logical import LogicalQueueRequests
from ._messages import MessageRequests
from ._name_server import NameServerRequests
from ._open import open_admin
from ._operations import LogicalQueueOperations
from ._reset import reset_offsets_by_time
from ._servers import ServerRequests
from ._tracks import tracks_of

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
