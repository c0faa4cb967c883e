"""The logical queues of one broker, stored as members of its table of topics.

Source: RocketMQ 5.0.0-PREVIEW, TopicConfigManager; which writes its mapping and never reads it.
"""

from collections.abc import Mapping
from typing import final

import trio

from lanemq.storage import TopicTable, disk_problem
from lanemq.wire import fastjson
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.logical import (
    LOGICAL_BROKERS_MEMBER,
    LOGICAL_QUEUES_MAP_MEMBER,
    LogicalQueues,
    logical_queues_by_topic,
)

from ....logical.rules._mapping import TopicMapping
from ....logical.rules._refusals import refusal
from ....net._turns import LONG_PARTS

_Kept = tuple[TopicMapping, object]
"""A topic's mapping, and its JSON."""


@final
class StoredMappings:
    """The members of the table of topics that are about logical queues."""

    def __init__(self, topics: TopicTable) -> None:
        self._topics = topics
        self._as_json: dict[str, _Kept] = {}

    def load(self) -> tuple[dict[str, LogicalQueues], dict[str, int]]:
        """Return what is kept of each topic, and the number of brokers at which it is seen.

        Raises ``RemoteProtocolError``.
        """
        value = self._topics.member(LOGICAL_QUEUES_MAP_MEMBER)
        kept = logical_queues_by_topic({LOGICAL_QUEUES_MAP_MEMBER: value}) or {}
        said = self._topics.member(LOGICAL_BROKERS_MEMBER)
        brokers = said if isinstance(said, dict) else {}
        return kept, {topic: int(brokers.get(topic, 1)) for topic in kept}

    async def write(self, mappings: Mapping[str, TopicMapping], config: TopicConfig | None) -> None:
        """Write all mappings, and ``config`` with them, durably. Raises ``Refused``."""
        members = await self._members_of(mappings)
        configs = [config] if config is not None else []
        try:
            await self._topics.put_member(LOGICAL_QUEUES_MAP_MEMBER, members, configs)
        except OSError as error:
            raise refusal(f"the mapping cannot be written: {disk_problem(error)}") from error

    async def write_brokers(self, brokers: Mapping[str, int]) -> None:
        """Write the numbers of brokers, durably. Raises ``Refused``."""
        try:
            await self._topics.put_member(LOGICAL_BROKERS_MEMBER, brokers)
        except OSError as error:
            raise refusal(f"the mapping cannot be written: {disk_problem(error)}") from error

    async def _members_of(self, mappings: Mapping[str, TopicMapping]) -> dict[str, object]:
        """Return mappings as plain JSON by topic: an unchanged one is the same object again.

        Many of them, and long ones that have changed, are made in a thread.
        """
        known = self._as_json
        if len(mappings) < LONG_PARTS and all(
            one.queues.count < LONG_PARTS or _is_known(one, known) for one in mappings.values()
        ):
            self._as_json, members = _all_as_json(mappings, known)
        else:
            self._as_json, members = await trio.to_thread.run_sync(_all_as_json, mappings, known)
        return members


def _is_known(mapping: TopicMapping, known: Mapping[str, _Kept]) -> bool:
    found = known.get(mapping.topic)
    return found is not None and found[0] is mapping


def _all_as_json(
    mappings: Mapping[str, TopicMapping], known: Mapping[str, _Kept]
) -> tuple[dict[str, _Kept], dict[str, object]]:
    kept: dict[str, _Kept] = {}
    for topic, mapping in mappings.items():
        if _is_known(mapping, known):
            kept[topic] = known[topic]
        else:
            kept[topic] = mapping, fastjson.loads(mapping.queues.encode(), is_own=True)
    return kept, {topic: value for topic, (_, value) in kept.items()}
