"""A broker without its sockets: handlers over a store, and the tasks beside them.

Source: RocketMQ 4.9.8, BrokerController.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final, final

import trio

from lanemq.sdk import RemotingClient
from lanemq.storage import Store
from lanemq.wire import HostAddress, TopicConfig

from .._dispatch import Handlers
from .._server import Server
from ..listener import LogicalListener
from . import (
    _admin_config,
    _admin_groups,
    _admin_metadata,
    _admin_relay,
    _admin_rocksdb,
    _admin_runtime,
    _admin_stats,
    _admin_topics,
    _heartbeats,
    _locks,
    _logical_growth,
    _logical_mapping,
    _logical_migrate,
    _logical_seal,
    _offsets,
    _pull,
    _query,
    _send,
    _send_back,
)
from ._config import BrokerConfig
from ._context import BrokerContext, wall_clock_ms
from ._delay import DelayService
from ._logical_reconcile import Reconciler
from ._logical_retention import LogicalRetention

SAMPLE_S: Final = 1.0

_WITHOUT_TASKS: Final = (
    _send_back,
    _offsets,
    _query,
    _locks,
    _logical_growth,
    _logical_mapping,
    _logical_migrate,
    _logical_seal,
    _admin_config,
    _admin_groups,
    _admin_metadata,
    _admin_relay,
    _admin_runtime,
    _admin_stats,
    _admin_topics,
)


@final
class Broker:
    """One broker over an open store; whoever opens it runs ``run`` and ``server.serve``."""

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
        self.address = address
        """What name servers and clients are told; ``host:port`` as text."""
        self.context = BrokerContext(
            config,
            store,
            address=address,
            announce=announce,
            announce_all=announce_all,
            announced=announced,
            client=client,
            now_ms=now_ms,
        )
        self.logical_listener: LogicalListener | None = None
        """Where clients that do not know logical queues find them, if the broker has such ports."""
        self.handlers = Handlers()
        for module in _WITHOUT_TASKS:
            module.register(self.handlers, self.context)
        self.sends = _send.register(self.handlers, self.context)
        """The logical listener of this process stores through it, and answers itself."""
        self._pulls = _pull.register(self.handlers, self.context)
        self.reads = self._pulls.reads
        self._checks = _admin_rocksdb.register(self.handlers, self.context)
        self._heartbeats = _heartbeats.register(self.handlers, self.context)
        self._delays = DelayService(self.context)
        self._reconciler = Reconciler(self.context)
        self._retention = LogicalRetention(self.context)
        self.server = Server(
            self.handlers,
            name=f"broker {config.broker_name}",
            after_batch=[self.context.write],
            after_replies=[self.context.settle],
            limits=config.limits(),
        )

    async def check_start(self) -> None:
        """Find out from other brokers what this one has missed, before it takes any message."""
        await self._reconciler.check_start()

    async def run(self) -> None:
        """Do what is due beside the requests, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pulls.expire)
            nursery.start_soon(self._checks.run)
            nursery.start_soon(self._heartbeats.expire)
            nursery.start_soon(self._delays.run)
            nursery.start_soon(self._reconciler.run)
            nursery.start_soon(self._retention.run)
            nursery.start_soon(self._sample)

    async def stop(self) -> None:
        """Send those away who wait for messages, then everybody, as ``Server.stop``."""
        self._pulls.stop()
        await self.server.stop()

    async def _sample(self) -> None:
        """Take the samples that rates are made of."""
        context = self.context
        while True:
            await trio.sleep(SAMPLE_S)
            context.statistics.sample(context.now_s(), time.localtime().tm_yday)
