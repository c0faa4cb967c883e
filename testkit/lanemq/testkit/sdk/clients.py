"""Clients of a cluster in memory: they dial into it, and their clock is trio's."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Unpack

from lanemq.sdk import (
    LitePullConsumer,
    LitePullOptions,
    Producer,
    ProducerOptions,
    PushConsumer,
    PushOptions,
    open_lite_pull_consumer,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.consumer._broker_requests import Listener
from lanemq.sdk.consumer._expressions import Expression
from lanemq.sdk.listeners._listener import Handle
from lanemq.sdk.net._link import Dial
from lanemq.sdk.opening._settings import LitePullSettings, ProducerSettings, PushSettings

from .cluster import FakeCluster, clock_ms


def producer_of(
    cluster: FakeCluster,
    options: ProducerOptions | None = None,
    *,
    group: str = "pg",
    **settings: Unpack[ProducerSettings],
) -> AbstractAsyncContextManager[Producer]:
    """Open a producer that sends to ``cluster``."""
    return open_producer(
        group,
        name_servers=cluster.name_servers,
        options=options,
        dial=cluster.dial,
        clock_ms=clock_ms,
        **settings,
    )


def push_consumer_of(
    cluster: FakeCluster,
    listener: Listener | Handle,
    options: PushOptions | None = None,
    *,
    group: str = "cg",
    subscriptions: Mapping[str, Expression] | None = None,
    dial: Dial | None = None,
    **settings: Unpack[PushSettings],
) -> AbstractAsyncContextManager[PushConsumer]:
    """Open a consumer of all of topic T, or of ``subscriptions``, whose messages ``listener`` gets.

    ``dial`` is for those whose process can be killed.
    """
    return open_push_consumer(
        group,
        name_servers=cluster.name_servers,
        subscriptions={"T": "*"} if subscriptions is None else subscriptions,
        listener=listener,
        options=options,
        dial=dial or cluster.dial,
        clock_ms=clock_ms,
        **settings,
    )


def lite_pull_consumer_of(
    cluster: FakeCluster,
    options: LitePullOptions | None = None,
    *,
    group: str = "lg",
    dial: Dial | None = None,
    **settings: Unpack[LitePullSettings],
) -> AbstractAsyncContextManager[LitePullConsumer]:
    """Open a consumer of ``cluster`` that reads nothing yet."""
    return open_lite_pull_consumer(
        group,
        name_servers=cluster.name_servers,
        options=options,
        dial=dial or cluster.dial,
        clock_ms=clock_ms,
        **settings,
    )
