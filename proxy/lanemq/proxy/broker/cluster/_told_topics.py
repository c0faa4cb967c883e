"""The topics that a registration tells, with their logical queues."""

from collections.abc import Mapping
from dataclasses import replace
from typing import final

from attrs import define

from lanemq.wire import Permission
from lanemq.wire.bodies import DataVersion, TopicConfig, TopicConfigWrapper
from lanemq.wire.logical import (
    ClientView,
    LogicalListenerReport,
    LogicalQueueReport,
    LogicalQueues,
    TopicReport,
    gaps_beside,
    with_logical_queues,
)

from ..settings._config import BrokerConfig


@final
@define(eq=False, frozen=True, kw_only=True, repr=False)
class ToldTopics:
    """Topics as they were at one moment: nothing in it changes."""

    config: BrokerConfig
    listener: LogicalListenerReport | None
    table: Mapping[str, TopicConfig]
    known: Mapping[str, LogicalQueues]
    brokers: Mapping[str, int]
    version: DataVersion
    is_whole: bool

    @property
    def parts(self) -> int:
        """The number of topics and segments."""
        return len(self.table) + sum(queues.count for queues in self.known.values())

    def wrapper(self) -> TopicConfigWrapper:
        """Return the content of the registration. It takes 10 microseconds for each segment."""
        table, known, name_here = self.table, self.known, self.config.broker_name
        allowed = self.config.broker_permission
        if allowed & Permission.READ_WRITE != Permission.READ_WRITE:
            table = {name: restricted(topic, allowed) for name, topic in table.items()}
        mapped = {name: queues.of_broker(name_here) for name, queues in known.items()}
        # That the map is there at all says that this broker knows logical queues.
        extra = with_logical_queues({}, mapped) if mapped or self.is_whole else {}
        physical = self.config.physical_topics
        report = LogicalQueueReport(
            is_whole=self.is_whole,
            listener=self.listener,
            topics={
                name: TopicReport(
                    ClientView.PHYSICAL if name in physical else ClientView.LOGICAL,
                    gaps=gaps_beside(name_here, queues),
                    brokers=self.brokers[name],
                )
                for name, queues in known.items()
            },
        )
        return TopicConfigWrapper(table, self.version, report.added_to(extra))


def restricted(topic: TopicConfig, allowed: int) -> TopicConfig:
    """Return a topic with no more than the broker's own permission.

    (4.9.8 gives it all of the broker's, which would open a topic that is closed by itself.)
    """
    return replace(topic, perm=topic.perm & (allowed | ~Permission.READ_WRITE))
