"""Making a consumer group go to another point in time.

Source: RocketMQ 4.9.8, DefaultMQAdminExtImpl.resetOffsetByTimestamp and
resetOffsetByTimestampOld.
"""

from dataclasses import dataclass

from lanemq.wire import ResponseCode
from lanemq.wire.bodies import MessageQueue, RouteData
from lanemq.wire.message import StageRecord, stage_group

from .._errors import RefusedByBroker
from ._client import AdminClient, addresses_of, chosen_address

END = -1
"""The time that stands for the end of the queues."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """A queue of a group that was reset while no member was connected."""

    queue: MessageQueue
    broker_offset: int
    """The end of the queue."""
    consumer_offset: int
    """The group's offset before."""
    timestamp_offset: int
    """The offset at the wanted time."""
    rollback_offset: int
    """The group's offset now."""


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """The reset of a group: by its connected members, or in the broker's table."""

    online: dict[MessageQueue, int] | None
    """Offsets that the members were told to go to; None where none was connected."""
    offline: list[Rollback] | None
    """The offsets stored in the broker's table instead."""


async def reset_offsets_by_time(
    admin: AdminClient, group: str, topic: str, timestamp_ms: int, *, force: bool = True
) -> ResetOffsets:
    """Make ``group`` go to ``timestamp_ms`` in ``topic`` on all its brokers; -1 is the end.

    Without ``force`` no queue moves forward. Where nobody of the group is connected, the
    offsets in the broker are changed; a consumer of 5.x brokers is reset there in any case.
    Raises ``NoRoute``, and ``RefusedByBroker`` also where the group has no offset, or has members
    that are connected and have not committed one in each queue yet.
    """
    route = await admin.route(topic)
    told = await _tell_members(admin, route, group, topic, timestamp_ms, force=force)
    if told is not None:
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


async def _tell_members(
    admin: AdminClient,
    route: RouteData,
    group: str,
    topic: str,
    timestamp_ms: int,
    *,
    force: bool,
) -> dict[MessageQueue, int] | None:
    """Let each broker tell the members of ``group`` their new offsets; None without members."""
    told: dict[MessageQueue, int] = {}
    for address in addresses_of(route):
        try:
            told.update(await admin.reset_offsets(address, group, topic, timestamp_ms, force=force))
        except RefusedByBroker as error:
            if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return None
            # Brokers of any make look at the offsets first, and at who is connected behind that.
            if f"consumer group <{group}> not exist" not in (error.remark or ""):
                raise
            if await admin.consumer_connections(address, group) is not None:
                raise RefusedByBroker(error.code, _no_offset(group, topic), address) from error
            consumed = (await admin.consume_stats(address, group)).offset_table
            if any(queue.topic == topic for queue in consumed):
                return None
            raise RefusedByBroker(error.code, _unknown(group, topic), address) from error
    return told


def _unknown(group: str, topic: str) -> str:
    return (
        f"group {group} has no offset in {topic} there, and no consumer of it is connected: check"
        " the name of the group. A new group begins where its consumers say (consume_from)"
    )


def _no_offset(group: str, topic: str) -> str:
    return (
        f"group {group} has no offset yet in some queue of {topic} there, and can be moved only"
        " where it has one in each, as long as consumers of it are connected. Theirs are there"
        " some seconds after their first messages of a queue: if the group has just been started,"
        " try again in ten seconds. A queue of which it has had no message gets none: stop its"
        " consumers, reset the group, and start them again"
    )


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
    # A group that never committed here is at the beginning of each queue.
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
    """Move the stage record of ``group`` to ``target``, if it has one: the record decides."""
    shadow = stage_group(group)
    number = await admin.group_offset(address, shadow, queue)
    if number is not None and StageRecord.unpack(number) is not None:
        record = StageRecord(target, 0, settled=True)
        await admin.put_offset(address, shadow, queue, record.pack())
