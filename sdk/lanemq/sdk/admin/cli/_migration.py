"""migrateTopicLogicalQueue, resumeMigrateTopicLogicalQueue and abortMigrateTopicLogicalQueue.

Source: RocketMQ 5.0.0-PREVIEW, MigrateTopicLogicalQueueCommand; the other two are lanemq's.
"""

import click

from .._client import AdminClient
from .._migration import Migrated, abort, migrate, resume
from ._chains import write_chains
from ._command import Output, command

TOPIC = click.option("-t", "--topic", required=True, help="Topic name.")
INDEX = click.option(
    "-i", "--index", type=click.IntRange(min=0), required=True, help="Logical queue."
)


@command("migrateTopicLogicalQueue")
@TOPIC
@INDEX
@click.option("-b", "--brokerName", "broker", required=True, help="Name of the broker to go to.")
@click.option(
    "-fd",
    "--forceDelta",
    "force_delta",
    type=click.IntRange(min=0),
    help="Do not ask the broker it leaves, which is gone for good; go on at this logical offset.",
)
async def migrate_queue(
    admin: AdminClient, out: Output, *, topic: str, index: int, broker: str, force_delta: int | None
) -> object:
    """Have a logical queue go on at another broker. Nothing is copied; readers follow."""
    done = await migrate(
        admin, topic, index, broker.strip(), force_delta=force_delta, report=out.line
    )
    return _shown(out, done)


@command("resumeMigrateTopicLogicalQueue")
@TOPIC
@INDEX
async def resume_migration(admin: AdminClient, out: Output, *, topic: str, index: int) -> object:
    """Finish a migration that was interrupted."""
    return _shown(out, await resume(admin, topic, index, report=out.line))


@command("abortMigrateTopicLogicalQueue")
@TOPIC
@INDEX
async def abort_migration(admin: AdminClient, out: Output, *, topic: str, index: int) -> object:
    """Call off a migration whose destination has no messages yet."""
    return _shown(out, await abort(admin, topic, index, report=out.line))


def _shown(out: Output, done: Migrated) -> object:
    write_chains(out, [done.chain])
    return {
        "chain": list(done.chain),
        "untold": {name: str(error) for name, error in done.untold.items()},
    }
