"""A logical listener: the ports where clients without logical queues find them as one broker.

It serves a broker's process. Clients, groups and locks are the broker's own; whatever names a
queue or an offset is translated and passed on to the broker that holds the segment.
"""

from typing import TYPE_CHECKING, Final, final

import trio

from lanemq.sdk import RemotingClient
from lanemq.wire import HostAddress, RequestCode

from .._dispatch import Handlers
from .._server import Server
from . import _direct, _messages, _offsets, _pulls, _sends, _spans, _stats
from ._brokers import Brokers
from ._context import ListenerContext
from ._progress import Progress
from ._routes import LogicalRoutes

if TYPE_CHECKING:
    from ..broker import Broker

Code = RequestCode
SHARED: Final = (
    Code.HEART_BEAT,
    Code.UNREGISTER_CLIENT,
    Code.CHECK_CLIENT_CONFIG,
    Code.GET_CONSUMER_LIST_BY_GROUP,
    Code.GET_CONSUMER_CONNECTION_LIST,
    Code.GET_PRODUCER_CONNECTION_LIST,
    Code.GET_CONSUMER_RUNNING_INFO,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    Code.LOCK_BATCH_MQ,
    Code.UNLOCK_BATCH_MQ,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
)
"""Requests about clients and groups, which the broker answers itself: they name no queue, or (a
lock) one that is a name and nothing else. Other codes are refused: what they mean by a queue id
is for a broker's own port."""


@final
class LogicalListener:
    """Made beside a broker; whoever makes it runs ``run`` and ``server.serve``."""

    def __init__(self, broker: "Broker", client: RemotingClient, *, address: HostAddress) -> None:
        context, config = broker.context, broker.config
        self.address = address
        """Where clients reach it."""
        self.routes = LogicalRoutes(client, config.name_servers)
        listener = ListenerContext(
            context,
            broker.sends,
            broker.reads,
            self.routes,
            Brokers(
                client,
                own_name=config.broker_name,
                own_handlers=broker.handlers,
                commit_own=context.commit,
            ),
            address,
        )
        self._progress = Progress(listener)
        offsets, handlers = _offsets.Offsets(listener), Handlers()
        for code in SHARED:
            handlers.add(code, broker.handlers.table[code])
        _sends.register(handlers, listener)
        _pulls.register(handlers, listener, self._progress)
        _offsets.register(handlers, listener, offsets, self._progress)
        messages = _messages.Messages(listener)
        _messages.register(handlers, messages)
        _direct.register(handlers, listener, messages)
        _stats.register(handlers, _stats.Stats(listener, offsets, self._progress))
        _spans.register(handlers, _spans.Spans(listener, offsets, self._progress))
        self.server = Server(
            handlers,
            name=f"logical listener of {config.broker_name}",
            after_batch=[context.write],
            after_replies=[context.settle],
            limits=config.limits(),
        )

    async def run(self) -> None:
        """Do what is due beside the requests, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._progress.run)
