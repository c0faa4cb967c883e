"""Operations on logical queues that take several requests to several brokers."""

from ..requests._servers import ServerRequests
from ._indices import claimed_steps
from ._migration import abort, migrate, resume
from ._migration_steps import Migrated
from ._plan import plan_mapping
from ._survey import survey


class LogicalQueueOperations(ServerRequests):
    """Logical queues mapped, migrated, resumed and called off, each as one call."""

    async def migrate_logical_queue(
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
        return await migrate(
            self,
            topic,
            index,
            destination,
            force_delta=force_delta,
            source_is_gone=source_is_gone,
        )

    async def map_logical_queues(self, topic: str, *, cluster: str | None = None) -> int:
        """Make all other queues of a topic logical queues as well; returns how many that were.

        All masters (of ``cluster``, or of all) have to answer: an index that one of them knows
        must not be given again. Raises what asking the first silent one raised.
        """
        found = await survey(self, topic, cluster=cluster)
        for error in found.away.values():
            raise error
        steps = await claimed_steps(
            self.claim_indices, found.view, plan_mapping(found.view, in_turn=True)
        )
        for step in steps:
            await self.map_queue(step.address, topic, step.queue_id, step.index)
        return len(steps)

    async def resume_migration(self, topic: str, index: int) -> Migrated:
        """Finish a migration that was interrupted. Raises ``MigrationRefused`` if none was."""
        return await resume(self, topic, index)

    async def abort_migration(self, topic: str, index: int) -> Migrated:
        """Call a migration off, which its destination refuses once it has messages.

        Raises ``MigrationRefused`` if none is under way.
        """
        return await abort(self, topic, index)
