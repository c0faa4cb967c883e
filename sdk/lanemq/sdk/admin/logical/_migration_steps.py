"""The steps of a migration: prepare at the source, commit at the destination, tell the others.

Every step can be repeated. What was begun and not finished is found again in what the brokers
say of themselves, and finished or called off.
Source: RocketMQ 5.0.0-PREVIEW, MigrateTopicLogicalQueueCommand.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import final

from lanemq.wire.logical import MAY_BE_KNOWN, Chain, Segment, SegmentState

from ..._errors import LanemqError, RefusedByBroker
from ..requests._servers import ServerRequests
from ._plan import Destination
from ._survey import Survey, survey
from ._view import BrokerView, ClusterTopic

Report = Callable[[str], None]
"""Called with each step, one line of text."""


class MigrationRefused(LanemqError):  # noqa: N818 - says what happened
    """A logical queue cannot be migrated as it was asked; the text says why, and what to do."""


@final
@dataclass(frozen=True, slots=True)
class Migrated:
    """The result of a migration."""

    chain: Chain
    untold: dict[str, LanemqError] = field(default_factory=dict)
    """Brokers with an older part of the queue that could not be told; they find it out."""


def chain_of(view: ClusterTopic, index: int) -> Chain:
    """Return a logical queue. Raises ``MigrationRefused`` where there is none."""
    if not view.is_logical:
        raise MigrationRefused(f"topic {view.topic} not enabled logical queue")
    chain = view.chains().get(index)
    if chain is None or not len(chain):
        raise MigrationRefused(f"logical queue {index} not exist")
    return chain


async def open_target(
    admin: ServerRequests, topic: str, index: int, place: Destination, report: Report
) -> Segment:
    """Open the segment that the queue is to go on with, unless that was done before."""
    if place.begun is not None:
        report(f"go on with queue {place.begun.queue_id} at {place.broker}, begun before")
        return place.begun
    target = await _reused(admin, topic, index, place, report)
    if target is None:
        target = await admin.create_queue(place.address, topic, index, SegmentState.WRITE_ONLY)
        report(f"created queue {target.queue_id} at {place.broker}")
    return target.with_address(place.address)


async def _reused(
    admin: ServerRequests, topic: str, index: int, place: Destination, report: Report
) -> Segment | None:
    """Return a segment on the queue that is free; None where none is, or clients know its last one
    yet."""
    if place.queue_id is None:
        return None
    try:
        target = await admin.reuse_queue(
            place.address, topic, place.queue_id, index, SegmentState.WRITE_ONLY
        )
    except RefusedByBroker as error:
        if MAY_BE_KNOWN in (error.remark or ""):
            return None
        raise
    report(f"reuse queue {target.queue_id} at {place.broker}, from offset {target.offset_delta}")
    return target


async def finish(
    admin: ServerRequests,
    found: Survey,
    source: Segment,
    target: Segment,
    force_delta: int | None,
    report: Report,
    *,
    source_is_gone: bool = False,
) -> Migrated:
    """Take the steps that are left: prepare, commit, tell the others."""
    view = found.view
    progress: Mapping[str, int] | None = None
    if force_delta is not None:
        target = target.with_delta(force_delta).with_migration(None)
        report(f"{source.broker_name} is not asked: logical offset {force_delta} is forced")
    else:
        source, target, progress = await _prepare(admin, view, source, target)
        report(
            f"sealed queue {source.queue_id} at {source.broker_name}: offset "
            f"{source.offset_max}, logical offset {target.delta}"
        )
    broker = view.broker(target.broker_name)
    if broker is None:
        why = found.away.get(target.broker_name, "it is not registered")
        raise MigrationRefused(f"destination broker {target.broker_name} not found: {why}")
    done = await admin.commit_migration(
        broker.address, source, target, progress, source_is_gone=source_is_gone
    )
    target = done.destination or target.with_state(SegmentState.NORMAL)
    report(f"committed queue {target.queue_id} at {target.broker_name}")
    return await tell(admin, view, done.source or source, target, report)


async def _prepare(
    admin: ServerRequests, view: ClusterTopic, source: Segment, target: Segment
) -> tuple[Segment, Segment, Mapping[str, int] | None]:
    broker = view.broker(source.broker_name)
    known = _copy(broker, target)
    if source.is_sealed and known is not None and known.delta == source.next_delta:
        return source, target.with_delta(known.delta).with_migration(known.migration), None
    if broker is None:
        raise MigrationRefused(f"unexpected source broker name {source.broker_name} not found")
    try:
        done = await admin.prepare_migration(broker.address, source, target)
    except RefusedByBroker as error:
        error.add_note("migrateTopicLogicalQueuePrepare")
        raise
    return done.source or source, done.destination or target, done.progress


def _copy(broker: BrokerView | None, segment: Segment) -> Segment | None:
    chain = (broker.mapping or {}).get(segment.logical_index) if broker is not None else None
    return None if chain is None else chain.find(segment.key)


async def tell(
    admin: ServerRequests,
    view: ClusterTopic,
    source: Segment | None,
    target: Segment,
    report: Report,
) -> Migrated:
    """Tell the other brokers of the queue, and return the result."""
    index = target.logical_index
    hosts = {
        segment.broker_name
        for chain in (view.chains()[index],)
        for segment in chain
        if segment.broker_name != target.broker_name
    }
    others = [broker for name in sorted(hosts) if (broker := view.broker(name)) is not None]
    untold = await notify(admin, others, index, source, target, report)
    for name in sorted(hosts - {broker.name for broker in others}):
        untold[name] = MigrationRefused("it does not answer")
        report(f"{name} could not be told: it does not answer; it will find out by itself")
    after = await survey(admin, view.topic)
    return Migrated(chain_of(after.view, index), untold)


async def notify(
    admin: ServerRequests,
    brokers: Iterable[BrokerView],
    index: int,
    source: Segment | None,
    target: Segment,
    report: Report,
) -> dict[str, LanemqError]:
    """Tell brokers the queue's new end; return those that could not be told."""
    untold: dict[str, LanemqError] = {}
    for broker in brokers:
        try:
            await admin.notify_migration(broker.address, source, target)
        except LanemqError as error:
            untold[broker.name] = error
            report(f"{broker.name} could not be told: {error}; it will find out by itself")
        else:
            report(f"told {broker.name} where logical queue {index} goes on")
    return untold
