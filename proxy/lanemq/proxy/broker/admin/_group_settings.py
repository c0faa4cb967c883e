"""Operators' requests about the settings of groups: one, several, all.

Source: RocketMQ 4.9.8, AdminBrokerProcessor; 5.3.3 for 225 and 352.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import final

import trio
from attrs import define

from lanemq.local import get_logger
from lanemq.storage import ConfigTables
from lanemq.wire import (
    Refused,
    ResponseCode,
    group_name_problem,
    has_only_offsets,
    is_system_group,
)
from lanemq.wire.bodies import (
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    DeleteSubscriptionGroup,
    GetSubscriptionGroupConfig,
)

from ...net._session import Session
from ...net._turns import PART_BYTES, for_turns, reply_with
from ...sessions.state._stages import MEMBER as STAGES
from ...sessions.state._stages import GroupStages, stages_of
from ..state._groups import SETTINGS_BYTES_MAX, Groups
from ..state._stats import BrokerStatistics
from ..state._topics import Topics
from ..values._attributes import with_attributes

LOGGER = get_logger("lanemq.proxy.admin", by_peers=True)


@final
@define(eq=False, kw_only=True, repr=False)
class GroupSettings:
    """The settings of groups."""

    _commit_all: Callable[[], Awaitable[None]]
    _groups: Groups
    _stages: GroupStages
    _statistics: BrokerStatistics
    _tables: ConfigTables
    _topics: Topics

    def put(self, frame: Frame, session: Session) -> Frame:
        """Create a group or change it. Raises ``Refused``, also for settings that are too long."""
        _check_size(frame.body)
        self._put([self._checked(SubscriptionGroupConfig.decode(frame.body))], session)
        return frame.reply()

    async def put_all(self, frame: Frame, session: Session) -> Frame:
        """Create or change several groups, all or none of them, in turns of the loop. Raises as
        ``put``."""
        checked = []
        groups = SubscriptionGroupList.decode(frame.body).group_config_list
        for some in for_turns(groups):
            await trio.lowlevel.checkpoint()
            for group in some:
                _check_size(group.encode())
                checked.append(self._checked(group))
        for some in for_turns(checked):
            await trio.lowlevel.checkpoint()
            self._put(some, session)
        await self._commit_all()  # the turn of the read that brought them, with its write, is over
        return frame.reply()

    def _put(self, configs: Iterable[SubscriptionGroupConfig], session: Session) -> None:
        for config in configs:
            self._groups.put(self._with_stages(config))
            LOGGER.info("group %s put by %s: %s", config.group_name, session.peer, config)

    def _checked(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Return settings that may be kept. Raises ``Refused``."""
        problem = group_name_problem(config.group_name)
        if problem is None and has_only_offsets(config.group_name):
            problem = f"offsets are kept under the name {config.group_name}: it is no group's"
        if problem is not None:
            raise Refused(ResponseCode.SYSTEM_ERROR, problem)
        self._topics.check_queues(max(config.retry_queue_nums, 0))
        config = with_attributes(self._groups.get(config.group_name), config)
        try:
            stages_of(config)
        except ValueError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        return config

    def configs(self, frame: Frame, session: Session) -> Frame | Awaitable[Frame]:
        table = dict(self._tables.groups.configs)
        wrapper = SubscriptionGroupWrapper(table, self._tables.groups.data_version)
        parts = len(table) + self._groups.large_bytes // PART_BYTES
        return reply_with(frame, session, wrapper, parts)

    def config_of(
        self, header: GetSubscriptionGroupConfig, frame: Frame, session: Session
    ) -> Frame:
        config = self._groups.get(header.group)
        if config is None:
            remark = f"No group in this broker. group:{header.group}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return frame.reply(body=config.encode())

    def delete(self, header: DeleteSubscriptionGroup, frame: Frame, session: Session) -> Frame:
        """Delete a group's settings, and its offsets where that is asked for. Raises ``Refused``
        for a group of the brokers' own, whose offsets say what is done with already."""
        if is_system_group(header.group_name):
            remark = f"{header.group_name} is a group of the brokers' own, and is not deleted"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        LOGGER.info("group %s deleted by %s", header.group_name, session.peer)
        self._groups.remove(header.group_name)
        if header.remove_offset or header.clean_offset:
            self._tables.consumer_offsets.remove_group(header.group_name)
            self._stages.forget(header.group_name)
        self._statistics.forget_group(header.group_name)
        return frame.reply()

    def _with_stages(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Check the stages of new settings; the old ones stay where none are given.

        Tools that know of no stages send settings without, and mean something else by it. Counting
        begins again for a group that had none. Raises ``Refused``.
        """
        old = self._groups.get(config.group_name)
        kept = old.extra.get(STAGES) if old is not None else None
        if STAGES not in config.extra and kept is not None:
            config = replace(config, extra={**config.extra, STAGES: kept})
        try:
            stages = stages_of(config)
        except ValueError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        if stages and not kept:
            self._stages.forget(config.group_name)
        return config


def _check_size(settings: bytes) -> None:
    if len(settings) > SETTINGS_BYTES_MAX:
        remark = (
            f"the settings of a group have {len(settings)} bytes, at most "
            f"{SETTINGS_BYTES_MAX} are kept"
        )
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
