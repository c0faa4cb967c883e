"""The consumer groups that have consumed a message.

Source: RocketMQ 4.9.8, DefaultMQAdminExtImpl.messageTrackDetail, MessageTrack, TrackType.
"""

import enum
from dataclasses import dataclass

from lanemq.wire import ResponseCode
from lanemq.wire.bodies import ConsumerConnection
from lanemq.wire.message import StoredMessage

from .._errors import LanemqError
from ._client import AdminClient, addresses_of


class TrackType(enum.Enum):
    """The state of a message in a group."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    PULL = "PULL"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class MessageTrack:
    """The state of one message in one consumer group."""

    group: str
    type: TrackType
    reason: str | None = None
    """The reason the broker or name server could not say more."""


async def tracks_of(admin: AdminClient, message: StoredMessage) -> list[MessageTrack]:
    """Return for each group that reads the topic of ``message`` whether it has consumed it.

    Raises ``NoRoute`` where the topic is gone.
    """
    groups: set[str] = set()
    for address in addresses_of(await admin.route(message.topic)):
        groups.update(await admin.groups_of_topic(address, message.topic))
    return [await _track(admin, message, group) for group in sorted(groups)]


async def _track(admin: AdminClient, message: StoredMessage, group: str) -> MessageTrack:
    try:
        connections = await admin.connections(group)
        if connections is None:
            reason = (
                f"CODE:{int(ResponseCode.CONSUMER_NOT_ONLINE)} "
                f"DESC:the consumer group[{group}] not online"
            )
            return MessageTrack(group, TrackType.NOT_ONLINE, reason)
        if connections.consume_type == "CONSUME_ACTIVELY":
            return MessageTrack(group, TrackType.PULL)
        if not await _consumed(admin, message, group):
            return MessageTrack(group, TrackType.NOT_CONSUME_YET)
    except LanemqError as error:
        return MessageTrack(group, TrackType.UNKNOWN, str(error))
    if _filtered_out(connections, message):
        return MessageTrack(group, TrackType.CONSUMED_BUT_FILTERED)
    return MessageTrack(group, TrackType.CONSUMED)


async def _consumed(admin: AdminClient, message: StoredMessage, group: str) -> bool:
    address = str(message.store_host)
    stats = await admin.consume_stats(address, group, topic=message.topic)
    return any(
        queue.topic == message.topic
        and queue.queue_id == message.queue_id
        and offsets.consumer_offset > message.queue_offset
        for queue, offsets in stats.offset_table.items()
    )


def _filtered_out(connections: ConsumerConnection, message: StoredMessage) -> bool:
    subscription = connections.subscription_table.get(message.topic)
    if subscription is None or not subscription.tags_set:
        return False
    return message.tags not in subscription.tags_set and "*" not in subscription.tags_set
