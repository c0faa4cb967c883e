"""The servers that scenarios run on, by name."""

import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from ._apache import APACHE_VERSIONS
from ._clusters import Cluster, apache_cluster, lanemq_cluster, running
from ._logical import LOGICAL_SERVER, logical_cluster
from ._proxy import PROXY_SERVERS, proxy_cluster

MAKERS: dict[str, Callable[[Path], Cluster]] = {
    "lanemq": lanemq_cluster,
    LOGICAL_SERVER: logical_cluster,
    "apache-4.9.7": lambda folder: apache_cluster("4.9.7", folder),
    "apache-5.3.3": lambda folder: apache_cluster("5.3.3", folder),
    **{name: partial(proxy_cluster, name) for name in PROXY_SERVERS},
}
SERVER_NAMES = tuple(MAKERS)


def needs_java(name: str) -> bool:
    """Return whether a server is one of Apache's, or stands before one."""
    return "apache-" in name


assert {f"apache-{version}" for version in APACHE_VERSIONS} < set(SERVER_NAMES)


@asynccontextmanager
async def run_server(name: str, *, logs: Path | None = None) -> AsyncIterator[Cluster]:
    """Run one of ``SERVER_NAMES`` in a temporary folder, with short delay levels."""
    with tempfile.TemporaryDirectory(prefix="lanemq-compat-") as folder:
        cluster = await trio.to_thread.run_sync(MAKERS[name], Path(folder))
        async with running(cluster, logs=logs, graceful=not needs_java(name)):
            yield cluster
