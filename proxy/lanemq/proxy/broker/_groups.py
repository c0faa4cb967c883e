"""Subscription groups: their settings, and their creation at first use.

Source: RocketMQ 4.9.8, SubscriptionGroupManager.
"""

from typing import Final, final

from lanemq.storage import GroupTable
from lanemq.wire import (
    Refused,
    ResponseCode,
    SubscriptionGroupConfig,
    SystemGroup,
    group_name_problem,
)

from ._config import BrokerConfig

SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

# Present in every broker; tools and old clients use them without asking.
SYSTEM_GROUPS: Final = (
    SystemGroup.TOOLS_CONSUMER,
    SystemGroup.FILTERSRV_CONSUMER,
    SystemGroup.SELF_TEST_CONSUMER,
    SystemGroup.ONS_HTTP_PROXY,
    SystemGroup.ONSAPI_PULL,
    SystemGroup.ONSAPI_PERMISSION,
    SystemGroup.ONSAPI_OWNER,
)


@final
class Groups:
    """The groups of a broker, over the table that the store keeps."""

    def __init__(self, table: GroupTable, config: BrokerConfig) -> None:
        self._table = table
        self._config = config
        self.get = table.get
        """The settings of a group, or None; creates nothing."""
        for name in SYSTEM_GROUPS:
            if table.get(name) is None:
                table.put(SubscriptionGroupConfig(group_name=name))

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        """The settings of a group; one that is not known is created, where that is allowed.

        A name that is no legal group name is never created (the reference creates any).
        """
        config = self.get(name)
        if config is None and (
            self._config.auto_create_subscription_group or name.startswith(SYSTEM_GROUP_PREFIX)
        ):
            if group_name_problem(name) is not None:
                return None
            config = SubscriptionGroupConfig(group_name=name)
            self._table.put(config)
        return config

    def require(self, name: str) -> SubscriptionGroupConfig:
        """As ``find``; raises ``Refused`` (SUBSCRIPTION_GROUP_NOT_EXIST) instead of None."""
        config = self.find(name)
        if config is None:
            remark = f"subscription group not exist, {name}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return config
