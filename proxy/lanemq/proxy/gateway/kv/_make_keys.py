"""The parts of the keys of a namespace, put together: over given queues, or topics of a cluster."""

import os
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio

from lanemq.sdk import RemotingClient
from lanemq.sdk.admin import AdminClient
from lanemq.wire.kv import OWNER_MARK, partition_name

from ._keys import CALL_S, SNAPSHOTS, TIMEOUT_S, UpstreamKeys
from ._known import KnownLog
from ._known_logs import PREFIX
from ._located import LocatedQueue, LogLocation
from ._log import PartitionLog
from ._queue import LogQueue
from ._snapshot_writer import SnapshotWriter


def make_keys(
    queues: Sequence[LogQueue],
    snapshots: Sequence[LogQueue],
    *,
    namespace: str,
    timeout_s: float = TIMEOUT_S,
    rng: random.Random | None = None,
    places: Sequence[LogLocation] = (),
    birth: Callable[[], str] = str,
) -> UpstreamKeys:
    """Make keys over given queues: for each partition its log, and its snapshots. ``birth`` is the
    identity with which they begin, empty for any."""
    rng = rng or random.Random(os.urandom(8))
    # No client can have this id: the log is the change feed, where everybody reads it.
    writer = f"{OWNER_MARK}{rng.getrandbits(64):016x}"
    logs: list[PartitionLog] = []

    async def identity_of(number: int) -> str:
        """Return a new identity, and for any partition but the first that of the first."""
        if not number:
            return birth() or f"{rng.getrandbits(64):016x}"
        while not (identity := logs[0].state.meta.identity) or logs[0].state.meta.deleted:
            await logs[0].follower.news.wait()
        return identity

    logs += (
        PartitionLog(
            queue,
            kept,
            name=partition_name(namespace, number),
            writer=writer,
            identity=partial(identity_of, number),
            partition=number,
            partitions=len(queues),
            rng=rng,
        )
        for number, (queue, kept) in enumerate(zip(queues, snapshots, strict=True))
    )
    writers = [SnapshotWriter(log, kept, rng) for log, kept in zip(logs, snapshots, strict=True)]
    return UpstreamKeys(logs, writers, timeout_s=timeout_s, places=places)


def check_births(keys: UpstreamKeys, check: Callable[..., None]) -> None:
    """Have the log of each partition checked before any of its records counts, and later on.

    ``check`` takes its birth, whether the namespace was dropped, and ``partition``; see
    ``KnownLog.check``.
    """
    for number, log in enumerate(keys.logs):
        log.follower.check_birth = partial(check, partition=number)


def make_upstream_keys(
    client: RemotingClient,
    admin: AdminClient,
    *,
    namespace: str,
    prefix: str = PREFIX,
    partitions: int = 1,
    broker: str | None = None,
    timeout_s: float = TIMEOUT_S,
    known: KnownLog | None = None,
) -> UpstreamKeys:
    """Make the keys of a namespace, whose log is the topic ``prefix + namespace``."""
    log = LogLocation(
        client,
        admin,
        prefix + namespace,
        queues=partitions,
        broker=broker,
        known=known,
    )
    beside = LogLocation(
        client,
        admin,
        prefix + SNAPSHOTS + namespace,
        queues=partitions,
        broker=None,
        beside=log,
    )
    queues, snapshots = (
        [LocatedQueue(location, number) for number in range(partitions)]
        for location in (log, beside)
    )
    is_of_orders = known is not None and not known.is_of_keys
    keys = make_keys(
        queues,
        snapshots,
        namespace=namespace,
        timeout_s=timeout_s,
        places=(log, beside),
        birth=lambda: known.birth if known is not None and is_of_orders else "",
    )
    if is_of_orders:
        keys.logs[0].follower.check = log.check
    else:
        check_births(keys, log.check)
    return keys


@asynccontextmanager
async def open_upstream_keys(
    client: RemotingClient,
    name_servers: Sequence[str],
    *,
    namespace: str,
    prefix: str = PREFIX,
    partitions: int = 1,
    broker: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> AsyncIterator[UpstreamKeys]:
    """Open the keys of a namespace; see ``make_upstream_keys``.

    Topics are created if they are missing, at ``broker`` or else at the first one by name. Nothing
    waits for the cluster here: calls do.
    """
    keys = make_upstream_keys(
        client,
        AdminClient(client, name_servers, timeout_s=CALL_S),
        namespace=namespace,
        prefix=prefix,
        partitions=partitions,
        broker=broker,
        timeout_s=timeout_s,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keys.run)
        yield keys
        nursery.cancel_scope.cancel()
