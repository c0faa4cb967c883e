"""Migrates a logical queue, resumes what was begun, or calls it off.

Source: RocketMQ 5.0.0-PREVIEW, MigrateTopicLogicalQueueCommand.
"""

from lanemq.wire.logical import MIGRATION_IN_PROGRESS, Chain, Segment

from ..._errors import LanemqError, RefusedByBroker
from ..requests._servers import ServerRequests
from ._migration_steps import (
    Migrated,
    MigrationRefused,
    Report,
    chain_of,
    finish,
    notify,
    open_target,
    tell,
)
from ._plan import plan_destination
from ._survey import survey
from ._view import BrokerView, ClusterTopic

LATE = (MIGRATION_IN_PROGRESS, "not normal state")
"""The remark of a broker whose logical queue is on its way elsewhere, or there already."""


async def migrate(
    admin: ServerRequests,
    topic: str,
    index: int,
    destination: str,
    *,
    force_delta: int | None = None,
    source_is_gone: bool = False,
    report: Report = lambda _: None,
) -> Migrated:
    """Move the end of logical queue ``index`` to the broker ``destination``.

    With ``force_delta`` the source is not asked, because it is gone for good, and the new
    segment begins at that logical offset: at least where the old one ended. While a name server
    lists the source that is refused, unless ``source_is_gone`` says it a second time: it may be
    alive, and take messages.
    Raises ``MigrationRefused``, and whatever stopped a step.
    """
    found = await survey(admin, topic)
    view = found.view
    chain = chain_of(view, index)
    broker = view.broker(destination)
    if broker is None:
        known = ", ".join(broker.name for broker in view.brokers) or "none"
        raise MigrationRefused(
            f"destination broker {destination} not found; the masters that answer are: {known}"
        )
    source = _source(chain)
    if source is None:
        raise MigrationRefused(f"logical queue {index} not writable, can not migrate")
    begun = chain.write_only
    if begun is not None and begun.broker_name != destination:
        raise MigrationRefused(
            f"{MIGRATION_IN_PROGRESS}: logical queue {index} is on its way to {begun.broker_name}; "
            "resume that, or abort it"
        )
    if source.broker_name == destination:
        raise MigrationRefused(f"logical queue {index} ends at {destination} already")
    if force_delta is None and view.broker(source.broker_name) is None:
        why = found.away.get(source.broker_name, "it is not registered")
        raise MigrationRefused(
            f"unexpected source broker name {source.broker_name} not found: {why}; if it is gone "
            "for good, give the offset to go on from (-fd)"
        )
    if force_delta is not None and not source_is_gone:
        server = await admin.listed_at(source.broker_name)
        if server is not None:
            raise MigrationRefused(
                f"{source.broker_name} is listed by name server {server}, so it may be alive and "
                "take messages that would be cut off; if it is gone for good, say that too "
                "(--sourceIsGone)"
            )
    place = plan_destination(view, index, broker)
    target = await open_target(admin, topic, index, place, report)
    try:
        return await finish(
            admin, found, source, target, force_delta, report, source_is_gone=source_is_gone
        )
    except RefusedByBroker as error:
        if place.begun is None and any(said in (error.remark or "") for said in LATE):
            # Another migration was quicker; the segment that this one opened is not needed.
            remark = await admin.map_queue(place.address, topic, target.queue_id, -1)
            report(f"abort at {place.broker}, queue {target.queue_id}: {remark}")
        raise


async def resume(
    admin: ServerRequests, topic: str, index: int, *, report: Report = lambda _: None
) -> Migrated:
    """Finish a migration that was interrupted. Raises ``MigrationRefused`` if none was."""
    found = await survey(admin, topic)
    chain = chain_of(found.view, index)
    target = chain.write_only
    if target is not None:
        source = _source(chain)
        if source is None:
            raise MigrationRefused(f"logical queue {index} has no end to migrate from")
        return await finish(admin, found, source, target, None, report)
    target = chain.normal
    if target is None or not _lagging(found.view, target):
        raise MigrationRefused(f"logical queue {index} of {topic} is not being migrated")
    before = [s for s in chain if s.is_sealed and s.next_delta == target.delta]
    return await tell(admin, found.view, before[-1] if before else None, target, report)


async def abort(
    admin: ServerRequests, topic: str, index: int, *, report: Report = lambda _: None
) -> Migrated:
    """Call a migration off; its destination must not have a message yet.

    Raises ``MigrationRefused`` if none is under way, and ``RefusedByBroker`` if there are
    messages.
    """
    found = await survey(admin, topic)
    chain = chain_of(found.view, index)
    target = chain.write_only
    broker = None if target is None else found.view.broker(target.broker_name)
    if target is None or broker is None:
        raise MigrationRefused(f"logical queue {index} of {topic} is not being migrated")
    remark = await admin.map_queue(broker.address, topic, target.queue_id, -1)
    report(f"abort at {broker.name}, queue {target.queue_id}: {remark}")
    after = await survey(admin, topic)
    called_off = chain_of(after.view, index).find(target.key)
    source = _source(chain)
    untold: dict[str, LanemqError] = {}
    if called_off is not None and source is not None:
        # Its former destination too: producers that have heard of it are sent on from there.
        hosts = [b for b in after.view.brokers if (b.mapping or {}).get(index)]
        untold = await notify(admin, hosts, index, called_off, source, report)
        after = await survey(admin, topic)
    return Migrated(chain_of(after.view, index), untold)


def _source(chain: Chain) -> Segment | None:
    """Return the end of the queue: open, or sealed by a migration that was begun."""
    if chain.normal is not None:
        return chain.normal
    target = chain.write_only
    sealed = [s for s in chain if s.is_sealed and s.delta >= 0]
    if target is not None and sealed:
        # At the same offset the one with messages ends later.
        return max(sealed, key=lambda segment: (segment.next_delta, segment.count))
    return None


def _lagging(view: ClusterTopic, target: Segment) -> list[BrokerView]:
    """Return the brokers with a part of the queue that do not know how it goes on."""
    lagging = []
    for broker in view.brokers:
        chain = (broker.mapping or {}).get(target.logical_index)
        if broker.name == target.broker_name or chain is None or not len(chain):
            continue
        copy = chain.find(target.key)
        if copy is None or (copy.state, copy.delta) != (target.state, target.delta):
            lagging.append(broker)
    return lagging
