"""What takes several requests to several brokers, of logical queues."""

from typing import TYPE_CHECKING, cast

from ._logical_plan import plan_mapping
from ._logical_survey import survey
from ._migration import Migrated, abort, migrate, resume

if TYPE_CHECKING:
    from ._client import AdminClient


class LogicalQueueOperations:
    """Migrations, each as one call."""

    async def migrate_logical_queue(
        self, topic: str, index: int, destination: str, *, force_delta: int | None = None
    ) -> Migrated:
        """Have logical queue ``index`` go on at the broker named ``destination``.

        With ``force_delta`` the broker where it ends now is not asked, because it is gone for
        good, and the queue goes on from that logical offset; it must be no smaller than the
        number of messages the queue ever had. Raises ``MigrationRefused``, and whatever stopped
        a step; ``resume_migration`` or the same call again goes on from there.
        """
        admin = cast("AdminClient", self)
        return await migrate(admin, topic, index, destination, force_delta=force_delta)

    async def map_logical_queues(self, topic: str, *, cluster: str | None = None) -> int:
        """Make logical queues of all queues of a topic that are none yet; returns how many.

        All masters (of ``cluster``, or of all) have to answer: an index that one of them knows
        must not be given again. Raises what asking the first silent one raised.
        """
        admin = cast("AdminClient", self)
        found = await survey(admin, topic, cluster=cluster)
        for error in found.away.values():
            raise error
        steps = plan_mapping(found.view)
        for step in steps:
            await admin.map_queue(step.address, topic, step.queue_id, step.index)
        return len(steps)

    async def resume_migration(self, topic: str, index: int) -> Migrated:
        """Finish a migration that was interrupted. Raises ``MigrationRefused`` if none was."""
        return await resume(cast("AdminClient", self), topic, index)

    async def abort_migration(self, topic: str, index: int) -> Migrated:
        """Call a migration off, which its destination refuses once it has messages.

        Raises ``MigrationRefused`` if none is under way.
        """
        return await abort(cast("AdminClient", self), topic, index)
