"""Making a consumer group go to another point in time.

Source: RocketMQ 4.9.8, DefaultMQAdminExtImpl.resetOffsetByTimestamp and
resetOffsetByTimestampOld.
"""

from dataclasses import dataclass

from lanemq.wire import MessageQueue, ResponseCode, RouteData, StageRecord, stage_group

from .._errors import RefusedByBroker
from ._client import AdminClient, addresses_of, chosen_address

END = -1
"""The time that stands for the end of the queues."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """One queue of a group that was reset while nobody of it was connected."""

    queue: MessageQueue
    broker_offset: int
    """Where the queue ends."""
    consumer_offset: int
    """Where the group stood."""
    timestamp_offset: int
    """Where the wanted time is."""
    rollback_offset: int
    """Where the group stands now."""


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """How a group was reset: by its connected members, or in the broker's table."""

    online: dict[MessageQueue, int] | None
    """Offsets that the members were told to go to; None where none was connected."""
    offline: list[Rollback] | None
    """What was stored instead."""


async def reset_offsets_by_time(
    admin: AdminClient, group: str, topic: str, timestamp_ms: int, *, force: bool = True
) -> ResetOffsets:
    """Make ``group`` go to ``timestamp_ms`` in ``topic`` on all its brokers; -1 is the end.

    Without ``force`` no queue moves forward. Where nobody of the group is connected, the
    offsets in the broker are changed; a consumer of 5.x brokers is reset there in any case.
    Raises ``NoRoute`` and ``RefusedByBroker``.
    """
    route = await admin.route(topic)
    told: dict[MessageQueue, int] = {}
    try:
        for address in addresses_of(route):
            told.update(await admin.reset_offsets(address, group, topic, timestamp_ms, force=force))
    except RefusedByBroker as error:
        if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
    else:
        return ResetOffsets(told, None)
    done: list[Rollback] = []
    for broker in route.broker_datas:
        master = chosen_address(broker)
        if master is not None:
            for queue, broker_offset, consumer_offset in await _positions(
                admin, master, broker.broker_name, route, group, topic
            ):
                done.append(
                    await _roll_back(
                        admin,
                        master,
                        group,
                        queue,
                        (broker_offset, consumer_offset),
                        timestamp_ms,
                        force=force,
                    )
                )
    return ResetOffsets(None, done)


async def _positions(
    admin: AdminClient,
    address: str,
    broker_name: str,
    route: RouteData,
    group: str,
    topic: str,
) -> list[tuple[MessageQueue, int, int]]:
    stats = await admin.consume_stats(address, group)
    consumed = [
        (queue, offsets.broker_offset, offsets.consumer_offset)
        for queue, offsets in sorted(stats.offset_table.items())
        if queue.topic == topic
    ]
    if consumed:
        return consumed
    # A group that never committed here stands at the beginning of each queue.
    status = (await admin.topic_offsets(address, topic)).offset_table
    count = max(
        (q.read_queue_nums for q in route.queue_datas if q.broker_name == broker_name), default=0
    )
    return [
        (queue, bounds.max_offset, bounds.min_offset)
        for queue, bounds in sorted(status.items())
        if queue.queue_id < count
    ]


async def _roll_back(
    admin: AdminClient,
    address: str,
    group: str,
    queue: MessageQueue,
    position: tuple[int, int],
    timestamp_ms: int,
    *,
    force: bool,
) -> Rollback:
    broker_offset, consumer_offset = position
    if timestamp_ms == END:
        target = await admin.max_offset(address, queue)
    else:
        target = await admin.search_offset(address, queue, timestamp_ms)
    now = consumer_offset
    if force or target <= consumer_offset:
        await _restart_stages(admin, address, group, queue, target)
        await admin.put_offset(address, group, queue, target)
        now = target
    return Rollback(queue, broker_offset, consumer_offset, target, now)


async def _restart_stages(
    admin: AdminClient, address: str, group: str, queue: MessageQueue, target: int
) -> None:
    """Where ``group`` consumes in stages, its record decides: let that begin at ``target`` too."""
    shadow = stage_group(group)
    number = await admin.group_offset(address, shadow, queue)
    if number is not None and StageRecord.unpack(number) is not None:
        record = StageRecord(target, 0, settled=True)
        await admin.put_offset(address, shadow, queue, record.pack())
