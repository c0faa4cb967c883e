"""The permission to write to a topic at a broker, and that of the broker itself.

A topic's goes where no queue of it is written any more, so that nobody writes there who goes
direct, and comes back with the first queue that is to be written there.
"""

from dataclasses import replace

from lanemq.sdk.admin import AdminClient
from lanemq.wire import Permission
from lanemq.wire.bodies import TopicConfig

from ..kv import BROKER_PERMISSION, may_write
from ..order import QueueOrder
from ._queues import MovingQueues


def is_written(moving: MovingQueues, topic: str, broker: str) -> bool:
    """Return whether queues of a topic are written at a broker, or are on their way to it; also
    where that is not known."""
    moving.refresh()
    order = moving.orders.of(topic)
    return order is None or broker in order.ends() or broker in order.targets()


async def have_nobody_write(
    moving: MovingQueues, admin: AdminClient, broker: str, address: str, config: TopicConfig
) -> bool:
    """Take the permission to write to a topic away at a broker, unless a queue is written there;
    returns whether there was one. Raises ``LanemqError``.

    ``config`` is what the broker has of the topic now. A queue that begins to move there meanwhile
    gets the permission back, and its place: what it needs may have been put before.
    """
    topic = config.topic_name
    if not config.perm & Permission.WRITE or is_written(moving, topic, broker):
        return False
    changed = replace(config, perm=config.perm & ~Permission.WRITE, attributes=None)
    await admin.put_topic(address, changed)
    if is_written(moving, topic, broker):
        known = (await admin.topic_configs(address)).topic_config_table.get(topic, config)
        order = moving.orders.of(topic)
        queues = 0 if order is None else _queues_for(order, broker)
        changed = replace(
            known,
            read_queue_nums=max(known.read_queue_nums, queues),
            perm=known.perm | Permission.WRITE,
            attributes=None,
        )
        await admin.put_topic(address, changed)
    return True


def _queues_for(order: QueueOrder, broker: str) -> int:
    """Return how many queues a broker has at least, for those that move to it or have moved."""
    parts = [part for one in order.moved for part in (*one.parts, one.target) if part is not None]
    return max((part.queue_id + 1 for part in parts if part.broker == broker), default=0)


async def set_writable(admin: AdminClient, address: str, *, is_writable: bool) -> bool:
    """Give a broker its own permission to write, or take it away; returns whether that is a change.

    Without it the broker registers all topics as read-only at once, also those that are made later
    and, where it has a file of settings (``-c``), after a restart; it still takes what comes, but
    for messages sent back and those of topics with an ``orderConf``. Source: RocketMQ 4.9.7 and
    5.3.3, AdminBrokerProcessor.updateBrokerConfig, BrokerController.registerBrokerAll,
    AbstractSendMessageProcessor. Raises ``LanemqError``.
    """
    config = await admin.config(address)
    if may_write(config) == is_writable:
        return False
    told = config.get(BROKER_PERMISSION, "")
    others = int(told[:9]) & ~Permission.WRITE if told.isdecimal() else Permission.READ
    now = others | Permission.WRITE if is_writable else others
    await admin.update_config(address, {BROKER_PERMISSION: str(int(now))})
    return True
