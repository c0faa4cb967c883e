"""Creation of a namespace: one write for each partition, at the broker that is chosen for it."""

from collections.abc import Sequence
from functools import partial

from lanemq.wire.kv import LONE_BROKER, PARTITIONS_MAX, Moved, OpType

from ..._errors import BrokerUnreachable, NoRoute, RequestTimedOut
from ._calls import KvCalls, OtherPartitions
from ._errors import KvRejected, KvStateLost, counted
from ._route import KvRoute


async def create_namespace(calls: KvCalls, partitions: int | None, brokers: Sequence[str]) -> None:
    """Make a namespace; see ``KeyValueStore.create``."""
    if partitions is not None:
        await _create_partitions(calls, partitions, brokers)
    elif not brokers:
        await calls.create()
    elif len(brokers) > 1:
        raise KvRejected("several brokers are for several partitions: say how many, up to 64")
    else:
        await _create_one(calls, brokers[0])


async def _create_one(calls: KvCalls, broker: str) -> None:
    calls.holders.check_named(await _route(calls), broker)
    attempts = calls.attempts()

    async def once(partitions: int) -> None:
        # One of several partitions that is not listed now may be at a broker that is down.
        create_at = broker if partitions == 1 else None
        await calls.write_at(
            0, partitions, OpType.CREATE, b"", attempts=attempts, create_at=create_at
        )

    await calls.of_all(once, attempts)


async def _create_partitions(calls: KvCalls, partitions: int, brokers: Sequence[str]) -> None:
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise KvRejected(f"a namespace has 1 to {PARTITIONS_MAX} partitions, not {partitions}")
    holders = calls.holders
    candidates = list(brokers) or [holders.named or LONE_BROKER]
    try:
        route = await _route(calls)
        holders.assume(partitions)
        await _check_number(calls, route, partitions)
        for partition in range(partitions):
            broker = _broker_for(route, partition, candidates[partition % len(candidates)])
            if broker is not None:
                await calls.write_at(
                    partition,
                    partitions,
                    OpType.CREATE,
                    b"",
                    attempts=calls.attempts(),
                    create_at=broker,
                )
    except OtherPartitions:
        there = await holders.partitions()
        raise KvRejected(
            f"namespace {calls.namespace!r} has {counted(there)}, and not {partitions}: their "
            "number never changes"
        ) from None
    finally:
        holders.assume(None)


async def _route(calls: KvCalls) -> KvRoute:
    attempts = calls.attempts()
    while True:
        try:
            return await attempts.look_up(partial(calls.holders.look, making=True))
        except (BrokerUnreachable, NoRoute, RequestTimedOut) as error:
            await attempts.pause(error)


def _broker_for(route: KvRoute, partition: int, new: str) -> str | None:
    """Return the broker that is to make a partition, or finish it; None for one that moves."""
    if partition not in _there(route):
        return new
    holder = (route.holders or {}).get(partition)
    return None if holder is None else holder.broker


def _there(route: KvRoute) -> Sequence[int]:
    """Return the partitions that exist, those that take requests first."""
    if route.holders is None:
        return (0,) if route.listed else ()
    return sorted(route.holders, key=lambda one: (route.holders or {})[one] is None)


async def _check_number(calls: KvCalls, route: KvRoute, partitions: int) -> None:
    """Raise ``OtherPartitions`` if the namespace exists with another number of partitions."""
    if not route.names:
        return
    if not _there(route):  # its brokers are away, and name servers remember them
        if route.partitions != partitions:
            calls.holders.moved(0, Moved(route.partitions))
            raise OtherPartitions
        return
    partition = next((one for one in _there(route) if one < partitions), None)
    if partition is None:
        raise KvRejected(f"namespace {calls.namespace!r} has more than {counted(partitions)}")
    try:
        status = await calls.status_at(partition, partitions, attempts=calls.attempts())
    except KvStateLost:
        return
    if status.partitions != partitions:  # a broker that knows of one only
        calls.holders.moved(partition, Moved(status.partitions))
        raise OtherPartitions
