"""The logical queues of one broker, stored as members of its table of topics.

Source: RocketMQ 5.0.0-PREVIEW, TopicConfigManager; which writes its mapping and never reads it.
"""

from collections.abc import Mapping
from typing import final

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


@final
class StoredMappings:
    """The members of the table of topics that are about logical queues."""

    def __init__(self, topics: TopicTable) -> None:
        self._topics = topics
        self._as_json: dict[str, tuple[TopicMapping, object]] = {}

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
        if len(self._as_json) > 2 * len(mappings):
            self._as_json.clear()
        members = {topic: self._json_of(mapping) for topic, mapping in mappings.items()}
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

    def _json_of(self, mapping: TopicMapping) -> object:
        """Return a topic's mapping as plain JSON: the same object as long as it is unchanged."""
        known = self._as_json.get(mapping.topic)
        if known is None or known[0] is not mapping:
            text = mapping.queues.encode()
            known = self._as_json[mapping.topic] = mapping, fastjson.loads(text, is_own=True)
        return known[1]
