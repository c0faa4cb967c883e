"""Generated from lanemq.sdk.admin._tracks by sdk/tools/generate_faces.py."""

from lanemq.wire.message import StoredMessage

from ...admin import _tracks as _core
from ...admin._tracks import MessageTrack
from ._client import AdminClient


def tracks_of(admin: AdminClient, message: StoredMessage) -> list[MessageTrack]:
    """Return for each group that reads the topic of ``message`` whether it has consumed it.

    Raises ``NoRoute`` where the topic is gone.
    """
    return admin._bridge.call(_core.tracks_of, admin._core, message)
