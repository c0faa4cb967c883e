"""A view of a broker's whole store through its requests, to compare two brokers on one store."""

from collections.abc import Mapping
from dataclasses import dataclass

from lanemq.sdk.admin import AdminClient, PullStatus, open_admin
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import (
    ConsumerOffsetTable,
    MessageQueue,
    SubscriptionGroupConfig,
    TopicConfig,
)
from lanemq.wire.message import StoredMessage

from .._errors import ServerFailed
from ..servers._control import Control

Queue = tuple[str, int]
"""Topic and queue id."""
Committed = Mapping[tuple[str, str], Mapping[int, int]]
"""Group and topic -> queue id -> committed offset."""
READER = "lanemq-compat-view"


@dataclass(frozen=True, slots=True)
class StoreView:
    """Everything that clients can see of one broker at one time."""

    topics: Mapping[str, TopicConfig]
    groups: Mapping[str, SubscriptionGroupConfig]
    offsets: Committed
    bounds: Mapping[Queue, tuple[int, int]]
    """First offset, and the offset of the next message, of every queue that has had one."""
    slots: Mapping[Queue, Mapping[int, StoredMessage]]
    """Offset that was asked for -> message that came."""

    @property
    def count(self) -> int:
        """Messages that can be read."""
        return sum(map(len, self.slots.values()))

    @property
    def positions(self) -> set[int]:
        """Positions in the log of all messages that can be read."""
        return {m.log_position for slots in self.slots.values() for m in slots.values()}

    @property
    def holes(self) -> list[tuple[str, int, int]]:
        """Topic, queue id and offset of messages within the bounds that cannot be read."""
        return [
            (*queue, offset)
            for queue, (begin, end) in self.bounds.items()
            for offset in range(begin, end)
            if offset not in self.slots[queue]
        ]

    @property
    def shifted(self) -> list[tuple[str, int, int]]:
        """Topic, queue id and offset of slots that hold a message of another offset."""
        return [
            (*queue, offset)
            for queue, slots in self.slots.items()
            for offset, message in slots.items()
            if message.queue_offset != offset
        ]

    def lost_in(self, later: "StoreView") -> list[str]:
        """Describe the parts of this view that are missing or different in a later view of the same
        store.

        Messages, bounds and offsets may grow; where a queue begins may not change. Settings
        of topics and groups are compared as far as 4.9 knows them.
        """
        lost = []
        for queue, (begin, end) in self.bounds.items():
            now_begin, now_end = later.bounds.get(queue, (0, 0))
            if begin != now_begin or end > now_end:
                lost.append(f"{queue}: {begin} to {end} became {now_begin} to {now_end}")
            slots = later.slots.get(queue, {})
            wrong = [n for n, message in self.slots[queue].items() if slots.get(n) != message]
            if wrong:
                lost.append(f"{queue}: other or no messages at {wrong[:5]} ({len(wrong)} in all)")
        for topic, config in self.topics.items():
            now = later.topics.get(topic)
            if now is None or _queues_of(now) != _queues_of(config):
                lost.append(f"topic {topic}: {config} became {now}")
        for group, settings in self.groups.items():
            found = later.groups.get(group)
            if found is None or found.retry_max_times != settings.retry_max_times:
                lost.append(f"group {group}: {settings} became {found}")
        for (group, topic), committed in self.offsets.items():
            for queue_id, offset in committed.items():
                now_offset = later.offsets.get((group, topic), {}).get(queue_id, -1)
                if now_offset < offset:
                    lost.append(f"{group} in {topic} {queue_id}: {offset} became {now_offset}")
        return lost


def _queues_of(config: TopicConfig) -> tuple[int, int, int]:
    return config.read_queue_nums, config.write_queue_nums, config.perm


async def view_store(address: str) -> StoreView:
    """Read everything the broker at ``address`` has.

    Tells nothing of queues that never had a message. Raises ``ServerFailed`` and what
    ``AdminClient`` raises.
    """
    async with open_admin(name_servers=address, timeout_s=60) as admin:
        topics = (await admin.topic_configs(address)).topic_config_table
        groups = (await admin.groups(address)).subscription_group_table
        bounds: dict[Queue, tuple[int, int]] = {}
        slots: dict[Queue, dict[int, StoredMessage]] = {}
        for topic in sorted(topics):
            table = (await admin.topic_offsets(address, topic)).offset_table
            for queue, found in table.items():
                if found.max_offset > 0:
                    place = (topic, queue.queue_id)
                    bounds[place] = (found.min_offset, found.max_offset)
                    slots[place] = await read_queue(admin, address, queue, *bounds[place])
    groups = {name: settings for name, settings in groups.items() if name != READER}
    return StoreView(topics, groups, await committed_offsets(address), bounds, slots)


async def read_queue(
    admin: AdminClient, address: str, queue: MessageQueue, begin: int, end: int
) -> dict[int, StoredMessage]:
    """Pull one queue and return offset -> message; offsets that give nothing are left out."""
    slots: dict[int, StoredMessage] = {}
    offset = begin
    while offset < end:
        pulled = await admin.pull(address, queue, offset, group=READER)
        if pulled.status is PullStatus.FOUND:
            slots.update(enumerate(pulled.messages, offset))
            offset += len(pulled.messages)
        else:
            offset += 1
    return slots


async def committed_offsets(address: str) -> Committed:
    """Ask how far all groups of a broker are. Raises ``ServerFailed`` where it does not tell."""
    frame = await Control(address).ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET, {})
    if frame.code != ResponseCode.SUCCESS:
        raise ServerFailed(f"{address} does not tell offsets: {frame.remark}")
    table = ConsumerOffsetTable.decode(frame.body).offset_table
    return {
        (group, topic): dict(queues)
        for key, queues in table.items()
        for topic, _, group in [key.rpartition("@")]
        if group != READER
    }
