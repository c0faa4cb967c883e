"""Logical queues of a fleet: every new topic becomes one set of them over all brokers.

How many logical queues a topic has is an operator's business from then on: a broker that joins the
fleet gets ends of those there are, and no more queues. Nothing is put back of a topic that has
logical queues anywhere: where a broker lacks it, it is being deleted, or the broker has joined.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import Credentials, Dial, LanemqError, dial_tcp
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.wire import DLQ_PREFIX, RETRY_PREFIX, queue_ids
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.logical import LogicalQueues, logical_queues_by_topic

LOGGER = get_logger("lanemq.proxy.fleet")

LOOK_S: Final = 0.5
"""Seconds between two looks for new topics, which brokers make when messages come."""


@final
@dataclass(frozen=True, slots=True)
class Seen:
    """The topics seen at one broker."""

    name: str
    address: str
    configs: Mapping[str, TopicConfig]
    mapped: Mapping[str, LogicalQueues]
    """The logical queues of each topic in which the broker has a part."""

    def has_all_mapped(self, topic: str) -> bool:
        """Return whether each of the broker's queues of the topic is in a logical one."""
        config, queues = self.configs[topic], self.mapped.get(topic)
        in_segments = {
            segment.queue_id
            for segment in (queues.segments if queues is not None else ())
            if segment.broker_name == self.name
        }
        return in_segments.issuperset(queue_ids(config.queue_count))


async def keep_logical(
    name_server: str,
    brokers: int,
    credentials: Credentials | None = None,
    dial: Dial = dial_tcp,
) -> None:
    """Make logical queues of the topics of a fleet of ``brokers`` brokers, until cancelled.

    ``credentials`` are an administrator's, for brokers with ACL; ``dial`` connects to the servers.
    """
    async with open_admin(name_servers=name_server, credentials=credentials, dial=dial) as admin:
        is_failing, is_balanced = False, False
        while True:
            try:
                seen = await _look(admin, brokers)
                if seen is not None and not is_balanced:
                    await _balance(admin, seen)
                    is_balanced = True
                is_failing = False
            except LanemqError as error:
                if not is_failing:  # a broker that is starting again, most likely
                    LOGGER.warning("new topics cannot be looked for, next try soon: %s", error)
                is_failing = True
            await trio.sleep(LOOK_S)


async def _look(admin: AdminClient, brokers: int) -> list[Seen] | None:
    """Look for new topics; returns what was found before, None while a broker is away."""
    info = await admin.cluster()
    masters = sorted((data.broker_addrs[0], name) for name, data in info.broker_addr_table.items())
    if len(masters) < brokers:
        return None  # queues of an absent broker are unknown, and must not be replaced
    seen = []
    for address, name in masters:
        table = await admin.topic_configs(address)
        mapped = logical_queues_by_topic(table.extra) or {}
        seen.append(Seen(name, address, table.topic_config_table, mapped))
    system = {*await admin.system_topics(masters[0][0]), *info.broker_addr_table}
    for topic in new_topics(seen, system):
        found = next(broker.configs[topic] for broker in seen if topic in broker.configs)
        if not any(topic in broker.mapped for broker in seen):
            for broker in seen:
                if topic not in broker.configs:
                    await admin.put_topic(broker.address, found)
        count = await admin.map_logical_queues(topic)
        LOGGER.info("topic %s: %d queues became logical queues", topic, count)
    return seen


def new_topics(seen: Sequence[Seen], system: set[str]) -> Iterator[str]:
    """Return the topics with queues that are to become logical ones: of new topics, and those that
    an operator has added to one that all brokers have.
    """
    for topic in sorted({topic for broker in seen for topic in broker.configs} - system):
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        having = [broker for broker in seen if topic in broker.configs]
        is_new = not any(topic in broker.mapped for broker in seen)
        is_whole = all(broker.has_all_mapped(topic) for broker in having)
        if is_new or (len(having) == len(seen) and not is_whole):
            yield topic


async def _balance(admin: AdminClient, seen: Sequence[Seen]) -> None:
    """Move some ends of logical queues to brokers that have joined."""
    for topic, index, destination in shares(seen):
        await admin.migrate_logical_queue(topic, index, destination)
        LOGGER.info("topic %s: logical queue %d continues at %s", topic, index, destination)


def shares(seen: Sequence[Seen]) -> Iterator[tuple[str, int, str]]:
    """Return the share of brokers without any part in logical queues: topic, index, broker name."""
    joined = [broker.name for broker in seen if not broker.mapped]
    for topic in sorted({topic for broker in seen for topic in broker.mapped}):
        ends = {
            segment.logical_index: broker.name
            for broker in seen
            for segment in (broker.mapped[topic].segments if topic in broker.mapped else ())
            if segment.broker_name == broker.name and segment.is_writable
        }
        for name in joined:
            for _ in range(len(ends) // len(seen)):
                counts = Counter(ends.values())
                fullest = max(counts, key=lambda one: (counts[one], one))
                index = max(index for index, one in ends.items() if one == fullest)
                ends[index] = name
                yield topic, index, name
