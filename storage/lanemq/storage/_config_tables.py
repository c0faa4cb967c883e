"""Topics and groups: name -> configuration. A change of one is written at once.

Source: RocketMQ 4.9.8, TopicConfigManager, SubscriptionGroupManager.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, TypeVar, final

from lanemq.wire import RemoteProtocolError, SubscriptionGroupConfig, TopicConfig

from ._table import Backend, Table

TOPIC_MEMBER = "topicConfigTable"
GROUP_MEMBER = "subscriptionGroupTable"

Config = TypeVar("Config", TopicConfig, SubscriptionGroupConfig)


class _ConfigTable(Table, Generic[Config]):
    """Name -> configuration."""

    _decode: Callable[[object], Config]

    def __init__(self, backend: Backend, clock_ms: Callable[[], int]) -> None:
        super().__init__(backend, clock_ms)
        self._configs: dict[str, Config] = {}

    def load(self, *, after_crash: bool) -> None:
        """Raises ``ConfigInvalid`` naming file and entry."""
        for name, value in self._load(after_crash=after_crash).items():
            try:
                self._configs[name] = type(self)._decode(value)
            except RemoteProtocolError as error:
                raise self._invalid(name, error) from error

    @property
    def configs(self) -> Mapping[str, Config]:
        """The table itself, to be looked at."""
        return MappingProxyType(self._configs)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._configs)

    def get(self, name: str) -> Config | None:
        return self._configs.get(name)

    def _put(self, name: str, config: Config) -> None:
        self._configs[name] = config
        self._change(name)

    def remove(self, name: str) -> bool:
        """Whether it was there. Raises ``OSError`` where it cannot be written."""
        if self._configs.pop(name, None) is None:
            return False
        self._change(name)
        return True

    def _change(self, name: str) -> None:
        self._step()
        self._touch(name)
        if self.backend.at_once:
            self.persist()

    def entries(self) -> Mapping[Any, object]:
        return dict(self._configs)

    def entry(self, name: str) -> object | None:
        return self._configs.get(name)


@final
class TopicTable(_ConfigTable[TopicConfig]):
    """``config/topics.json``, or ``config/topics`` in RocksDB."""

    _decode = TopicConfig.from_json

    def put(self, config: TopicConfig) -> None:
        """Add or replace a topic. Raises ``OSError`` where it cannot be written."""
        self._put(config.topic_name, config)

    def member(self, name: str) -> object | None:
        """What is kept beside the table under ``name``; None where there is nothing."""
        return self._others.get(name)

    async def put_member(
        self, name: str, value: object, configs: Iterable[TopicConfig] = ()
    ) -> None:
        """Replace what is kept under ``name``, and topics with it, durably and in one write.

        ``value`` is JSON and must not be changed any more. Raises ``OSError``; then all is as it
        was before.
        """
        old_value, new = self._others.get(name), list(configs)
        old = {config.topic_name: self._configs.get(config.topic_name) for config in new}
        self._others[name] = value
        self.others_changed = True
        self._configs.update((config.topic_name, config) for config in new)
        self._step()
        for config in new:
            self._touch(config.topic_name)
        self._dirty = True
        try:
            self.persist()
            await self.backend.sync()
        except OSError:
            for topic, previous in old.items():
                if previous is None:
                    self._configs.pop(topic, None)
                else:
                    self._configs[topic] = previous
                self._touch(topic)
            if old_value is None:
                self._others.pop(name, None)
            else:
                self._others[name] = old_value
            self.others_changed = self._dirty = True
            self._step()
            with suppress(OSError):  # the next change tries again
                self.persist()
            raise
        # A registration that was made during the write may have told this version already, and
        # without what was written: name servers would pass over the one that brings it.
        self._step()


@final
class GroupTable(_ConfigTable[SubscriptionGroupConfig]):
    """``config/subscriptionGroup.json``, or ``config/subscriptionGroups`` in RocksDB."""

    _decode = SubscriptionGroupConfig.from_json

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Add or replace a group. Raises ``OSError`` where it cannot be written."""
        self._put(config.group_name, config)
