"""Migrates a logical queue: prepare at the source, commit at the destination, tell the others.

Every step can be repeated. What was begun and not finished is found again in what the brokers
say of themselves, and finished or called off.
Source: RocketMQ 5.0.0-PREVIEW, MigrateTopicLogicalQueueCommand.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from lanemq.wire.logical import Chain, Segment, SegmentState

from .._errors import LanemqError, RefusedByBroker
from ._logical_plan import Destination, plan_destination
from ._logical_survey import Survey, survey
from ._logical_view import BrokerView, TopicView

if TYPE_CHECKING:
    from ._client import AdminClient

IN_PROGRESS = "migration in progress"
LATE = (IN_PROGRESS, "not normal state")
"""What a broker says whose logical queue is on its way elsewhere, or there already."""

Report = Callable[[str], None]
"""Told each step, one line of text."""


class MigrationRefused(LanemqError):  # noqa: N818 - says what happened
    """A logical queue cannot be migrated as it was asked; the text says why, and what to do."""


@final
@dataclass(frozen=True, slots=True)
class Migrated:
    """How a migration ended."""

    chain: Chain
    untold: dict[str, LanemqError] = field(default_factory=dict)
    """Brokers with an older part of the queue that could not be told; they find it out."""


async def migrate(
    admin: "AdminClient",
    topic: str,
    index: int,
    destination: str,
    *,
    force_delta: int | None = None,
    report: Report = lambda _: None,
) -> Migrated:
    """Have logical queue ``index`` go on at the broker ``destination``.

    With ``force_delta`` the source is not asked, because it is gone for good, and the new
    segment begins at that logical offset: at least where the old one ended.
    Raises ``MigrationRefused``, and whatever stopped a step.
    """
    found = await survey(admin, topic)
    view = found.view
    chain = _chain(view, index)
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
            f"{IN_PROGRESS}: logical queue {index} is on its way to {begun.broker_name}; "
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
    place = plan_destination(view, index, broker)
    target = await _open(admin, topic, index, place, report)
    try:
        return await _finish(admin, found, source, target, force_delta, report)
    except RefusedByBroker as error:
        if place.begun is None and any(said in (error.remark or "") for said in LATE):
            # Another migration was quicker; nobody needs the segment that this one opened.
            remark = await admin.map_queue(place.address, topic, target.queue_id, -1)
            report(f"abort at {place.broker}, queue {target.queue_id}: {remark}")
        raise


async def resume(
    admin: "AdminClient", topic: str, index: int, *, report: Report = lambda _: None
) -> Migrated:
    """Finish a migration that was interrupted. Raises ``MigrationRefused`` if none was."""
    found = await survey(admin, topic)
    chain = _chain(found.view, index)
    target = chain.write_only
    if target is not None:
        source = _source(chain)
        if source is None:
            raise MigrationRefused(f"logical queue {index} has no end to migrate from")
        return await _finish(admin, found, source, target, None, report)
    target = chain.normal
    if target is None or not _lagging(found.view, target):
        raise MigrationRefused(f"logical queue {index} of {topic} is not being migrated")
    before = [s for s in chain if s.is_sealed and s.next_delta == target.delta]
    return await _tell(admin, found.view, before[-1] if before else None, target, report)


async def abort(
    admin: "AdminClient", topic: str, index: int, *, report: Report = lambda _: None
) -> Migrated:
    """Call a migration off; its destination must not have a message yet.

    Raises ``MigrationRefused`` if none is under way, and ``RefusedByBroker`` if there are
    messages.
    """
    found = await survey(admin, topic)
    chain = _chain(found.view, index)
    target = chain.write_only
    broker = None if target is None else found.view.broker(target.broker_name)
    if target is None or broker is None:
        raise MigrationRefused(f"logical queue {index} of {topic} is not being migrated")
    remark = await admin.map_queue(broker.address, topic, target.queue_id, -1)
    report(f"abort at {broker.name}, queue {target.queue_id}: {remark}")
    after = await survey(admin, topic)
    called_off = _chain(after.view, index).find(target.key)
    source = _source(chain)
    untold: dict[str, LanemqError] = {}
    if called_off is not None and source is not None:
        # Its former destination too: producers that have heard of it are sent on from there.
        hosts = [b for b in after.view.brokers if (b.mapping or {}).get(index)]
        untold = await _notify(admin, hosts, index, called_off, source, report)
        after = await survey(admin, topic)
    return Migrated(_chain(after.view, index), untold)


def _chain(view: TopicView, index: int) -> Chain:
    if not view.is_logical:
        raise MigrationRefused(f"topic {view.topic} not enabled logical queue")
    chain = view.chains().get(index)
    if chain is None or not len(chain):
        raise MigrationRefused(f"logical queue {index} not exist")
    return chain


def _source(chain: Chain) -> Segment | None:
    """Where the queue ends: open, or sealed by a migration that was begun."""
    if chain.normal is not None:
        return chain.normal
    target = chain.write_only
    sealed = [s for s in chain if s.is_sealed and s.delta >= 0]
    if target is not None and sealed:
        # At the same offset the one with messages ends later.
        return max(sealed, key=lambda segment: (segment.next_delta, segment.count))
    return None


def _lagging(view: TopicView, target: Segment) -> list[BrokerView]:
    """Brokers with a part of the queue that do not know how it goes on."""
    lagging = []
    for broker in view.brokers:
        chain = (broker.mapping or {}).get(target.logical_index)
        if broker.name == target.broker_name or chain is None or not len(chain):
            continue
        copy = chain.find(target.key)
        if copy is None or (copy.state, copy.delta) != (target.state, target.delta):
            lagging.append(broker)
    return lagging


async def _open(
    admin: "AdminClient", topic: str, index: int, place: Destination, report: Report
) -> Segment:
    if place.begun is not None:
        report(f"go on with queue {place.begun.queue_id} at {place.broker}, begun before")
        return place.begun
    if place.queue_id is None:
        target = await admin.create_queue(place.address, topic, index, SegmentState.WRITE_ONLY)
        report(f"created queue {target.queue_id} at {place.broker}")
    else:
        target = await admin.reuse_queue(
            place.address, topic, place.queue_id, index, SegmentState.WRITE_ONLY
        )
        report(
            f"reuse queue {target.queue_id} at {place.broker}, from offset {target.offset_delta}"
        )
    return target.with_address(place.address)


async def _finish(
    admin: "AdminClient",
    found: Survey,
    source: Segment,
    target: Segment,
    force_delta: int | None,
    report: Report,
) -> Migrated:
    view = found.view
    if force_delta is not None:
        target = target.with_delta(force_delta)
        report(f"{source.broker_name} is not asked: logical offset {force_delta} is forced")
    else:
        source, target = await _prepare(admin, view, source, target)
        report(
            f"sealed queue {source.queue_id} at {source.broker_name}: offset "
            f"{source.offset_max}, logical offset {target.delta}"
        )
    broker = view.broker(target.broker_name)
    if broker is None:
        why = found.away.get(target.broker_name, "it is not registered")
        raise MigrationRefused(f"destination broker {target.broker_name} not found: {why}")
    done = await admin.commit_migration(broker.address, source, target)
    target = done.destination or target.with_state(SegmentState.NORMAL)
    report(f"committed queue {target.queue_id} at {target.broker_name}")
    return await _tell(admin, view, done.source or source, target, report)


async def _prepare(
    admin: "AdminClient", view: TopicView, source: Segment, target: Segment
) -> tuple[Segment, Segment]:
    broker = view.broker(source.broker_name)
    known = _copy(broker, target)
    if source.is_sealed and known is not None and known.delta == source.next_delta:
        return source, target.with_delta(known.delta)
    if broker is None:
        raise MigrationRefused(f"unexpected source broker name {source.broker_name} not found")
    try:
        done = await admin.prepare_migration(broker.address, source, target)
    except RefusedByBroker as error:
        error.add_note("migrateTopicLogicalQueuePrepare")
        raise
    return done.source or source, done.destination or target


def _copy(broker: BrokerView | None, segment: Segment) -> Segment | None:
    chain = (broker.mapping or {}).get(segment.logical_index) if broker is not None else None
    return None if chain is None else chain.find(segment.key)


async def _tell(
    admin: "AdminClient",
    view: TopicView,
    source: Segment | None,
    target: Segment,
    report: Report,
) -> Migrated:
    index = target.logical_index
    hosts = {
        segment.broker_name
        for chain in (view.chains()[index],)
        for segment in chain
        if segment.broker_name != target.broker_name
    }
    others = [broker for name in sorted(hosts) if (broker := view.broker(name)) is not None]
    untold = await _notify(admin, others, index, source, target, report)
    for name in sorted(hosts - {broker.name for broker in others}):
        untold[name] = MigrationRefused("it does not answer")
        report(f"{name} could not be told: it does not answer; it will find out by itself")
    after = await survey(admin, view.topic)
    return Migrated(_chain(after.view, index), untold)


async def _notify(
    admin: "AdminClient",
    brokers: Iterable[BrokerView],
    index: int,
    source: Segment | None,
    target: Segment,
    report: Report,
) -> dict[str, LanemqError]:
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
