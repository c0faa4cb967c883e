"""The creation, change and deletion of topics by operators.

Source: RocketMQ 4.9.8, AdminBrokerProcessor; TopicValidator (the names); 5.3.3 for 351.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import final

import trio
from attrs import define

from lanemq.local import get_logger
from lanemq.wire import Refused, ResponseCode, SystemTopic
from lanemq.wire.bodies import (
    TopicConfig,
    TopicConfigList,
    TopicFilterType,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    CreateTopic,
    DeleteTopic,
)
from lanemq.wire.logical import MIGRATION_IN_PROGRESS

from ...logical.rules._map_changes import mapped_queues
from ...net._session import Session
from ...net._turns import for_turns
from ..logical.state._state import LogicalState
from ..state._light_queues import LightQueues
from ..state._topics import Topics
from ..values._attributes import topic_attributes

LOGGER = get_logger("lanemq.proxy.admin", by_peers=True)


@final
@define(eq=False, kw_only=True, repr=False)
class TopicSettings:
    """The creation, change and deletion of topics."""

    _announced: Callable[[], Awaitable[None]]
    _commit_all: Callable[[], Awaitable[None]]
    _delete_topic: Callable[[str], None]
    _light_queues: LightQueues
    _logical: LogicalState
    _topics: Topics

    def put(self, header: CreateTopic, frame: Frame, session: Session) -> Awaitable[Frame]:
        """Create a topic or change it; unlike 4.9.8, which forgets it, ``order`` is kept.

        The answer waits, but not for long, until the name servers that are up know of it: the
        next sender finds a route. (``AdminBrokerProcessor`` registers before it answers, too.)
        """
        self._put([self._config_of(header)], session)
        return self._once_announced(frame)

    def put_all(self, frame: Frame, session: Session) -> Awaitable[Frame]:
        """Create or change several topics, all or none of them, in turns of the loop."""
        return self._put_all(TopicConfigList.decode(frame.body).topic_config_list, frame, session)

    async def _put_all(
        self, topics: Sequence[TopicConfig], frame: Frame, session: Session
    ) -> Frame:
        configs = []
        for some in for_turns(topics):
            await trio.lowlevel.checkpoint()
            configs += [self._config_of(_as_header(topic)) for topic in some]
        for some in for_turns(configs):
            await trio.lowlevel.checkpoint()
            self._put(some, session)
        await self._commit_all()  # the turn of the read that brought them, with its write, is over
        return await self._once_announced(frame)

    def _put(self, configs: Iterable[TopicConfig], session: Session) -> None:
        for config in configs:
            LOGGER.info("topic %s put by %s: %s", config.topic_name, session.peer, config)
            self._topics.put(config)

    def _config_of(self, header: CreateTopic) -> TopicConfig:
        """Return the topic's settings as they shall be. Raises ``Refused``."""
        self._topics.check_users_own(header.topic)
        self._topics.check_queues(header.read_queue_nums, header.write_queue_nums)
        if header.topic_filter_type not in set(TopicFilterType):
            names = " or ".join(TopicFilterType)
            remark = f"the filter type of a topic is {names}, not {header.topic_filter_type[:40]!r}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        mapping = self._logical.get(header.topic)
        if mapping is not None:
            queues = mapped_queues(mapping)
            if min(header.read_queue_nums, header.write_queue_nums) < queues:
                remark = (
                    f"logical queues need {queues} queues of the topic: migrate them away first"
                )
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        old = self._topics.get(header.topic)
        return replace(
            old or TopicConfig(header.topic),
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=topic_attributes(old, header.attributes or ""),
        )

    def delete(
        self, header: DeleteTopic, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        """Delete a topic and its queues. The groups' offsets in it stay, as in 4.9.8."""
        if header.topic not in self._light_queues:  # clients choose their names
            self._topics.check_deletable(header.topic)
        if self._logical.is_busy(header.topic):
            raise Refused(ResponseCode.SYSTEM_ERROR, MIGRATION_IN_PROGRESS)
        LOGGER.info("topic %s deleted by %s", header.topic, session.peer)
        self._delete_topic(header.topic)
        if self._logical.get(header.topic) is not None:
            return self._forget_logical(header.topic, frame)
        return frame.reply()

    async def _forget_logical(self, topic: str, frame: Frame) -> Frame:
        await self._logical.forget(topic)
        return await self._once_announced(frame)

    async def _once_announced(self, frame: Frame) -> Frame:
        await self._announced()
        return frame.reply()


def _as_header(topic: TopicConfig) -> CreateTopic:
    """Return the request that creates one topic of a list."""
    parts = []
    for name, value in (topic.attributes or {}).items():
        if name.startswith("-"):
            parts.append(name)
        else:
            parts.append(f"+{name.removeprefix('+')}={value}")
    attributes = ",".join(parts)
    return CreateTopic(
        topic=topic.topic_name,
        default_topic=SystemTopic.AUTO_CREATE,
        read_queue_nums=topic.read_queue_nums,
        write_queue_nums=topic.write_queue_nums,
        perm=topic.perm,
        topic_filter_type=topic.topic_filter_type,
        topic_sys_flag=topic.topic_sys_flag,
        order=topic.order,
        attributes=attributes or None,
    )
