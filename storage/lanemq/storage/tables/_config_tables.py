"""Topics and groups: name -> configuration. A change of one is written at once.

Source: RocketMQ 4.9.8, TopicConfigManager, SubscriptionGroupManager.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar, final

from lanemq.wire import RemoteProtocolError, fastjson
from lanemq.wire.bodies import SubscriptionGroupConfig, TopicConfig

from ._table import ENTRY_LEVELS, Backend, Table

TOPIC_MEMBER = "topicConfigTable"
GROUP_MEMBER = "subscriptionGroupTable"

Config = TypeVar("Config", TopicConfig, SubscriptionGroupConfig)


class _ConfigTable(Table, Generic[Config]):
    """A table of name -> configuration."""

    _decode: Callable[[object], Config]

    def __init__(self, backend: Backend, clock_ms: Callable[[], int]) -> None:
        super().__init__(backend, clock_ms)
        self._configs: dict[str, Config] = {}
        self._texts: dict[str, bytes] = {}
        """The members of the file, in the order of ``_configs``; of stale ones, their places."""

    def load(self, *, after_crash: bool) -> None:
        """Read the table. Raises ``ConfigInvalid`` naming file and entry."""
        for name, value in self._load(after_crash=after_crash).items():
            try:
                self._configs[name] = type(self)._decode(value)
            except RemoteProtocolError as error:
                raise self._invalid(name, error) from error
            self._place(name)
        self._encode_all()  # encoded now, not in a later turn of the loop
        self.others_written()

    @property
    def configs(self) -> Mapping[str, Config]:
        """The table itself, for reading only."""
        return MappingProxyType(self._configs)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._configs)

    def get(self, name: str) -> Config | None:
        return self._configs.get(name)

    def _put(self, name: str, config: Config, *, at_once: bool) -> None:
        self._set(name, config)
        if self.backend.writes_all:
            # Encoded now, in the turn of its peer: others would pay for what waits unwritten.
            self._encode(name)
            self._stale.pop(name, None)
        self._step()
        self._write(name, at_once=at_once)

    def remove(self, name: str, *, at_once: bool = True) -> bool:
        """Remove an entry; return whether it was there. Raises ``OSError`` as ``put``."""
        if name not in self._configs:
            return False
        self._unset(name)
        self._step()
        self._write(name, at_once=at_once)
        return True

    def _set(self, name: str, config: Config) -> None:
        self._configs[name] = config
        self._place(name)
        self._touch(name)

    def _unset(self, name: str) -> None:
        self._configs.pop(name, None)
        self._texts.pop(name, None)
        self._touch(name)

    def _place(self, name: str) -> None:
        if self.backend.writes_all:
            self._texts.setdefault(name, b"")
            self._stale[name] = None

    def _write(self, name: str, *, at_once: bool) -> None:
        if at_once and self.backend.at_once:
            self._persist_one(name)

    def entries(self) -> object:
        self._encode_all()  # what came with a member beside the table: it is in one write with it
        return fastjson.WrittenObject(self._texts.values(), levels=ENTRY_LEVELS)

    def _encode(self, key: str) -> int:
        config = self._configs.get(key)
        if config is None:
            return 0
        text = self._texts[key] = fastjson.dump_named(key, config, levels=ENTRY_LEVELS)
        return len(text)

    def values(self) -> Mapping[Any, object]:
        return dict(self._configs)

    def entry(self, name: str) -> object | None:
        return self._configs.get(name)


@final
class TopicTable(_ConfigTable[TopicConfig]):
    """``config/topics.json``, or ``config/topics`` in RocksDB."""

    _decode = TopicConfig.from_json

    def __init__(self, backend: Backend, clock_ms: Callable[[], int]) -> None:
        super().__init__(backend, clock_ms)
        self._members_written: dict[str, dict[str, tuple[object, bytes]]] = {}
        """Member -> name -> the value given to ``put_member``, as the file has it."""

    def put(self, config: TopicConfig, *, at_once: bool = True) -> None:
        """Add or replace a topic.

        Without ``at_once`` it is written by the next ``persist``. Raises ``OSError`` where it
        cannot be written; the change is kept, and written later.
        """
        self._put(config.topic_name, config, at_once=at_once)

    def member(self, name: str) -> object | None:
        """Return the member kept beside the table under ``name``; None where there is none."""
        return self._others.get(name)

    def _encode_other(self, name: str, value: object) -> object:
        if name not in self._members_written or not isinstance(value, dict):
            return super()._encode_other(name, value)
        self._members_written[name], written = self._member_written(name, value)
        return written

    def _member_written(
        self, name: str, value: dict[str, object]
    ) -> tuple[dict[str, tuple[object, bytes]], fastjson.WrittenObject]:
        """Encode the entries of a member that are other objects than before; return all, and the
        member."""
        known = self._members_written.get(name, {})
        written: dict[str, tuple[object, bytes]] = {}
        for key, entry in value.items():
            if entry is None:
                continue
            found = known.get(key)
            if found is None or found[0] is not entry:
                found = entry, fastjson.dump_named(key, entry, levels=ENTRY_LEVELS)
            written[key] = found
        texts = (text for _, text in written.values())
        return written, fastjson.WrittenObject(texts, levels=ENTRY_LEVELS)

    def _encode_member(
        self, name: str, value: object
    ) -> tuple[dict[str, tuple[object, bytes]], object] | None:
        """Encode a member ahead of its write; in a thread, in which nothing here may change."""
        self.backend.prepare({**self._others, name: value})
        if not self.backend.writes_all or not isinstance(value, dict):
            return None
        return self._member_written(name, value)

    async def put_member(
        self, name: str, value: object, configs: Iterable[TopicConfig] = ()
    ) -> None:
        """Replace the member ``name``, and topics with it, durably and in one write.

        ``value`` is plain JSON and must no longer be changed. Of an object, only those entries
        are encoded again that are other objects than before, in a thread: their time grows with
        the whole member. Raises ``OSError``; then all is as it was before.
        """
        encoded = await self.backend.beside(partial(self._encode_member, name, value))
        old_value, new = self._others.get(name), list(configs)
        old = {config.topic_name: self._configs.get(config.topic_name) for config in new}
        self._others[name] = value
        self._members_written.setdefault(name, {})
        if encoded is not None:
            self._members_written[name], self._others_known[name] = encoded[0], (value, encoded[1])
        self.others_changed = True
        for config in new:
            self._set(config.topic_name, config)
        self._step()
        self._dirty = True
        try:
            await self.persist_in_turns()
            await self.backend.sync()
        except OSError:
            for config in new:
                topic, previous = config.topic_name, old[config.topic_name]
                if self._configs.get(topic) is not config:
                    continue  # others have changed it since
                if previous is None:
                    self._unset(topic)
                else:
                    self._set(topic, previous)
            if old_value is None:
                self._others.pop(name, None)
            else:
                self._others[name] = old_value
            self.others_changed = self._dirty = True
            self._step()
            with suppress(OSError):  # the next change tries again
                await self.persist_in_turns()
            raise
        # A registration that was made during the write may have told this version already, and
        # without what was written: name servers would pass over the one that brings it.
        self._step()


@final
class GroupTable(_ConfigTable[SubscriptionGroupConfig]):
    """``config/subscriptionGroup.json``, or ``config/subscriptionGroups`` in RocksDB."""

    _decode = SubscriptionGroupConfig.from_json

    def put(self, config: SubscriptionGroupConfig, *, at_once: bool = True) -> None:
        """Add or replace a group; see ``TopicTable.put``."""
        self._put(config.group_name, config, at_once=at_once)
