"""The requests for lists of topics; long ones are made in turns.

Source: RocketMQ 4.9.8, DefaultRequestProcessor of the name server.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import final

from lanemq.wire import KV_PREFIX, RequestCode, TopicSysFlag
from lanemq.wire.bodies import TopicList
from lanemq.wire.frame import Frame
from lanemq.wire.headers import GetTopicsByCluster

from ..net._dispatch import Handlers, typed
from ..net._session import Session
from ..net._turns import all_steps, encode_beside, step_by_step
from .routes._rows import Row
from .routes._table import RouteTable

Steps = Generator[None, None, list[str]]


@final
class TopicLists:
    """The handlers over one route table."""

    def __init__(self, routes: RouteTable) -> None:
        self._routes = routes

    def add_to(self, handlers: Handlers) -> None:
        """Register every handler under its code."""
        add = handlers.add
        add(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, self._all)
        add(RequestCode.GET_TOPICS_BY_CLUSTER, typed(GetTopicsByCluster, self._of_cluster))
        add(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, self._system)
        add(RequestCode.GET_UNIT_TOPIC_LIST, self._by_unit(unit=True, unit_sub=None))
        add(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, self._by_unit(unit=None, unit_sub=True))
        add(
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
            self._by_unit(unit=False, unit_sub=True),
        )

    def _all(self, frame: Frame, session: Session) -> Frame | Awaitable[Frame]:
        return self._listed(frame, session, self._routes.topics_in_steps())

    def _of_cluster(
        self, header: GetTopicsByCluster, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        return self._listed(frame, session, topics_of_cluster(self._routes, header.cluster))

    def _system(self, frame: Frame, session: Session) -> Frame:
        topics, address = self._routes.system_topics()
        return frame.reply(body=TopicList(tuple(topics), address).encode())

    def _by_unit(
        self, *, unit: bool | None, unit_sub: bool | None
    ) -> Callable[[Frame, Session], Frame | Awaitable[Frame]]:
        def handle(frame: Frame, session: Session) -> Frame | Awaitable[Frame]:
            steps = topics_by_unit(self._routes, unit=unit, unit_sub=unit_sub)
            return self._listed(frame, session, steps)

        return handle

    def _listed(self, frame: Frame, session: Session, steps: Steps) -> Frame | Awaitable[Frame]:
        if self._routes.is_quick:
            return frame.reply(body=TopicList(tuple(all_steps(steps))).encode())
        return _listed_later(frame, session, steps)


async def _listed_later(frame: Frame, session: Session, steps: Steps) -> Frame:
    topics = await step_by_step(steps)
    body = await encode_beside(session, TopicList(tuple(topics)), len(topics))
    return frame.reply(body=body)


def topics_of_cluster(routes: RouteTable, cluster: str) -> Steps:
    """Find the topics that a broker of ``cluster`` has; none for an unknown cluster."""
    names = routes.brokers_of(cluster)
    return routes.matching(
        lambda topic, rows: not names.isdisjoint(rows) and not topic.startswith(KV_PREFIX)
    )


def topics_by_unit(routes: RouteTable, *, unit: bool | None, unit_sub: bool | None) -> Steps:
    """Find the topics whose unit flags are as given (None: either), judged by their first
    broker."""

    def matches(topic: str, rows: Mapping[str, Row]) -> bool:
        flag = next(iter(rows.values())).topic_sys_flag
        wanted = ((TopicSysFlag.UNIT, unit), (TopicSysFlag.UNIT_SUB, unit_sub))
        return all(want is None or bool(flag & bit) == want for bit, want in wanted)

    return routes.matching(matches)
