"""Makes every topic of a fleet one set of logical queues over all its brokers."""

import logging
from collections.abc import Mapping
from typing import Final

import trio

from lanemq.sdk import LanemqError
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.wire import DLQ_PREFIX, RETRY_PREFIX, TopicConfig
from lanemq.wire.logical import LogicalQueues, logical_queues_by_topic

LOGGER = logging.getLogger("lanemq.proxy.fleet")

LOOK_S: Final = 0.5
"""Between two looks for new topics: brokers make them when messages come."""


async def keep_logical(name_server: str, brokers: int) -> None:
    """Have each topic on all ``brokers``, with all its queues in logical ones; until cancelled."""
    async with open_admin(name_servers=name_server) as admin:
        is_failing = False
        while True:
            try:
                await _look(admin, brokers)
                is_failing = False
            except LanemqError as error:
                if not is_failing:  # a broker that is starting again, most likely
                    LOGGER.warning("topics are not looked after for the moment: %s", error)
                is_failing = True
            await trio.sleep(LOOK_S)


async def _look(admin: AdminClient, brokers: int) -> None:
    info = await admin.cluster()
    masters = sorted(data.broker_addrs[0] for data in info.broker_addr_table.values())
    if len(masters) < brokers:
        return  # what is not known of a broker must not be made up for
    tables = {address: await admin.topic_configs(address) for address in masters}
    mapped = {
        address: logical_queues_by_topic(table.extra) or {} for address, table in tables.items()
    }
    configs = {address: table.topic_config_table for address, table in tables.items()}
    system = set(await admin.system_topics(masters[0]))
    for topic in sorted({topic for table in configs.values() for topic in table} - system):
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or topic in info.broker_addr_table:
            continue
        if _is_whole(topic, configs, mapped):
            continue
        found = next(table[topic] for table in configs.values() if topic in table)
        for address in masters:
            if topic not in configs[address]:
                await admin.put_topic(address, found)
        count = await admin.map_logical_queues(topic)
        LOGGER.info("topic %s: %d queues became logical queues", topic, count)


def _is_whole(
    topic: str,
    configs: Mapping[str, Mapping[str, TopicConfig]],
    mapped: Mapping[str, Mapping[str, LogicalQueues]],
) -> bool:
    """Whether every broker has the topic, and each of its queues is in a logical one."""
    for address, table in configs.items():
        config = table.get(topic)
        queues = mapped[address].get(topic)
        if config is None or queues is None:
            return False
        in_segments = {segment.queue_id for segment in queues.segments}
        if not set(range(max(config.read_queue_nums, config.write_queue_nums))) <= in_segments:
            return False
    return True
