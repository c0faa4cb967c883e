"""migrateTopicLogicalQueue, resumeMigrateTopicLogicalQueue and abortMigrateTopicLogicalQueue.

Source: RocketMQ 5.0.0-PREVIEW, MigrateTopicLogicalQueueCommand; the other two are lanemq's.
"""

import click

from ..._client import AdminClient
from ...logical._migration import abort, migrate, resume
from ...logical._migration_steps import Migrated
from ...requests._servers import masters_by_name
from ..command._command import Output, command, fail
from ._chains import write_chains
from ._proxy_moves import abort_at_proxy, move_at_proxy

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
    help="Do not ask the broker it leaves, which is gone for good: continue at this offset.",
)
@click.option(
    "--sourceIsGone",
    "source_is_gone",
    is_flag=True,
    help="With -fd: although a name server lists the broker it leaves.",
)
async def migrate_queue(
    admin: AdminClient,
    out: Output,
    *,
    topic: str,
    index: int,
    broker: str,
    force_delta: int | None,
    source_is_gone: bool,
) -> object:
    """Have a logical queue continue at another broker. Nothing is copied; readers follow.

    At a proxy with --moves, the queue with this place in the list that clients see.
    """
    if source_is_gone and force_delta is None:
        fail("--sourceIsGone goes with -fd, the offset to go on from")
    moved = await move_at_proxy(admin, topic, index, broker.strip(), report=out.line)
    if moved is not None:
        if force_delta is not None:
            fail("a proxy has no -fd: the broker that a queue leaves has to be there")
        return moved
    done = await migrate(
        admin,
        topic,
        index,
        broker.strip(),
        force_delta=force_delta,
        source_is_gone=source_is_gone,
        report=out.line,
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
    aborted = await abort_at_proxy(admin, topic, index, report=out.line)
    if aborted is not None:
        return aborted
    return _shown(out, await abort(admin, topic, index, report=out.line))


@command("appendSupersededMessages")
@click.option("-b", "--brokerName", "broker", required=True, help="Broker that was gone past.")
@click.option("-t", "--topic", help="Of this topic only.")
async def append_superseded(
    admin: AdminClient, out: Output, *, broker: str, topic: str | None
) -> object:
    """Append the messages that a broker took after its logical queues had gone on elsewhere (-fd).

    At the open ends of the queues, in order, and once, however often it is called.
    """
    broker = broker.strip()
    address = (await masters_by_name(admin, None)).get(broker)
    if address is None:
        fail(f"broker {broker!r} is not registered: start it, and call this again")
    count = await admin.append_superseded(address, topic=topic)
    out.line(f"{count} messages of {broker} are at the ends of their logical queues now")
    return {"broker": broker, "messages": count}


def _shown(out: Output, done: Migrated) -> object:
    write_chains(out, [done.chain])
    return {
        "chain": list(done.chain),
        "untold": {name: str(error) for name, error in done.untold.items()},
    }
