"""The way into the blocking clients. Each takes what its namesake in lanemq.sdk takes, but the
seams for tests, and opens with a ``with`` block.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial

from .. import _lite_pull, _producer, _push_consumer, _transactions
from .._discovery import NameServersLike
from .._elsewhere import Gate, forward_store, run_at
from .._expressions import Expression
from .._messages import ReceivedMessage
from .._options import LitePullOptions, ProducerOptions, PushOptions
from .._portal_calls import Errand
from .._transactions import TransactionState
from ._bridge import Bridge, Opening
from ._callables import Check, check_plain
from ._listeners import ConcurrentListener, OrderlyListener, StagedConcurrentListener
from ._lite_pull import LitePullConsumer
from ._producer import Producer
from ._push_consumer import PushConsumer
from ._transactions import TransactionProducer

Listener = ConcurrentListener | OrderlyListener | StagedConcurrentListener


def open_producer(
    group: str,
    *,
    name_servers: NameServersLike = None,
    options: ProducerOptions | None = None,
) -> AbstractContextManager[Producer]:
    """Open a producer of ``group``; any number of threads may use it at once.

    ``name_servers`` are addresses, as ``"10.0.0.1:9876;10.0.0.2:9876"`` or a sequence. Hooks
    in ``options`` are plain functions and run in threads of their own.

    Raises ``InvalidName`` for a bad group or address.
    """
    return Opening(
        Producer,
        lambda bridge: _producer.open_producer(
            group, name_servers=name_servers, options=bridge.with_hooks(options)
        ),
    )


def open_transaction_producer(
    group: str,
    *,
    check: Check,
    name_servers: NameServersLike = None,
    options: ProducerOptions | None = None,
) -> AbstractContextManager[TransactionProducer]:
    """Open a producer of transactions of ``group``.

    ``check`` is called, in a thread of its own, when a broker asks for the state of a
    transaction, which may be one of another producer of the group, of another process, or of
    before a restart: it must look it up where the local transaction left its mark. Other
    arguments are those of `open_producer`.
    """
    check_plain(check, "`check`")

    def opener(bridge: Bridge) -> AbstractAsyncContextManager[_transactions.TransactionProducer]:
        async def forwarded(message: ReceivedMessage) -> TransactionState:
            errand: Errand[TransactionState] = Errand(bridge.portal, partial(check, message))
            return await run_at(bridge.place, errand)

        return _transactions.open_transaction_producer(
            group, check=forwarded, name_servers=name_servers, options=bridge.with_hooks(options)
        )

    return Opening(TransactionProducer, opener)


def open_push_consumer(
    group: str,
    *,
    name_servers: NameServersLike = None,
    subscriptions: Mapping[str, Expression],
    listener: Listener,
    options: PushOptions | None = None,
) -> AbstractContextManager[PushConsumer]:
    """Consume with ``listener`` while the block runs; it runs in threads of its own.

    ``subscriptions`` maps topics to tags, ``"*"``, ``"A"``, ``"A || B"``, or to a condition,
    ``Sql("a > 5")``. All consumers of a group must have the same ones. Inside the block the
    consumer has its queues, unless a broker could not be asked; then it goes on trying.

    When the block ends, pulling stops, listeners that run may finish (``shutdown_grace_s``),
    progress is reported and awaited, and the brokers are told. A thread cannot be stopped: a
    listener that runs on after that, or when the block is left by an error, is left alone, what
    it returns does not count, and its messages come again. One that takes longer than
    ``consume_timeout_s`` goes on to take up one of its ``concurrency`` threads; the messages of
    a ``ConcurrentListener`` come again meanwhile, others wait for it.

    Raises ``InvalidName`` for bad names, ``RefusedByBroker`` from a broker that does not
    filter by SQL, ``BrokerUnreachable`` or ``RequestTimedOut`` if no name server answers.
    """

    def opener(bridge: Bridge) -> AbstractAsyncContextManager[_push_consumer.PushConsumer]:
        gate = Gate(
            bridge.portal,
            bridge.place,
            bridge.leaving,
            ordered=not isinstance(listener, ConcurrentListener),
            concurrency=listener.concurrency,
        )
        handle = gate.handle(listener.handle)
        return gate.follow(
            _push_consumer.open_push_consumer(
                group,
                name_servers=name_servers,
                subscriptions=subscriptions,
                listener=(
                    listener.for_core(
                        handle, forward_store(bridge.portal, bridge.place, listener.store)
                    )
                    if isinstance(listener, StagedConcurrentListener)
                    else listener.for_core(handle)
                ),
                options=bridge.with_hooks(options),
            )
        )

    return Opening(PushConsumer, opener)


def open_lite_pull_consumer(
    group: str,
    *,
    name_servers: NameServersLike = None,
    options: LitePullOptions | None = None,
) -> AbstractContextManager[LitePullConsumer]:
    """Open a consumer that reads nothing yet: call ``subscribe`` or ``assign``.

    When the block ends, progress is reported and awaited: with ``auto_commit`` everything that
    ``poll`` returned. When it is left by an error, what the last polls returned counts as not
    done with, unless it was committed.

    Raises ``InvalidName``.
    """
    return Opening(
        LitePullConsumer,
        lambda _: _lite_pull.open_lite_pull_consumer(
            group, name_servers=name_servers, options=options
        ),
    )
