"""Making a consumer group go to another point in time.

Source: RocketMQ 4.9.8, DefaultMQAdminExtImpl.resetOffsetByTimestamp and
resetOffsetByTimestampOld; 5.3.3, AdminBrokerProcessor.resetOffsetInner.
"""

from dataclasses import dataclass

from lanemq.wire import ResponseCode
from lanemq.wire.bodies import MessageQueue, RouteData
from lanemq.wire.message import StageRecord, stage_group

from .._errors import RefusedByBroker
from ._client import AdminClient, chosen_address

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
    """The reset of a group: by its connected members, or in the brokers' tables.

    Both are there where members are connected to some of the brokers only.
    """

    online: dict[MessageQueue, int] | None
    """Offsets that the members were told to go to; None where none was connected."""
    offline: list[Rollback] | None
    """The offsets stored in the brokers' tables instead."""
    by_brokers: bool = False
    """True where brokers of 5.x stored ``offline`` by themselves, False where this client did."""


async def reset_offsets_by_time(
    admin: AdminClient, group: str, topic: str, timestamp_ms: int, *, force: bool = True
) -> ResetOffsets:
    """Make ``group`` go to ``timestamp_ms`` in ``topic`` on all its brokers; -1 is the end.

    Without ``force`` no queue moves forward. Where nobody of the group is connected, the
    offsets in the broker are changed, by the broker or by this client, and the group's stages
    begin again from them; a consumer of 5.x brokers is reset there in any case.
    Raises ``NoRoute``, and ``RefusedByBroker`` also where the group has no offset, or has members
    that are connected and have not committed one in each queue yet.
    """
    route = await admin.route(topic)
    reset = _Reset(admin, route, group, topic, timestamp_ms, force)
    away: dict[str, _Positions] = {}  # address -> progress before, where nobody is connected
    online: dict[MessageQueue, int] | None = None
    offline: list[Rollback] | None = None
    for _, address in reset.masters():
        # Asked before the reset, because the broker's answer does not tell: who comes in between
        # is told by the broker. A member that came behind the reset was not told.
        if await admin.consumer_connections(address, group) is None:
            away[address] = await reset.consumed(address)
        answer = await reset.ask(address, away.get(address))
        if answer is None:
            return ResetOffsets(None, await reset.roll_back(away))
        if address in away:
            # At once: another broker may refuse, and this one has moved its offsets.
            offline = (offline or []) + await reset.follow(address, answer, away[address])
        else:
            online = (online or {}) | answer
    return ResetOffsets(online, offline, by_brokers=offline is not None)


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


_Positions = dict[MessageQueue, tuple[int, int]]
"""The end of a queue, and where the group is in it."""


@dataclass(frozen=True, slots=True)
class _Reset:
    admin: AdminClient
    route: RouteData
    group: str
    topic: str
    timestamp_ms: int
    force: bool

    def masters(self) -> list[tuple[str, str]]:
        """Return the name and the address of each broker of the topic."""
        found = [(broker.broker_name, chosen_address(broker)) for broker in self.route.broker_datas]
        return [(name, address) for name, address in found if address is not None]

    async def ask(self, address: str, away: _Positions | None) -> dict[MessageQueue, int] | None:
        """Let a broker reset the group, whose members are ``away`` with this progress if any.

        None where it leaves a group without members to this client.
        """
        group, topic = self.group, self.topic
        try:
            return await self.admin.reset_offsets(
                address, group, topic, self.timestamp_ms, force=self.force
            )
        except RefusedByBroker as error:
            if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return None
            # Brokers of any make look at the offsets first, and at who is connected behind that.
            if f"consumer group <{group}> not exist" not in (error.remark or ""):
                raise
            if away is None:
                raise RefusedByBroker(error.code, _no_offset(group, topic), address) from error
            if away:
                return None
            raise RefusedByBroker(error.code, _unknown(group, topic), address) from error

    async def consumed(self, address: str) -> _Positions:
        """Return the group's progress at a broker; empty if it never committed there."""
        stats = await self.admin.consume_stats(address, self.group)
        return {
            queue: (offsets.broker_offset, offsets.consumer_offset)
            for queue, offsets in sorted(stats.offset_table.items())
            if queue.topic == self.topic
        }

    async def roll_back(self, away: dict[str, _Positions]) -> list[Rollback]:
        """Move the offsets at all brokers. ``away`` has the progress that is known already."""
        done: list[Rollback] = []
        for name, address in self.masters():
            positions = away[address] if address in away else await self.consumed(address)
            if not positions:
                positions = await self._beginnings(name, address)
            for queue, position in positions.items():
                done.append(await self._roll_back(address, queue, *position))
        return done

    async def _beginnings(self, broker_name: str, address: str) -> _Positions:
        """Return where a group is that never committed: at the beginning of each queue."""
        status = (await self.admin.topic_offsets(address, self.topic)).offset_table
        count = max(
            (q.read_queue_nums for q in self.route.queue_datas if q.broker_name == broker_name),
            default=0,
        )
        return {
            queue: (bounds.max_offset, bounds.min_offset)
            for queue, bounds in sorted(status.items())
            if queue.queue_id < count
        }

    async def _roll_back(
        self, address: str, queue: MessageQueue, broker_offset: int, consumer_offset: int
    ) -> Rollback:
        target = await self._target(address, queue)
        now = consumer_offset
        if self.force or target <= consumer_offset:
            await self._restart_stages(address, queue, target)
            await self.admin.put_offset(address, self.group, queue, target)
            now = target
        return Rollback(queue, broker_offset, consumer_offset, target, now)

    async def follow(
        self, address: str, moved: dict[MessageQueue, int], before: _Positions
    ) -> list[Rollback]:
        """Let stages begin again where the broker moved the group, which had no members there."""
        done: list[Rollback] = []
        for queue, offset in sorted(moved.items()):
            if queue in before:
                broker_offset, consumer_offset = before[queue]
            else:
                broker_offset = await self.admin.max_offset(address, queue)
                consumer_offset = await self.admin.min_offset(address, queue)
            # With force the answer is the target; else it is the offset before, or the target.
            target = offset if self.force else await self._target(address, queue)
            if self.force or offset != consumer_offset or target <= consumer_offset:
                await self._restart_stages(address, queue, offset)
            done.append(Rollback(queue, broker_offset, consumer_offset, target, offset))
        return done

    async def _target(self, address: str, queue: MessageQueue) -> int:
        if self.timestamp_ms == END:
            return await self.admin.max_offset(address, queue)
        return await self.admin.search_offset(address, queue, self.timestamp_ms)

    async def _restart_stages(self, address: str, queue: MessageQueue, target: int) -> None:
        """Move the group's stage record to ``target``, if it has one: the record decides."""
        shadow = stage_group(self.group)
        number = await self.admin.group_offset(address, shadow, queue)
        if number is not None and StageRecord.unpack(number) is not None:
            record = StageRecord(target, 0, settled=True)
            await self.admin.put_offset(address, shadow, queue, record.pack())
