"""Surveys of logical queues: every master is asked, and the name server for those away."""

from dataclasses import dataclass
from typing import final

from lanemq.wire import ResponseCode
from lanemq.wire.logical import LogicalQueues, logical_queues_by_topic

from ..._errors import BrokerUnreachable, LanemqError, RefusedByBroker, RequestTimedOut
from ..._tasks import open_quiet_nursery
from ..requests._servers import ServerRequests, masters_by_name
from ._spread import Topics
from ._view import BrokerView, ClusterTopic


@final
@dataclass(frozen=True, slots=True)
class Survey:
    """A topic as all masters see it."""

    view: ClusterTopic
    away: dict[str, LanemqError]
    """Registered masters that did not answer, by name."""


async def survey(admin: ServerRequests, topic: str, *, cluster: str | None = None) -> Survey:
    """Ask all masters, of ``cluster`` or of all clusters, about one topic.

    Raises ``UnknownCluster``, and what asking the name server raises.
    """
    masters = await masters_by_name(admin, cluster)
    views: list[BrokerView] = []
    away: dict[str, LanemqError] = {}

    async def ask(name: str, address: str) -> None:
        try:
            views.append(await _ask(admin, name, address, topic))
        except (BrokerUnreachable, RequestTimedOut) as error:
            away[name] = error

    async with open_quiet_nursery() as nursery:
        for name, address in masters.items():
            nursery.start_soon(ask, name, address)
    try:
        routed = await admin.routed_logical_queues(topic)
    except RefusedByBroker as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        routed = None
    return Survey(ClusterTopic(topic, tuple(views), routed.segments if routed else ()), away)


async def _ask(admin: ServerRequests, name: str, address: str, topic: str) -> BrokerView:
    try:
        config = await admin.topic_config(address, topic)
    except RefusedByBroker:  # 351 is how a broker says that it has no such topic
        return BrokerView(name, address)
    mapping = await admin.logical_queues(address, topic)
    return BrokerView(name, address, config.queue_count, mapping)


@final
@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """All topics of a cluster."""

    brokers: dict[str, str]
    """Masters that answered: name -> address."""
    away: dict[str, LanemqError]
    logical: dict[str, ClusterTopic]
    """Topics with logical queues."""
    physical: dict[str, set[str]]
    """Other topics: name -> brokers that have them."""
    clusters: tuple[str, ...]
    """All clusters that the name server knows."""

    def chains(self) -> Topics:
        """Return the chains of all logical queues, by topic and index."""
        return {topic: view.chains() for topic, view in self.logical.items()}


async def survey_all(admin: ServerRequests, *, cluster: str | None = None) -> ClusterSurvey:
    """Ask every master for all its topics, one request each. Raises as ``survey``."""
    masters = await masters_by_name(admin, cluster)
    found: dict[str, tuple[dict[str, int], dict[str, LogicalQueues]]] = {}
    away: dict[str, LanemqError] = {}

    async def ask(name: str, address: str) -> None:
        try:
            wrapper = await admin.topic_configs(address)
        except (BrokerUnreachable, RequestTimedOut) as error:
            away[name] = error
            return
        queues = {topic: one.queue_count for topic, one in wrapper.topic_config_table.items()}
        found[name] = queues, logical_queues_by_topic(wrapper.extra) or {}

    async with open_quiet_nursery() as nursery:
        for name, address in masters.items():
            nursery.start_soon(ask, name, address)
    logical_topics = sorted({topic for _, queues in found.values() for topic in queues})
    logical = {
        topic: ClusterTopic(
            topic,
            tuple(
                BrokerView(name, masters[name], counts.get(topic, 0), queues.get(topic))
                for name, (counts, queues) in found.items()
            ),
        )
        for topic in logical_topics
    }
    physical: dict[str, set[str]] = {}
    for name, (counts, _) in found.items():
        for topic in counts:
            if topic not in logical:
                physical.setdefault(topic, set()).add(name)
    clusters = tuple((await admin.cluster()).cluster_addr_table)
    brokers = {name: masters[name] for name in sorted(found)}
    return ClusterSurvey(brokers, away, logical, physical, clusters)
