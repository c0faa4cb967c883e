"""A logical listener: ports where clients see all logical queues as the queues of one broker.

It serves a broker's process. Clients, groups and locks are the broker's own; whatever names a
queue or an offset is translated and passed on to the broker that holds the segment.
"""

from collections.abc import Sequence
from typing import Final, final

import trio

from lanemq.sdk import RemotingClient
from lanemq.wire import HostAddress, RequestCode

from ...broker import Broker
from ...broker.values._results import add_encoders
from ...net._dispatch import Handlers
from ...net._server import Server
from .brokers._brokers import Brokers
from .brokers._questions import Questions
from .brokers._routes import LogicalRoutes
from .offsets import _offsets, _resets, _spans, _stats
from .offsets._progress import Progress
from .port._context import ListenerContext
from .port._queues import SeenQueues
from .port._records import SeenRecords
from .traffic import _direct, _locks, _messages, _pulls, _sends

Code = RequestCode
SHARED: Final = (
    Code.UNREGISTER_CLIENT,
    Code.CHECK_CLIENT_CONFIG,
    Code.GET_CONSUMER_LIST_BY_GROUP,
    Code.GET_CONSUMER_CONNECTION_LIST,
    Code.GET_PRODUCER_CONNECTION_LIST,
    Code.GET_CONSUMER_RUNNING_INFO,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    Code.END_TRANSACTION,
)
"""Requests about clients and groups, which the broker answers itself, as it does heartbeats: they
name no queue. An end of a transaction here is the answer to the broker's own check, in its numbers:
a producer is asked at any of its connections, and half messages are not taken here. Other codes are
refused: what they mean by a queue id is for a broker's own port."""


@final
class LogicalListener:
    """A listener beside a broker; its owner runs ``run`` and serves its servers.

    Older clients see the logical queues of a topic divided among several brokers, whose number
    they do not say. So it has a port for each of them beside the one for clients that go by logical
    index.
    """

    def __init__(
        self,
        broker: Broker,
        client: RemotingClient,
        *,
        address: HostAddress,
        numbered: Sequence[HostAddress] = (),
    ) -> None:
        context, config = broker.context, broker.config
        self._supervisor = context.supervisor
        self.address = address
        """The address for clients that use logical indices."""
        self.numbered_addresses = tuple(numbered)
        """The addresses of each of the brokers that older clients see, from the first on. Where
        there is none it is the first and only one at ``address``."""
        self.routes = LogicalRoutes(client, config.name_servers)
        brokers = Brokers(
            client=client,
            own_name=config.broker_name,
            own_handlers=broker.handlers,
            own_pulls=broker.pulls,
            commit_own=context.commit,
        )
        questions = Questions(broker.typed)
        # One for all ports: they may be of the same group, and a broker keeps its last commit.
        self._progress = Progress(
            brokers=brokers,
            commit_own=context.commit_offset,
            queues=SeenQueues(number=None, routes=self.routes),
            questions=questions,
        )

        def port(at: HostAddress, number: int | None) -> _Port:
            queues = SeenQueues(number=number, routes=self.routes)
            listener = ListenerContext(
                broker=context,
                sends=broker.sends,
                reads=broker.pulls.reads,
                brokers=brokers,
                questions=questions,
                queues=queues,
                records=SeenRecords(address=at, queues=queues),
                address=at,
            )
            return _Port(listener, broker, self._progress)

        numbered_at = enumerate(self.numbered_addresses)
        self._ports = [port(address, None), *(port(at, number) for number, at in numbered_at)]
        self.server, *numbered_servers = [port.server for port in self._ports]
        self.numbered_servers: Sequence[Server] = numbered_servers
        """The servers at ``numbered_addresses``."""

    @property
    def servers(self) -> Sequence[Server]:
        """All servers of the listener."""
        return self.server, *self.numbered_servers

    async def run(self) -> None:
        """Run the background task, until cancelled."""
        what = "committing for the logical listener"
        await self._supervisor.run(what, self._progress.run)

    async def stop(self) -> None:
        """Stop all servers as ``Server.stop``."""
        async with trio.open_nursery() as nursery:
            for server in self.servers:
                nursery.start_soon(server.stop)


@final
class _Port:
    """The service at one port."""

    def __init__(self, listener: ListenerContext, broker: Broker, progress: Progress) -> None:
        context, config = broker.context, broker.config
        brokers, queues, questions = listener.brokers, listener.queues, listener.questions
        offsets = _offsets.Offsets(brokers=brokers, queues=queues, questions=questions)
        number, handlers = queues.number, Handlers()
        add_encoders(
            handlers,
            config=config,
            host=listener.address.packed,
            store=context.store,
        )
        for code in SHARED:
            handlers.add(code, broker.handlers.table[code])
        heartbeat = broker.handlers.table[Code.HEART_BEAT]
        handlers.add(Code.HEART_BEAT, _resets.heard_at(number, heartbeat))
        _locks.register(handlers, listener)
        _sends.register(handlers, listener)
        _pulls.register(handlers, listener, progress)
        _offsets.register(handlers, listener, offsets, progress)
        _direct.register(handlers, listener, _messages.register(handlers, listener))
        _stats.register(handlers, listener, offsets, progress)
        _resets.register(handlers, listener, offsets, progress)
        _spans.register(handlers, listener, offsets, progress)
        numbered = "" if number is None else f" {number}"
        self.server = Server(
            handlers,
            name=f"logical listener{numbered} of {config.broker_name}",
            after_batch=[context.write],
            after_replies=[context.dispatch],
            limits=config.limits(),
            budget=context.budget,
            guard=context.guard,
            tls=broker.server.tls,
        )
