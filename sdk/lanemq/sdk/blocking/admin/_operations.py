"""Generated from lanemq.sdk.admin.logical._operations by sdk/tools/generate_faces.py."""

from ...admin._client import AdminClient
from ...admin.logical._migration_steps import Migrated
from .._bridge import Bridge
from ._servers import ServerRequests


class LogicalQueueOperations(ServerRequests):
    """Logical queues mapped, migrated, resumed and called off, each as one call."""

    _core: AdminClient
    _bridge: Bridge

    def migrate_logical_queue(
        self,
        topic: str,
        index: int,
        destination: str,
        *,
        force_delta: int | None = None,
        source_is_gone: bool = False,
    ) -> Migrated:
        """Move the end of logical queue ``index`` to the broker named ``destination``.

        With ``force_delta`` the broker where it ends now is not asked, because it is gone for
        good, and the queue goes on from that logical offset; it must be no smaller than the
        number of messages the queue ever had. While a name server lists that broker it is refused
        without ``source_is_gone``. Raises ``MigrationRefused``, and whatever stopped
        a step; ``resume_migration`` or the same call again goes on from there.
        """
        return self._bridge.call(
            self._core.migrate_logical_queue,
            topic,
            index,
            destination,
            force_delta=force_delta,
            source_is_gone=source_is_gone,
        )

    def map_logical_queues(self, topic: str, *, cluster: str | None = None) -> int:
        """Make logical queues of all queues of a topic that are none yet; returns their number.

        All masters (of ``cluster``, or of all) have to answer: an index that one of them knows
        must not be given again. Raises what asking the first silent one raised.
        """
        return self._bridge.call(self._core.map_logical_queues, topic, cluster=cluster)

    def resume_migration(self, topic: str, index: int) -> Migrated:
        """Finish a migration that was interrupted. Raises ``MigrationRefused`` if none was."""
        return self._bridge.call(self._core.resume_migration, topic, index)

    def abort_migration(self, topic: str, index: int) -> Migrated:
        """Call a migration off, which its destination refuses once it has messages.

        Raises ``MigrationRefused`` if none is under way.
        """
        return self._bridge.call(self._core.abort_migration, topic, index)
