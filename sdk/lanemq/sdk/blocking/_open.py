"""The way into the blocking clients. Each takes what its namesake in lanemq.sdk takes, but the
seams for tests, and opens with a ``with`` block.
"""

import inspect
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Unpack

from .. import _lite_pull, _producer, _push_consumer, _transactions
from .._errors import WrongUse
from .._messages import ReceivedMessage
from .._options import LitePullOptions, ProducerOptions, PushOptions
from .._transactions import TransactionState
from ..consumer._expressions import Expression
from ..faces._executor import ListenerGate, forward_store, run_callback
from ..faces._portal_calls import Callback
from ..listeners._listener_context import check_parameters
from ..net._discovery import NameServersLike
from ..opening._mistakes import LISTENERS, NAMES, check_subscriptions
from ..opening._settings import LitePullSettings, ProducerSettings, PushSettings, with_settings
from ..opening._url import connect
from ._bridge import Bridge, Opening
from ._callables import Check, Handle, check_plain
from ._consumers import LitePullConsumer, PushConsumer
from ._listeners import (
    ConcurrentListener,
    KeyOrderedListener,
    OrderlyListener,
    StagedConcurrentListener,
)
from ._producer import Producer, TransactionProducer
from ._threads import ListenerThreads

Listener = ConcurrentListener | OrderlyListener | KeyOrderedListener | StagedConcurrentListener


def open_producer(
    group: str | None = None,
    *,
    name_servers: NameServersLike = None,
    topics: Iterable[str] = (),
    options: ProducerOptions | None = None,
    **settings: Unpack[ProducerSettings],
) -> Opening[Producer]:
    """Open a producer of ``group``; any number of threads may use it at once.

    ``name_servers`` are addresses, as ``"10.0.0.1:9876;10.0.0.2:9876"`` or a sequence. Hooks
    in ``options`` are plain functions and run in threads of their own.

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

    ``check`` is called, in a thread of its own, when a broker asks for the state of a
    transaction, which may be one of another producer of the group, of another process, or of
    before a restart: it must look it up where the local transaction left its mark. Other
    arguments are those of `open_producer`.
    """
    name, servers, found = connect(group, name_servers, settings, ProducerOptions)
    merged = with_settings(ProducerOptions, options, found)
    check_plain(check, "`check`")

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
    """Consume with ``listener`` while the block runs; it runs in threads of its own.

    ``subscriptions`` maps topics to tags, ``"*"``, ``"A"``, ``"A || B"``, or to a condition,
    ``Sql("a > 5")``. All consumers of a group must have the same ones. A function for
    ``listener`` is short for ``ConcurrentListener(function)``. Inside the block the
    consumer has its queues, unless a broker could not be asked; then it goes on trying.

    When the block ends, pulling stops, listeners that run may finish (``shutdown_grace_s``),
    progress is reported and awaited, and the brokers are told. A thread cannot be stopped: a
    listener that runs on after that, or when the block is left by an error, is left alone, what
    it returns does not count, and its messages come again. One that takes longer than
    ``consume_timeout_s`` goes on to take up one of its ``concurrency`` threads; the messages of
    a ``ConcurrentListener`` come again meanwhile, others wait for it.

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
        executor = ListenerThreads(
            bridge.portal,
            chosen.handle,
            bridge.leaving,
            ordered=not isinstance(chosen, ConcurrentListener),
            concurrency=chosen.concurrency,
        )
        handle = gate.handle(chosen.handle, executor)
        return gate.follow(
            _push_consumer.open_push_consumer(
                name,
                name_servers=servers,
                subscriptions=subscriptions,
                listener=(
                    chosen.for_core(
                        handle, forward_store(bridge.portal, bridge.executor, chosen.store)
                    )
                    if isinstance(chosen, StagedConcurrentListener)
                    else chosen.for_core(handle)
                ),
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
    ``poll`` returned. When it is left by an error, what the last polls returned counts as not
    done with, unless it was committed.

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


def as_listener(listener: object) -> Listener:
    """Return the listener; a plain function stands for a ``ConcurrentListener`` of it.

    Raises ``WrongUse`` for a listener of another face, and for other values.
    """
    if isinstance(listener, Listener):
        check_parameters(listener.handle, "the listener")
        return listener
    if isinstance(listener, LISTENERS):
        name = type(listener).__name__
        raise WrongUse(
            f"this {name} is that of lanemq.sdk, for coroutine functions: write"
            f" `from lanemq.sdk.blocking import {name}`"
        )
    if inspect.isroutine(listener):
        check_plain(listener, "the listener")
        check_parameters(listener, "the listener")
        return ConcurrentListener(listener)
    raise WrongUse(f"listener must be one of {NAMES}, or a function, not {listener!r}")
