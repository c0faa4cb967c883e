"""The brokers that a queue moves from and to: what they have, and whether it can move there."""

from collections.abc import Mapping
from typing import Final, final

import trio

from lanemq.sdk import RefusedByBroker, RemotingClient
from lanemq.sdk.admin import AdminClient
from lanemq.wire import Permission, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.bodies import MessageModel, TopicConfig
from lanemq.wire.frame import request
from lanemq.wire.headers import GetMaxOffset

from ..order import PROXIED, MovedQueue, Part, QueueOrder
from ._context import MoveContext, MoveRefused
from ._heard import runtime_of
from ._permissions import have_nobody_write, is_written, set_writable
from ._progress import indexed, note_begin
from ._records import offset_of

LOOK_S: Final = 0.05
CLOSE_BYTES: Final = 1 << 20
"""Bytes by which queues are behind a log from which on a look follows the other at once: under
load they are up for moments."""
CLOSE_S: Final = 0.005
ASK_S: Final = 3.0
GROUPS_MAX: Final = 1000
_LOG_END: Final = "commitLogMaxOffset"
_BEHIND: Final = "dispatchBehindBytes"
_OUT_OF_TURN: Final = (
    ("enableBuildConsumeQueueConcurrently", "true"),
    ("storeType", "rocksdb"),
    ("transientStorePoolEnable", "true"),  # the end that it tells is that of its write buffer
    ("duplicationEnable", "true"),
)
_FLUSHES: Final = ("flushDiskType", "SYNC_FLUSH")
_VERSION: Final = "brokerVersionDesc"
_OLD_VERSIONS: Final = ("V3_", "V4_")
_REPLICATED: Final = ("enableControllerMode", "enableDLegerCommitLog", "enableDLedgerCommitLog")


class NotFresh(MoveRefused):
    """The queue that was made for a move has messages."""


async def proxied_at(admin: AdminClient, address: str) -> frozenset[str]:
    """Return the clients at a broker that come through proxies.

    Raises ``LanemqError``, ``RemoteProtocolError``.
    """
    try:
        found = await admin.producer_connections(address, PROXIED)
    except RefusedByBroker as error:
        if error.code != ResponseCode.SYSTEM_ERROR:
            raise
        return frozenset()  # there is no such group
    return frozenset(one.client_id for one in found.connection_set)


@final
class BrokersOfMove:
    """The brokers of a topic. Methods raise ``LanemqError``, ``RemoteProtocolError``."""

    def __init__(self, context: MoveContext, topic: str, broker: str) -> None:
        """``broker`` is the destination."""
        self._moving = context.moving
        self._client = context.client
        self._admin = context.admin
        self._known = context.known
        self._address = context.address
        self._topic = topic
        self._broker = broker

    async def check(self, order: QueueOrder, moved: MovedQueue) -> None:
        """Refuse what makes a move unsafe: the kinds of brokers, of groups and of the topic."""
        source = self._known(moved.last.broker)
        await check_kind(self._admin, source, is_source=True)
        await check_kind(self._admin, self._known(self._broker), is_source=False)
        names = {broker for broker, _ in order.first} | {run.broker for run in order.runs}
        for name in sorted(names | {moved.last.broker, self._broker}):
            found = self._address(name)
            if found is not None:
                await self.check_groups(found)
        here = await self.config(source)
        if here is None or "queue.type" in (here.attributes or {}):
            raise MoveRefused(
                f"topic {self._topic} is no longer at {moved.last.broker}, or its queues are of "
                "a kind of their own (queue.type)"
            )

    async def check_groups(self, address: str) -> None:
        """Refuse groups with members who would not see the move, or who have no queues."""
        proxied = await proxied_at(self._admin, address)
        for group in await self._groups_at(address):
            found = await self._admin.consumer_connections(address, group)
            if found is None or self._topic not in found.subscription_table:
                continue
            if str(found.consume_type or "").upper().endswith("POP"):
                raise MoveRefused(f"group {group} reads by POP, which is for one broker's queues")
            if found.message_model == MessageModel.BROADCASTING:
                raise MoveRefused(
                    f"group {group} is a broadcasting one: its members keep their progress, and "
                    "nobody sees which of them go direct"
                )
            direct = {one.client_id for one in found.connection_set} - proxied
            direct -= await proxied_at(self._admin, address)  # who has come meanwhile
            if direct:
                raise MoveRefused(
                    f"group {group} has members who go direct ({min(direct)}): they would read the "
                    "queue up to its end at the old broker, and no further"
                )

    async def _groups_at(self, address: str) -> list[str]:
        """Return the topic's groups at a broker; refuse more than can be looked at."""
        groups = await self._admin.groups_of_topic(address, self._topic)
        if len(groups) > GROUPS_MAX:
            raise MoveRefused(
                f"topic {self._topic} has {len(groups)} groups at {address}, and no more than "
                f"{GROUPS_MAX} can be looked at"
            )
        return groups

    async def config(self, address: str) -> TopicConfig | None:
        """Return the topic's settings at a broker; None where it has none."""
        return (await self._admin.topic_configs(address)).topic_config_table.get(self._topic)

    async def provide(self, moved: MovedQueue) -> None:
        """Have the destination take the queue: readers of the topic have one more, writers none,
        and neither the topic nor the broker is read-only. Done again, it puts right what somebody
        has undone who did not know of the move yet."""
        assert moved.target is not None
        if self._moving.stands.of(self._broker) is not None:
            await set_writable(self._admin, self._known(self._broker), is_writable=True)
        address, queue_id = self._known(self._broker), moved.target.queue_id
        config = await self.config(address)
        source = await self.config(self._known(moved.last.broker))
        if source is None:
            raise MoveRefused(f"{moved.last.broker} has no topic {self._topic} any more")
        if config is None:
            config = TopicConfig(
                self._topic,
                read_queue_nums=0,
                write_queue_nums=0,
                perm=source.perm,
                topic_filter_type=source.topic_filter_type,
                topic_sys_flag=source.topic_sys_flag,
                order=source.order,
            )
        perm = config.perm | (source.perm & Permission.WRITE)  # it may have been taken away
        if config.read_queue_nums <= queue_id or config.perm != perm:
            changed = TopicConfig(
                self._topic,
                read_queue_nums=max(config.read_queue_nums, queue_id + 1),
                write_queue_nums=config.write_queue_nums,
                perm=perm,
                topic_filter_type=config.topic_filter_type,
                topic_sys_flag=config.topic_sys_flag,
                order=config.order,
            )
            await self._admin.put_topic(address, changed)

    async def make_target(self, moved: MovedQueue) -> None:
        """Make the queue at the destination, where nobody has one of its number in use."""
        assert moved.target is not None
        await self.provide(moved)
        address, queue_id = self._known(self._broker), moved.target.queue_id
        if await max_offset(self._client, address, self._topic, queue_id) > 0:
            raise NotFresh(
                f"queue {queue_id} of topic {self._topic} at {self._broker} has messages of "
                "before: the move is called off; try again, with the next queue there"
            )
        for group, offset in (await self._progress(moved.target)).items():
            if offset > 0:
                raise NotFresh(
                    f"group {group} has progress of before in queue {queue_id} of topic "
                    f"{self._topic} at {self._broker}: the move is called off; try again, with the "
                    "next queue there"
                )
        await self._copy_groups(self._known(moved.last.broker), address)

    async def note_begins(self, moved: MovedQueue) -> None:
        """Give groups with progress in the queue the begin of its next part, before anybody reads
        there: later it could take back what a member has committed just then."""
        assert moved.target is not None
        known = await self._progress(moved.target)
        for group in sorted((await self._progress(moved.last)).keys() - known.keys()):
            address, queue_id = self._known(self._broker), moved.target.queue_id
            try:
                await note_begin(self._client, address, self._topic, queue_id, group)
            except RefusedByBroker as error:
                # A group that has no settings anywhere; brokers of 5.x keep no progress for it.
                if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                    raise

    async def _progress(self, part: Part) -> Mapping[str, int]:
        """Return the progress of each group in a part's queue."""
        table = await self._admin.offset_table(self._known(part.broker))
        return (await indexed(table, {self._topic})).get((self._topic, part.queue_id), {})

    async def leave(self, broker: str) -> None:
        """Have nobody go direct to write where no queue of the topic is written any more."""
        if is_written(self._moving, self._topic, broker):
            return
        address = self._known(broker)
        config = await self.config(address)
        if config is not None:
            await have_nobody_write(self._moving, self._admin, broker, address, config)

    async def _copy_groups(self, source: str, target: str) -> None:
        """Give the destination the settings of groups that it has not: members of a group that a
        broker does not know are not registered there."""
        here = (await self._admin.groups(source)).subscription_group_table
        there = (await self._admin.groups(target)).subscription_group_table
        for group in await self._groups_at(source):
            if group in here and group not in there:
                await self._admin.put_group(target, here[group])

    async def lacking(self, moved: MovedQueue) -> str:
        """Return who is not known at the destination; empty if all are."""
        source, target = self._known(moved.last.broker), self._known(self._broker)
        for group in await self._groups_at(source):
            here = await self._admin.consumer_connections(source, group)
            if here is None or self._topic not in here.subscription_table:
                continue
            there = await self._admin.consumer_connections(target, group)
            ids = {one.client_id for one in here.connection_set}
            ids -= set() if there is None else {one.client_id for one in there.connection_set}
            if ids:
                return f"member {min(ids)} of group {group} is known at {self._broker}"
        return ""

    async def end(self, part: Part) -> int:
        """Return the end of a queue, with all that its broker had taken before the call."""
        address = self._known(part.broker)
        await has_dispatched(self._admin, address)
        return max(0, await max_offset(self._client, address, self._topic, part.queue_id))


async def check_kind(admin: AdminClient, address: str, *, is_source: bool) -> None:
    """Refuse brokers of which it is not known when their end stands still.

    Raises ``MoveRefused``, ``LanemqError``.
    """
    config = await admin.config(address)
    for name in _REPLICATED:
        if config.get(name, "").lower() == "true":
            raise MoveRefused(
                f"the broker at {address} has {name}: what it has confirmed is not all that it "
                "has, so the end of a queue there cannot be read safely"
            )
    for name, value in _OUT_OF_TURN if is_source else ():
        told = config.get(name, "")
        if value in told.lower():
            raise MoveRefused(
                f"the broker at {address} has {name} {told}: it does not tell when its queues "
                "have all that it has taken, so the end of one cannot be read safely"
            )


async def max_offset(client: RemotingClient, address: str, topic: str, queue_id: int) -> int:
    """Ask a broker for the end of a queue. Raises ``LanemqError``, ``RemoteProtocolError``."""
    asked = request(RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic, queue_id).to_fields())
    return offset_of((await client.call(address, asked, ASK_S)).fields.get("offset"))


async def has_dispatched(admin: AdminClient, address: str) -> None:
    """Wait until the queues of a broker have all that it had acknowledged before the call.

    Brokers of 5.x that flush before they answer count from the end of what is flushed how far their
    queues are behind, not from the end that they tell: there nothing has to be behind.

    Raises ``LanemqError``, ``RemoteProtocolError``. Source: RocketMQ 4.9.8 and 5.3.3,
    DefaultMessageStore.ReputMessageService.behind, CommitLog.getConfirmOffset.
    """
    name, value = _FLUSHES
    told = await runtime_of(admin, address)
    is_flushed = (await admin.config(address)).get(name, "").upper() == value
    is_flushed &= not told.get(_VERSION, "").startswith(_OLD_VERSIONS)
    taken = _number(told, _LOG_END)
    while True:
        behind = _number(told, _BEHIND)
        if behind <= 0 if is_flushed else _number(told, _LOG_END) - behind >= taken:
            return
        await trio.sleep(CLOSE_S if behind < CLOSE_BYTES else LOOK_S)
        told = await runtime_of(admin, address)


def _number(told: Mapping[str, str], name: str) -> int:
    """Read a number; queues that have what is not flushed (``readUnCommitted``) are ahead."""
    text = told.get(name, "")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise RemoteProtocolError(f"the broker does not tell {name}")
    return int(text[:19])
