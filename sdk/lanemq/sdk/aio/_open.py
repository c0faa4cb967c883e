"""The way into the asyncio clients. Each takes what its namesake in lanemq.sdk takes, but the
seams for tests, and opens with an ``async with`` block.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Unpack

from .. import _lite_pull, _producer, _push_consumer, _transactions
from .._messages import ReceivedMessage
from .._options import LitePullOptions, ProducerOptions, PushOptions
from .._transactions import Check, TransactionState
from ..consumer._broker_requests import Listener
from ..consumer._expressions import Expression
from ..faces._executor import ListenerGate, forward_store, run_callback
from ..faces._portal_calls import Callback
from ..listeners._listener import ConcurrentListener, Handle
from ..listeners._ordered_listeners import StagedConcurrentListener
from ..net._discovery import NameServersLike
from ..opening._mistakes import as_listener, check_subscriptions
from ..opening._settings import LitePullSettings, ProducerSettings, PushSettings, with_settings
from ..opening._url import connect
from ._bridge import Bridge, Opening
from ._consumers import LitePullConsumer, PushConsumer
from ._listener_tasks import ListenerTasks
from ._producer import Producer, TransactionProducer


def open_producer(
    group: str | None = None,
    *,
    name_servers: NameServersLike = None,
    topics: Iterable[str] = (),
    options: ProducerOptions | None = None,
    **settings: Unpack[ProducerSettings],
) -> Opening[Producer]:
    """Open a producer of ``group``; any number of tasks may use it at once.

    ``name_servers`` are addresses, as ``"10.0.0.1:9876;10.0.0.2:9876"`` or a sequence. Hooks
    in ``options`` run on the event loop.

    Raises ``InvalidName`` for a bad group or address.
    """
    name, servers, found = connect(group, name_servers, settings, ProducerOptions)
    merged = with_settings(ProducerOptions, options, found)
    return Opening(
        Producer,
        lambda bridge: _producer.open_producer(
            name, name_servers=servers, topics=topics, options=bridge.with_hooks(merged)
        ),
    )


def open_transaction_producer(
    group: str | None = None,
    *,
    check: Check,
    name_servers: NameServersLike = None,
    topics: Iterable[str] = (),
    options: ProducerOptions | None = None,
    **settings: Unpack[ProducerSettings],
) -> Opening[TransactionProducer]:
    """Open a producer of transactions of ``group``.

    ``check`` is awaited, in a task of its own, when a broker asks for the state of a
    transaction, which may be one of another producer of the group, of another process, or of
    before a restart: it must look it up where the local transaction left its mark. Other
    arguments are those of `open_producer`.
    """
    name, servers, found = connect(group, name_servers, settings, ProducerOptions)
    merged = with_settings(ProducerOptions, options, found)

    def opener(bridge: Bridge) -> AbstractAsyncContextManager[_transactions.TransactionProducer]:
        async def forwarded(message: ReceivedMessage) -> TransactionState:
            callback: Callback[TransactionState] = Callback(bridge.portal, partial(check, message))
            return await run_callback(bridge.executor, callback)

        return _transactions.open_transaction_producer(
            name,
            check=forwarded,
            name_servers=servers,
            topics=topics,
            options=bridge.with_hooks(merged),
        )

    return Opening(TransactionProducer, opener)


def open_push_consumer(
    group: str | None = None,
    *,
    name_servers: NameServersLike = None,
    subscriptions: Mapping[str, Expression],
    listener: Listener | Handle,
    options: PushOptions | None = None,
    **settings: Unpack[PushSettings],
) -> Opening[PushConsumer]:
    """Consume with ``listener`` while the block runs; it runs in tasks of this event loop.

    ``subscriptions`` maps topics to tags, ``"*"``, ``"A"``, ``"A || B"``, or to a condition,
    ``Sql("a > 5")``. All consumers of a group must have the same ones. A function for
    ``listener`` is short for ``ConcurrentListener(function)``. Inside the block the
    consumer has its queues, unless a broker could not be asked; then it goes on trying.

    When the block ends, pulling stops, listeners that run may finish (``shutdown_grace_s``),
    progress is reported and awaited, and the brokers are told. When it is left by an error or
    a cancellation, running listeners are cancelled; their messages come again, and what was
    settled before is reported all the same. A listener that does not end within a second of
    being cancelled is not waited for; what it returns does not count.

    Heartbeats and pulls do not depend on the event loop. If it ends and the block does not, the
    consumer is closed as by an error, some seconds later.

    Raises ``InvalidName`` for bad names, ``RefusedByBroker`` from a broker that does not
    filter by SQL. With ``require_route`` raises ``NoRoute`` for a topic without a route, and
    ``BrokerUnreachable`` or ``RequestTimedOut`` if no name server answers.
    """
    name, servers, found = connect(group, name_servers, settings, PushOptions)
    merged = with_settings(PushOptions, options, found)
    check_subscriptions(subscriptions)
    chosen = as_listener(listener)

    def opener(bridge: Bridge) -> AbstractAsyncContextManager[_push_consumer.PushConsumer]:
        gate = ListenerGate(
            bridge.portal,
            bridge.executor,
            bridge.leaving,
            ordered=not isinstance(chosen, ConcurrentListener),
            concurrency=chosen.concurrency,
        )
        executor = ListenerTasks(
            bridge.portal,
            bridge.executor,
            chosen.handle,
            bridge.leaving,
            ordered=not isinstance(chosen, ConcurrentListener),
            concurrency=chosen.concurrency,
        )
        forwarded = replace(chosen, handle=gate.handle(chosen.handle, executor))
        if isinstance(forwarded, StagedConcurrentListener):
            store = forward_store(bridge.portal, bridge.executor, forwarded.store)
            forwarded = replace(forwarded, store=store)
        return gate.follow(
            _push_consumer.open_push_consumer(
                name,
                name_servers=servers,
                subscriptions=subscriptions,
                listener=forwarded,
                options=bridge.with_hooks(merged),
            )
        )

    return Opening(PushConsumer, opener)


def open_lite_pull_consumer(
    group: str | None = None,
    *,
    name_servers: NameServersLike = None,
    options: LitePullOptions | None = None,
    **settings: Unpack[LitePullSettings],
) -> Opening[LitePullConsumer]:
    """Open a consumer that reads nothing yet: call ``subscribe`` or ``assign``.

    When the block ends, progress is reported and awaited: with ``auto_commit`` everything that
    ``poll`` returned. When it is left by an error or a cancellation, what the last polls
    returned counts as not done with, unless it was committed.

    Raises ``InvalidName``.
    """
    name, servers, found = connect(group, name_servers, settings, LitePullOptions)
    merged = with_settings(LitePullOptions, options, found)
    return Opening(
        LitePullConsumer,
        lambda bridge: _lite_pull.open_lite_pull_consumer(
            name, name_servers=servers, options=bridge.with_hooks(merged)
        ),
    )
