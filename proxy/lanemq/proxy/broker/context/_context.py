"""The context that the handlers of one broker share."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cached_property
from time import localtime, perf_counter
from typing import final

import trio

from lanemq.local import get_logger
from lanemq.sdk import RemotingClient
from lanemq.storage import Store, StoreUnwritable, disk_problem, system_clock_ms
from lanemq.wire import HostAddress, Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.frame import Frame
from lanemq.wire.logical import PROGRESS_PREFIX

from ...acl import UNLIMITED, AccessControl, Rights, Sender, guard_by
from ...net._dispatch import Guard
from ...net._session import Session
from ...net.limits._budget import Budget
from ...sessions.state._hold import Hold, Holds
from ...sessions.state._left_subscriptions import client_registry
from ...sessions.state._locks import QueueLocks
from ...sessions.state._stages import GroupStages, waiting_topic
from ..cluster._peers import Peers
from ..logical.state._progress import LogicalProgress
from ..logical.state._state import LogicalState, waiting_queue
from ..settings._config import BrokerConfig
from ..state._groups import Groups
from ..state._light_queues import LightQueues
from ..state._recent_halves import RecentHalves
from ..state._stats import BrokerStatistics
from ..state._topics import Topics
from ..state._unknown_progress import UnknownProgress
from ..writing._writer import Writer, unwritable

LOGGER = get_logger("lanemq.proxy.broker", by_peers=True)


@final
class BrokerContext:
    """The context of a broker: its store, the tables around it, and the commit of its writes."""

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
        now_ms: Callable[[], int] = system_clock_ms,
        budget: Budget | None = None,
        access_control: AccessControl | None = None,
    ) -> None:
        self.config = config
        self.store = store
        self.budget = budget if budget is not None else Budget(config.peer_memory_bytes)
        """The budget charged for the peers of this process's ports."""
        self.access_control = access_control
        """The check of requests from outside; None for a broker that lets in everyone."""
        self.address = address
        """The address for clients, which is part of every message id given out."""
        self.store_host = address.packed
        self.now_ms = now_ms
        """The time of day, for store times and comparisons with them."""
        self.now_s = trio.current_time
        """A clock without jumps, for time-outs."""
        self.announce = announce
        """Tells the name servers of a changed topic."""
        self.announce_all = announce_all
        """Tells the name servers everything again."""
        self.announced = announced
        """Waits, but not for long, until the name servers that are up have heard it all."""
        self.peers = Peers(config, client)
        """The other brokers."""
        self.heartbeat_refused: Callable[[Session], None] = lambda session: None
        """Looks whether a connection may stay in its groups. Set by ``Heartbeats``."""
        self.clients = client_registry(self.budget)
        self.supervisor = store.supervisor
        """The supervisor of the background tasks, the store's among them."""
        self.holds: Holds[Session] = Holds()
        self.locks = QueueLocks(self.budget)
        self.topics = Topics(store.tables, config, announce)
        self.on_unwritten: list[Callable[[Refused], None]] = []
        """Callbacks for a ``write`` that stored nothing, called before anybody is told."""
        self.on_topic_deleted: list[Callable[[str], None]] = []
        """Callbacks for each topic that an operator deletes, called with its name."""
        self.on_mapping_changed: list[Callable[[str], None]] = []
        """Callbacks for each topic whose logical queues change, called with its name."""
        self.groups = Groups(store.tables, config)
        self.stages = GroupStages(store)
        self.logical = LogicalState(
            store,
            broker_name=config.broker_name,
            address=str(address),
            now_s=self.now_s,
            changed=self._mapping_changed,
            brokers=config.logical_queue_brokers,
        )
        """The logical queues in which this broker has a part."""
        self.logical_progress = LogicalProgress(
            self.logical, store.tables.consumer_offsets, self.peers, commit=self.commit_offset
        )
        """The groups' progress in logical queues."""
        self.writer = Writer(
            store,
            lights=self.light_queues,
            mappings=self.logical.mappings,
            gate=self.logical.gate,
        )
        self.recent_halves = RecentHalves(store, self.writer.when_finished)
        self.statistics = BrokerStatistics(now_s=self.now_s(), day=self.day())
        self.answer_woken: Callable[[list[Hold[Session]]], None] = lambda holds: None
        """Runs a parked pull again, and answers it. Set by ``Broker``."""
        store.on_durable.append(self._answer_woken)

    @cached_property
    def light_queues(self) -> LightQueues:
        """The limits of light queues."""
        return LightQueues(self.store, self.config.max_lmq_consume_queue_num)

    @cached_property
    def unknown_progress(self) -> UnknownProgress:
        """The check of commits for what this broker does not know."""
        return UnknownProgress(
            self.store.tables.consumer_offsets,
            self.groups,
            self.topics,
            self.logical.mappings,
            is_live=lambda group: self.clients.consumer_group(group) is not None,
            now_s=self.now_s,
        )

    @property
    def guard(self) -> Guard | None:
        """The check for this process's ports: see ``Exchange``."""
        control = self.access_control
        return None if control is None else guard_by(control, self._refused)

    def _refused(self, frame: Frame, session: Session) -> None:
        if frame.code == RequestCode.HEART_BEAT:
            self.heartbeat_refused(session)

    def rights(self, frame: Frame, session: Session) -> Rights:
        """Return the rights of a request's sender, for what its handler finds."""
        control = self.access_control
        return UNLIMITED if control is None else control.rights(frame, session)

    def signer(self, frame: Frame, session: Session) -> str:
        """Return the account that has signed a request; "" for none, as without accounts."""
        control = self.access_control
        return "" if control is None else control.signer(frame, session)

    def sender(self, frame: Frame, session: Session) -> Sender:
        """Return the account behind a request; nobody without accounts."""
        control = self.access_control
        return Sender() if control is None else control.sender(frame, session)

    def rights_of(self, sender: Sender, host: str) -> Rights:
        """Return the rights that an account has now from an address, for ``Rights.may`` alone."""
        control = self.access_control
        return UNLIMITED if control is None else control.rights_of(sender, host)

    def _mapping_changed(self, topic: str, queue_ids: set[int]) -> None:
        """Tell name servers of a topic's changed logical queues, and run its parked pulls again."""
        config = self.topics.get(topic)
        if config is not None:
            self.announce(config)
        else:
            self.announce_all()
        for queue_id in sorted(queue_ids):
            self.holds.wake(topic, queue_id)
            self.holds.wake(waiting_queue(topic), queue_id)
        for tell in self.on_mapping_changed:
            tell(topic)
        self.dispatch()

    def day(self) -> int:
        """Return a number that changes at local midnight."""
        return localtime(self.now_ms() // 1000).tm_yday

    def commit_offset(
        self, group: str, topic: str, queue_id: int, offset: int, *, hops: int = 0
    ) -> None:
        """Keep a group's offset as given; pulls that wait for it are answered soon.

        Progress in a logical queue is kept where the queue ends: see ``LogicalProgress``.
        ``hops`` is how often another broker passed it on.
        """
        if topic.startswith(PROGRESS_PREFIX):
            kept = self.logical_progress.takes(group, topic, queue_id, offset, hops=hops)
            if kept is None:
                return
            offset = kept
        self.unknown_progress.room.put(group, topic, queue_id, offset)
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

    def commit_beside(
        self, group: str, topic: str, queue_id: int, offset: int, *, hops: int = 0
    ) -> None:
        """Do ``commit_offset`` for a request that is about something else, and goes on where
        ``UnknownProgress.check`` refuses it."""
        with suppress(Refused):
            self.unknown_progress.check(group, topic, queue_id)
            self.commit_offset(group, topic, queue_id, offset, hops=hops)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and its messages; its logical queues are for ``LogicalState.forget``.

        Raises as ``write``: messages that came just now may be on their way into it.
        """
        self.commit()
        self.topics.remove(topic)
        self.store.delete_topic(topic)
        self.statistics.forget_topic(topic)
        self.light_queues.removed(topic)
        for forget in self.on_topic_deleted:
            forget(topic)

    def commit(self) -> None:
        """Do ``write`` and ``dispatch``, for callers with no answer to send in between."""
        self.write()
        self.dispatch()

    async def commit_all(self) -> None:
        """Do ``commit``, and wait for topics and groups that changed in this turn of the loop, and
        for the key index where it is far behind.

        Raises ``Refused``.
        """
        self.commit()
        await self._finish()

    def write(self) -> Callable[[], Awaitable[None]] | None:
        """Write the messages appended since the last call to the log.

        Every appender calls it before it tells anyone of success; the server does so after
        each read. Raises ``Refused`` (SERVICE_NOT_AVAILABLE) where the log cannot be written;
        nothing of it is stored then. Returns what has to be awaited besides, where topics or groups
        changed, or where the key index is far behind: see ``after_batch`` of ``Exchange``.
        """
        statistics, started_s = self.statistics, perf_counter()
        written = statistics.puts.messages
        try:
            has_written = self.store.write()
        except StoreUnwritable as error:
            self.writer.finished()
            refusal = unwritable(error)
            for refuse in self.on_unwritten:
                refuse(refusal)
            raise refusal from error
        if written != statistics.puts_timed:  # a read that brought nothing to write took no time
            statistics.puts_timed = written
            statistics.put_took(int((perf_counter() - started_s) * 1000))
        if self.store.tables.is_wanted or (has_written and self.store.search.is_behind):
            return self._finish
        return None

    async def _finish(self) -> None:
        """Wait for what answers to a commit need besides the log. Raises ``Refused``."""
        if self.store.tables.is_wanted:
            await self._write_tables()
        if self.store.search.is_behind:
            await self.store.search.caught_up()

    async def _write_tables(self) -> None:
        """Write topics and groups that changed, once for all who wait for that.

        Raises ``Refused`` where they cannot be written; they are in force nevertheless, and the
        store tries again.
        """
        try:
            await self.store.tables.write_wanted()
        except OSError as error:
            LOGGER.error("topics and groups cannot be written: %s", error)
            remark = f"topics and groups cannot be written: {disk_problem(error)}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from error

    def dispatch(self) -> None:
        """Make written messages visible to readers, and answer the pulls that they wake.

        The server does this once the replies of a read have left: senders need not wait for it,
        and nobody else can look before.
        """
        self.store.dispatch()
        self.writer.finished()
        if self.holds.has_woken:
            self._answer_woken()

    def _answer_woken(self) -> None:
        if self.holds.has_woken:
            self.answer_woken(self.holds.take_woken())
