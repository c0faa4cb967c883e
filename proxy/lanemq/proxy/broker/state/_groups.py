"""Subscription groups: their settings, and their creation at first use.

Source: RocketMQ 4.9.8, SubscriptionGroupManager.
"""

from typing import Final, final

from lanemq.storage import ConfigTables
from lanemq.wire import (
    SYSTEM_GROUP_PREFIX,
    Refused,
    ResponseCode,
    SystemGroup,
    fastjson,
    group_name_problem,
    has_only_offsets,
)
from lanemq.wire.bodies import SubscriptionGroupConfig

from ...net._loop_watch import asking_host
from ..settings._config import BrokerConfig
from ._creations import Creations

SETTINGS_BYTES_MAX: Final = 32 << 10
"""Longest settings of a group, as JSON without blanks. What 5.x adds takes some hundred bytes, and
a hundred for each topic where an operator fixes the subscriptions."""
SETTINGS_VALUES_MAX: Final = 4096
"""Most values in them; in memory each costs up to a hundred bytes."""
USUAL_SETTINGS_BYTES: Final = 1024
LARGE_SETTINGS_BYTES_MAX: Final = 8 << 20
"""Most that the settings of all groups have beyond ``USUAL_SETTINGS_BYTES`` for each of them: all
are in memory, and are written and answered together."""

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

    def __init__(self, tables: ConfigTables, config: BrokerConfig) -> None:
        self._tables = tables
        self._table = table = tables.groups
        self._config = config
        self.get = table.get
        """Returns the settings of a group, or None; creates nothing."""
        self._creations = Creations("group", table.configs.__len__, asking_host)
        self._large = dict[str, int]()
        """Name -> bytes beyond the usual, of the groups that have such."""
        self.large_bytes = 0
        """All of these bytes together."""
        for name, kept in table.configs.items():
            if kept.extra:
                self._note_size(name, len(kept.encode()))
        for name in SYSTEM_GROUPS:
            if table.get(name) is None:
                table.put(SubscriptionGroupConfig(group_name=name))

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        """Return the settings of a group; an unknown one is created, where that is allowed.

        A name that is not a legal group name is never created (the reference creates any), nor is
        a shadow group, of which there are offsets alone, or one beyond the share of a client's
        address.
        """
        config = self.get(name)
        if config is None and self._is_made(name) and self._creations.has_room:
            self._creations.created(name)
            config = SubscriptionGroupConfig(group_name=name)
            # The write need not be awaited: after a crash it is created once more.
            self._table.put(config, at_once=False)
        return config

    def _is_made(self, name: str) -> bool:
        """Return whether a group is created at its first use."""
        is_open = self._config.auto_create_subscription_group
        is_open = is_open or name.startswith(SYSTEM_GROUP_PREFIX)
        is_open = is_open and not has_only_offsets(name)
        return is_open and group_name_problem(name) is None

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Create or change a group for an operator.

        It is written before those are answered whose requests came with this one. Raises
        ``Refused`` for settings beyond the bounds above.
        """
        name, text = config.group_name, config.encode()
        values = fastjson.most_values(text)
        if len(text) > SETTINGS_BYTES_MAX or values > SETTINGS_VALUES_MAX:
            remark = (
                f"the settings of group {name} have {len(text)} bytes and up to {values} values, "
                f"at most {SETTINGS_BYTES_MAX} and {SETTINGS_VALUES_MAX} are kept of a group"
            )
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        others = self.large_bytes - self._large.get(name, 0)
        beyond = len(text) - USUAL_SETTINGS_BYTES
        if beyond > 0 and others + beyond > LARGE_SETTINGS_BYTES_MAX:
            remark = (
                f"{len(self._large)} groups have settings of more than {USUAL_SETTINGS_BYTES} "
                f"bytes, with {others} bytes beyond that; at most {LARGE_SETTINGS_BYTES_MAX} are "
                "kept: make some of them shorter, or delete groups"
            )
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        self._note_size(name, len(text))
        self._table.put(config, at_once=False)
        self._tables.want(self._table, name)

    def _note_size(self, name: str, size_bytes: int) -> None:
        self.large_bytes -= self._large.pop(name, 0)
        if size_bytes > USUAL_SETTINGS_BYTES:
            self._large[name] = size_bytes - USUAL_SETTINGS_BYTES
            self.large_bytes += self._large[name]

    def remove(self, name: str) -> None:
        """Forget a group; written as with ``put``."""
        self._note_size(name, 0)
        self._table.remove(name, at_once=False)
        self._creations.removed(name)
        self._tables.want(self._table, name)

    def require(self, name: str) -> SubscriptionGroupConfig:
        """Find a group as ``find``; raises ``Refused`` (SUBSCRIPTION_GROUP_NOT_EXIST, or
        SYSTEM_BUSY beyond the share of a client's address) instead of None."""
        config = self.find(name)
        if config is None:
            if self._is_made(name):
                self._creations.require_room()
            remark = f"subscription group not exist, {name}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return config
