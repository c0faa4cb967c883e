"""Clusters in memory with logical queues, and the tools of an operator for them."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from lanemq.sdk.admin import AdminClient, open_admin

from .cluster import LogicalCluster, open_logical_cluster


@asynccontextmanager
async def mapped_cluster(
    *names: str, queues: int = 1, messages: int = 0, seed: int = 0, **settings: object
) -> AsyncIterator[LogicalCluster]:
    """Open a cluster with ``queues`` logical queues at each broker; the first has ``messages``."""
    async with open_logical_cluster(*names, seed=seed, **settings) as cluster:
        await cluster.map_all(queues=queues)
        if messages:
            await cluster.fill(await cluster.normal(0), messages)
        yield cluster


def tools(
    cluster: LogicalCluster, host: str = "10.0.9.8"
) -> AbstractAsyncContextManager[AdminClient]:
    """Open the tools of an operator who sits at ``host``."""
    address, dial = cluster.name_server.address, cluster.network.dialer(host)
    return open_admin(name_servers=address, dial=dial)
