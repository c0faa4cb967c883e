"""What the handlers of one broker share."""

import time
from collections.abc import Awaitable, Callable
from typing import final

import trio

from lanemq.sdk import RemotingClient
from lanemq.storage import Store, StoreUnwritable, parse_delay_levels
from lanemq.wire import HostAddress, TopicConfig

from .._session import Session
from ._clients import ClientRegistry
from ._config import BrokerConfig
from ._groups import Groups
from ._hold import Hold, Holds
from ._locks import QueueLocks
from ._logical_state import LogicalState, waiting_queue
from ._peers import Peers
from ._stages import GroupStages, waiting_topic
from ._stats import BrokerStatistics
from ._topics import Topics
from ._writer import Writer, unwritable


def wall_clock_ms() -> int:
    """The time of day in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@final
class BrokerContext:
    """The store of a broker, the tables around it, and the one moment at which writes count."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        *,
        address: HostAddress,
        announce: Callable[[TopicConfig], None],
        announce_all: Callable[[], None] = lambda: None,
        announced: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        client: RemotingClient | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.config = config
        self.store = store
        self.address = address
        """Where clients reach this broker; it is part of every message id given out."""
        self.store_host = address.packed
        self.now_ms = now_ms
        """The time of day, for what is stored and compared with what was stored."""
        self.now_s = trio.current_time
        """A clock without jumps, for time-outs."""
        self.announce = announce
        """Tell the name servers of a topic that changed."""
        self.announce_all = announce_all
        """Tell the name servers everything again."""
        self.announced = announced
        """Waits, but not for long, until the name servers that are up have heard it all."""
        self.peers = Peers(config, client)
        """The other brokers."""
        self.clients: ClientRegistry[Session] = ClientRegistry()
        self.holds: Holds[Session] = Holds()
        self.locks = QueueLocks()
        self.topics = Topics(store.tables.topics, config, announce)
        self.groups = Groups(store.tables.groups, config)
        self.stages = GroupStages(store)
        self.logical = LogicalState(
            store,
            broker_name=config.broker_name,
            address=str(address),
            now_ms=now_ms,
            changed=self._mapping_changed,
        )
        """The logical queues that this broker has a part in."""
        self.writer = Writer(
            store,
            parse_delay_levels(store.config.delay_levels),
            mappings=self.logical.mappings,
            gate=self.logical.gate,
        )
        self.statistics = BrokerStatistics(now_s=self.now_s(), day=time.localtime().tm_yday)
        self.answer_held: Callable[[Hold[Session]], None] = lambda hold: None
        """Runs a pull again that was parked, and answers it. The pull handlers put theirs here."""
        store.on_durable.append(self._answer_woken)

    def _mapping_changed(self, topic: str, queue_ids: set[int]) -> None:
        """Tell name servers of a topic's logical queues, and run its parked pulls again."""
        config = self.topics.get(topic)
        if config is not None:
            self.announce(config)
        else:
            self.announce_all()
        for queue_id in sorted(queue_ids):
            self.holds.wake(topic, queue_id)
            self.holds.wake(waiting_queue(topic), queue_id)
        self.settle()

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep a group's offset as it is given; pulls that wait for it are answered soon."""
        self.store.tables.consumer_offsets.put(group, topic, queue_id, offset)
        waiting = waiting_topic(group, topic)
        if self.holds.waits_on(waiting, queue_id):
            self.holds.arrived(
                waiting,
                queue_id,
                max_offset=offset,
                tags_code=0,
                now_s=self.now_s(),
                properties=bytes,
            )

    def commit(self) -> None:
        """``write`` and ``settle`` in one, for those who have nobody to answer in between."""
        self.write()
        self.settle()

    def write(self) -> None:
        """Write what was appended since the last call to the log.

        Every appender calls it before it tells anyone of success; the server does so after
        each read. Raises ``Refused`` (SERVICE_NOT_AVAILABLE) where the log cannot be written;
        nothing of it is stored then.
        """
        statistics, started_ns = self.statistics, time.perf_counter_ns()
        written = statistics.puts.messages
        try:
            self.store.write()
        except StoreUnwritable as error:
            self.writer.settled()
            raise unwritable(error) from error
        if written != statistics.puts_timed:  # a read that brought nothing to write took no time
            statistics.puts_timed = written
            statistics.put_took((time.perf_counter_ns() - started_ns) // 1_000_000)

    def settle(self) -> None:
        """Make what was written visible to readers, and answer the pulls that it wakes.

        The server does this once the replies of a read have left: senders need not wait for it,
        and nobody else can look before.
        """
        self.store.dispatch()
        self.writer.settled()
        self._answer_woken()

    def _answer_woken(self) -> None:
        if self.holds.has_woken:
            for hold in self.holds.take_woken():
                self.answer_held(hold)
