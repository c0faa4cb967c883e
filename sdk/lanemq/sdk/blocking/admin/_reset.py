"""Generated from lanemq.sdk.admin._reset by sdk/tools/generate_faces.py."""

from ...admin import _reset as _core
from ...admin._reset import ResetOffsets
from ._client import AdminClient


def reset_offsets_by_time(
    admin: AdminClient, group: str, topic: str, timestamp_ms: int, *, force: bool = True
) -> ResetOffsets:
    """Make ``group`` go to ``timestamp_ms`` in ``topic`` on all its brokers; -1 is the end.

    Without ``force`` no queue moves forward. Where nobody of the group is connected, the
    offsets in the broker are changed; a consumer of 5.x brokers is reset there in any case.
    Raises ``NoRoute``, and ``RefusedByBroker`` also where the group has no offset, or has members
    that are connected and have not committed one in each queue yet.
    """
    return admin._bridge.call(
        _core.reset_offsets_by_time, admin._core, group, topic, timestamp_ms, force=force
    )
