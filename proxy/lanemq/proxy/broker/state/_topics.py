"""Topics: the system's own, those made by a first send, and those of retries and dead letters.

Source: RocketMQ 4.9.8, TopicConfigManager, TopicValidator; AbstractSendMessageProcessor.msgCheck.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import final

from lanemq.storage import ConfigTables
from lanemq.wire import (
    RETRY_PREFIX,
    TOPIC_QUEUES_MAX,
    Permission,
    Refused,
    ResponseCode,
    SysFlag,
    SystemTopic,
    TopicSysFlag,
    has_only_offsets,
    is_closed_topic,
    is_system_topic,
    reply_topic,
    topic_name_problem,
)
from lanemq.wire.bodies import TopicConfig

from ...net._loop_watch import asking_host
from ..settings._config import BrokerConfig
from ._creations import Creations

MULTI_TAG = "MULTI_TAG"
BENCHMARK_QUEUES = 1024
STORED_NAME_BYTES_MAX = 255
"""Longest name of a topic in bytes, since it is the name of a directory in the store."""


@final
class SendTarget:
    """The facts about its topic that a send needs, computed once per version of its settings."""

    __slots__ = ("config", "is_plain", "queues_max", "sys_flag", "write_queues")

    def __init__(self, config: TopicConfig) -> None:
        self.config = config
        self.queues_max = config.queue_count
        self.write_queues = config.write_queue_nums
        self.sys_flag = SysFlag.MULTI_TAGS if config.topic_filter_type == MULTI_TAG else 0
        self.is_plain = not config.order and not config.topic_name.startswith(RETRY_PREFIX)
        """True if a send can take the quick way."""

    def choose_queue(self, queue_id: int) -> int:
        """Choose the queue of a send; a negative ``queue_id`` leaves the choice to the broker.

        Raises ``Refused`` for a queue that the topic has neither for writers nor for readers.
        """
        if queue_id >= self.queues_max or self.write_queues <= 0 > queue_id:
            remark = f"request queueId[{queue_id}] is illegal, {self.config}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return queue_id if queue_id >= 0 else random.randrange(self.write_queues)


@final
class Topics:
    """The topics of a broker, over the table that the store keeps.

    ``announce`` is called with every topic that is created or changed, before anyone is
    answered, so that the name servers hear of it.
    """

    def __init__(
        self, tables: ConfigTables, config: BrokerConfig, announce: Callable[[TopicConfig], None]
    ) -> None:
        self._tables = tables
        self._table = table = tables.topics
        self._config = config
        self._announce = announce
        self._targets: dict[str, SendTarget] = {}
        self._creations = Creations("topic", table.configs.__len__, asking_host)
        self.get = table.get
        """Returns the settings of a topic, or None."""
        self._own = frozenset(topic.topic_name for topic in self._system_topics())
        for topic in self._system_topics():
            if table.get(topic.topic_name) is None:
                table.put(topic)

    def is_system(self, name: str) -> bool:
        """Return whether a topic is the broker's own, which can be neither created nor deleted."""
        return name in self._own or is_system_topic(name)

    def check_users_own(self, name: str) -> None:
        """Check that users may create and delete a topic. Raises ``Refused``."""
        problem = topic_name_problem(name)
        if problem is None and self.is_system(name):
            problem = f"The topic[{name}] is conflict with system topic."
        if problem is not None:
            raise Refused(ResponseCode.SYSTEM_ERROR, problem)

    def check_deletable(self, name: str) -> None:
        """Check that users may delete a topic: one of their own, or one with a name for offsets
        that is left from a store of before. Raises ``Refused``."""
        if not has_only_offsets(name) or self.get(name) is None:
            self.check_users_own(name)

    def system_names(self) -> frozenset[str]:
        """Return the topics that every broker of this configuration has."""
        return self._own

    def put(self, topic: TopicConfig) -> None:
        """Create or change a topic and tell the name servers.

        It is written before those are answered whose requests came with this one.
        """
        self._table.put(topic, at_once=False)
        self._tables.want(self._table, topic.topic_name)
        self._announce(topic)

    def remove(self, name: str) -> None:
        """Forget a topic; written as with ``put``."""
        self._table.remove(name, at_once=False)
        self._creations.removed(name)
        self._tables.want(self._table, name)

    @staticmethod
    def check_queues(*numbers: int) -> None:
        """Check numbers of queues. Raises ``Refused`` for one that no topic may have."""
        for number in numbers:
            if not 0 <= number <= TOPIC_QUEUES_MAX:
                remark = f"a topic has 0 to {TOPIC_QUEUES_MAX} queues at a broker, not {number}"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)

    def set_default_queues(self, queues: int) -> None:
        """Change the number of queues that topics get which clients create by sending."""
        known = self.get(SystemTopic.AUTO_CREATE)
        if known is not None and (known.read_queue_nums, known.write_queue_nums) != (queues,) * 2:
            self.put(replace(known, read_queue_nums=queues, write_queue_nums=queues))

    @staticmethod
    def queue_ids(queues: int) -> range:
        """Return the ids of a topic's queues, as far as requests look at them.

        A store that another broker wrote may have topics with more.
        """
        return range(min(queues, TOPIC_QUEUES_MAX))

    def target(self, name: str) -> SendTarget | None:
        """Return the target of a send to ``name``, or None for a topic that does not exist."""
        config = self.get(name)
        target = self._targets.get(name)
        # Settings are values: any change makes another object.
        if target is not None and target.config is config:
            return target
        if config is None:
            self._targets.pop(name, None)
            return None
        if is_closed_topic(name):
            remark = f"Sending message to topic[{name}] is forbidden."
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        target = SendTarget(config)
        if self._tables.is_unwritten(self._table, name):  # a failed write refused its creation
            self._tables.want(self._table, name)
        else:
            self._targets[name] = target
        return target

    def target_for_send(
        self, name: str, *, default_topic: str, queue_nums: int, unit_mode: bool
    ) -> SendTarget:
        """Return the ``target``; a topic that does not exist is created after ``default_topic``.

        Raises ``Refused``: an illegal name (SYSTEM_ERROR), a topic of the broker's own
        (NO_PERMISSION), one that may not be created (TOPIC_NOT_EXIST), or one beyond the share of
        a client's address (SYSTEM_BUSY).
        """
        if (problem := topic_name_problem(name)) is not None:
            raise Refused(ResponseCode.SYSTEM_ERROR, problem)
        if is_closed_topic(name):
            remark = f"Sending message to topic[{name}] is forbidden."
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        is_retry = name.startswith(RETRY_PREFIX)
        if self.get(name) is None:
            sys_flag = 0
            if unit_mode:
                sys_flag = TopicSysFlag.UNIT_SUB if is_retry else TopicSysFlag.UNIT
            if not self._create_after(name, default_topic, queue_nums, sys_flag) and is_retry:
                self.ensure(name, queues=1, sys_flag=sys_flag)
        target = self.target(name)
        if target is None:
            remark = f"topic[{name}] not exist, apply first please!"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        return target

    def ensure(
        self,
        name: str,
        *,
        queues: int,
        perm: int = Permission.READ_WRITE,
        sys_flag: int = 0,
        may_be_lost: bool = False,
    ) -> TopicConfig:
        """Return the settings of a retry or dead-letter topic, which is created if missing.

        With ``may_be_lost`` a new one is not waited for until it is written: its client will ask
        again. Raises ``Refused`` for one beyond a client's share (SYSTEM_BUSY), and
        (MESSAGE_ILLEGAL) for a name that the store has no room
        for, such as that of the retry topic of a group with a long name; as 5.3.3. (4.9.8 refuses
        more.)
        """
        config = self.get(name)
        if config is None:
            if len(name.encode()) > STORED_NAME_BYTES_MAX:
                remark = (
                    f"the topic {name} would have a name of more than {STORED_NAME_BYTES_MAX} "
                    "bytes: give the group a shorter one"
                )
                raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)
            self._creations.require_room()
            self._creations.created(name)
            config = TopicConfig(
                topic_name=name,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=perm,
                topic_sys_flag=sys_flag,
            )
            if may_be_lost:
                self._table.put(config, at_once=False)
                self._announce(config)
            else:
                self.put(config)
        elif not may_be_lost and self._tables.is_unwritten(self._table, name):
            self._tables.want(self._table, name)
        return config

    def _create_after(self, name: str, template: str, queue_nums: int, sys_flag: int) -> bool:
        default = self.get(template)
        if default is None or not default.perm & Permission.INHERIT:
            return False
        if template == SystemTopic.AUTO_CREATE and not self._config.auto_create_topic_enable:
            return False
        self._creations.require_room()
        self._creations.created(name)
        queues = max(0, min(queue_nums, default.write_queue_nums))
        self.put(
            TopicConfig(
                topic_name=name,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=default.perm & ~Permission.INHERIT,
                topic_filter_type=default.topic_filter_type,
                topic_sys_flag=sys_flag,
            )
        )
        return True

    def _system_topics(self) -> list[TopicConfig]:
        config = self._config
        cluster = config.broker_cluster_name
        everything = Permission.READ_WRITE | Permission.INHERIT
        named = [
            (SystemTopic.SELF_TEST, 1, Permission.READ_WRITE),
            (SystemTopic.BENCHMARK, BENCHMARK_QUEUES, Permission.READ_WRITE),
            (cluster, 16, everything if config.cluster_topic_enable else Permission.INHERIT),
            (
                config.broker_name,
                1,
                everything if config.broker_topic_enable else Permission.INHERIT,
            ),
            (SystemTopic.OFFSET_MOVED_EVENT, 1, Permission.READ_WRITE),
            (SystemTopic.SCHEDULE, 18, Permission.READ_WRITE),
            (reply_topic(cluster), 1, Permission.READ_WRITE),
        ]
        if config.auto_create_topic_enable:
            named.append((SystemTopic.AUTO_CREATE, config.default_topic_queue_nums, everything))
        if config.trace_topic_enable:
            named.append((config.msg_trace_topic_name, 1, Permission.READ_WRITE))
        return [
            TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
            for name, queues, perm in named
        ]
