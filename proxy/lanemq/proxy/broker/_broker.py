"""A broker without its sockets: handlers over a store, and background tasks.

Source: RocketMQ 4.9.8, BrokerController.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, final

import trio

from lanemq.wire.kv import NamespaceStatus
from lanemq.wire.requests import Port

from ..acl import AccessControl, AccountControl
from ..acl import register as register_accounts
from ..acl.users import UserControl
from ..acl.users import register as register_users
from ..net._dispatch import Handlers
from ..net._loop_watch import LoopWatch, Timed, loop_watch
from ..net._server import Server
from ..net._turns import step_by_step
from ..net.transport._tls import ServerTls
from ..sessions.values._results import add_encoders
from . import _typed_handlers
from .admin import (
    _config,
    _direct_consumption,
    _groups,
    _member_status,
    _queue_contents,
    _relay,
    _rocksdb,
    _runtime,
    _static_topics,
    _stats,
)
from .admin._own_queues import OwnQueues
from .context._context import BrokerContext
from .delays._delay import DelayService
from .delays._due import DueMessages
from .handlers import _client_management
from .handlers.pulls import _pull
from .handlers.sends import _replies, _send
from .kv import register as register_kv
from .logical._parts import LogicalParts
from .logical.traffic._delivery import Deliveries
from .timers import _recall
from .timers._service import TimerService
from .transactions import _ends
from .transactions._checks import Checks
from .transactions._table import HalfTable
from .values._own_properties import answered_properties
from .writing._undelivered import Undelivered

SAMPLE_S: Final = 1.0

_WITHOUT_TASKS: Final = (
    _replies,
    _config,
    _direct_consumption,
    _groups,
    _member_status,
    _runtime,
    _static_topics,
    _recall,
)
_WITH_QUEUES: Final = (_queue_contents, _relay, _stats)


@final
class Broker:
    """One broker over an open store; its owner runs ``run`` and ``server.serve``."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        is_alone: Callable[[], bool] | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        config, store = context.config, context.store
        self.config = config
        self.address = context.address
        """The address for name servers and clients; ``host:port`` as text."""
        self.context = context
        self.handlers = Handlers(Port.BROKER)
        for module in _WITHOUT_TASKS:
            module.register(self.handlers, context)
        queues = OwnQueues(broker_name=config.broker_name, store=store, topics=context.topics)
        for module in _WITH_QUEUES:
            module.register(self.handlers, context, queues=queues)
        self.typed = _typed_handlers.register(self.handlers, context, queues=queues)
        """The typed handlers that this process's logical listener asks as well."""
        self.sends = _send.register(self.handlers, context)
        """The sends through which this process's logical listener stores; it answers itself."""
        self.pulls = _pull.register(self.handlers, context)
        """The pulls that this process's logical listener reads with."""
        add_encoders(
            self.handlers,
            properties=answered_properties(config),
            host=context.store_host,
            read_log=store.read_log,
        )
        self._checks = _rocksdb.register(self.handlers, store=store)
        self._client_management = _client_management.register(self.handlers, context)
        undelivered = Undelivered(
            statistics=context.statistics, topics=context.topics, writer=context.writer
        )
        deliveries = Deliveries.of(context, undelivered)
        due = partial(DueMessages.of, context, deliveries=deliveries, undelivered=undelivered)
        self._delays = DelayService(
            delays_ms=context.writer.delays_ms,
            due=due("delayed message"),
            now_ms=context.now_ms,
            store=store,
        )
        self._timers = TimerService.of(context, due("message with a timer"))
        self._logical = LogicalParts(self.handlers, context, deliveries=deliveries)
        self._kv = register_kv(self.handlers, context, is_alone=is_alone, view=self._logical.view)
        halves = HalfTable.of(context)
        self._register_access(context.access_control)
        _ends.register(self.handlers, context, deliveries=deliveries, table=halves)
        self._transactions = Checks.of(context, halves)
        context.answer_woken = self.pulls.parked.answer_woken
        if self._kv is not None:
            context.logical.why_it_stays = self._kv.takeovers.why_it_stays
        self.server = Server(
            self.handlers,
            name=f"broker {config.broker_name}",
            after_batch=[context.write],
            after_replies=[context.dispatch],
            limits=config.limits(),
            budget=context.budget,
            guard=context.guard,
            tls=tls or ServerTls(),
        )

    def key_statuses(self) -> list[NamespaceStatus]:
        """Return the status of each partition of keys that is here."""
        return [] if self._kv is None else self._kv.statuses()

    def _register_access(self, access_control: AccessControl | None) -> None:
        if isinstance(access_control, UserControl):
            register_users(self.handlers, access_control.table, access_control.signer)
        elif isinstance(access_control, AccountControl):
            register_accounts(
                self.handlers,
                access_control,
                broker=str(self.address),
                names=(self.config.broker_cluster_name, self.config.broker_name),
                now_ms=self.context.now_ms,
            )

    async def check_start(self) -> None:
        """Learn from other brokers what this one has missed, before it accepts any message.

        Queues of which that cannot be known within seconds take none until it is.
        """
        await self._logical.start.check()

    async def check_registered(self) -> None:
        """Learn the rest from name servers that knew nothing before this broker registered."""
        await self._logical.start.check_registered()

    async def run(self) -> None:
        """Run the background tasks, until cancelled."""
        tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "answering parked pulls": self.pulls.parked.expire,
            "comparing RocksDB with files": self._checks.run,
            "expiring clients and locks": self._client_management.expire,
            "delayed delivery": self._delays.task.run,
            "checking transactions": self._transactions.run,
            "asking who took over": self._logical.start.run,
            "completing migrations": self._logical.reconciler.run,
            "expiring segments": self._logical.retention.run,
            "keeping groups' progress in logical queues": self.context.logical_progress.run,
            "sampling": self._sample,
            "searching by key": self.typed.messages.turns.run,
            "telling members of groups": self._client_management.notes.run,
        }
        if self._timers is not None:
            tasks["timers"] = self._timers.task.run
        if self._kv is not None:
            tasks["expiring keys"] = self._kv.run
            tasks["expiring many keys at once"] = self._kv.writes.own.run
            tasks["reading keys"] = self._kv.turns.run
            tasks["making namespaces of keys"] = self._kv.writes.new.run
            tasks["moving partitions of keys"] = self._kv.takeovers.run
            tasks["claiming namespaces of keys"] = self._kv.claims.run
            tasks["deleting namespaces of keys"] = self._kv.deletions.run
        if self.context.access_control is not None:
            tasks["reading accounts again"] = self.context.access_control.run
        async with trio.open_nursery() as nursery:
            watch = loop_watch()
            for name, task in tasks.items():
                timed = partial(_timed, task, watch, f"the task {name}")
                nursery.start_soon(self.context.supervisor.run, name, timed)

    async def clock_moved(self) -> None:
        """Do everything that a clock set forward has made due; returns once it is done.

        Delayed messages are delivered, keys expire, producers are asked about transactions, and
        log files beyond their retention go, whatever the hour. Raises ``OSError``,
        ``StoreUnwritable``.
        """
        if self._kv is not None:
            self._kv.writes.clock.follow()
        await self._delays.task.look_again()
        if self._timers is not None:
            await self._timers.task.look_again()
        if self._kv is not None:
            self._kv.writes.own.tick()
        await self._transactions.check()
        await self.context.store.clean()

    async def stop(self) -> None:
        """Refuse parked pulls, then stop the server as ``Server.stop``."""
        await self.pulls.parked.stop()
        await self.server.stop()

    async def _sample(self) -> None:
        """Take the samples that rates are made of."""
        context = self.context
        while True:
            await trio.sleep(SAMPLE_S)
            await step_by_step(context.statistics.sample(context.now_s(), context.day()))


async def _timed(task: Callable[[], Awaitable[None]], watch: LoopWatch, who: str) -> None:
    await Timed(task(), watch, who)
