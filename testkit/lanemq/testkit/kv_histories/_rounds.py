"""Rounds of a history: clients at work with keys of their own while the cluster fares badly.

Each ends with the judgement of what its clients were answered, so a search never has the calls of
more than a dozen misfortunes.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from lanemq.sdk import LanemqError
from lanemq.sdk.kv import KeyValueStore, open_kv_store
from lanemq.sdk.kv.requests._split import write_to_all
from lanemq.wire.kv import LoadedEntry, OpType

from ..proxy.kv_history import History, answered, clients
from ..proxy.linearizable import NOT_KNOWN, Operation, is_linearizable
from ._cluster import PARTITIONS, WAIT_S, Cluster

MISFORTUNES: Final = 10
CALLS_BETWEEN: Final = 20
IMPORTED: Final = 240
"""Entries of an import."""
LOAD_ENTRIES: Final = 40


async def calls(
    cluster: Cluster, rng: random.Random, name: str, misfortunes: int = MISFORTUNES
) -> bool:
    """Clients put, compare, transact, lease and delete; returns whether they saw one store."""
    history = History([f"{name}-{key}".encode() for key in "abc"])
    async with clients(cluster.address, history):
        for _ in range(misfortunes):
            await cluster.misfortune("default")
            with trio.fail_after(WAIT_S):
                await answered(history, history.answered + rng.randint(1, CALLS_BETWEEN))
        await cluster.all_open("default")
        await cluster.bring_moves_to_an_end("default")
    return history.is_linearizable


async def deletions(
    cluster: Cluster, rng: random.Random, name: str, misfortunes: int = MISFORTUNES
) -> bool:
    """The same, while their namespace is deleted and made again."""
    namespace = "deleted"
    history = History([f"{name}-{key}".encode() for key in "abc"])
    await cluster.create(namespace)
    async with clients(cluster.address, history, namespace=namespace):
        for _ in range(misfortunes):
            async with trio.open_nursery() as nursery:
                if rng.random() < 0.4:
                    nursery.start_soon(_delete, cluster, history, namespace)
                await cluster.misfortune(namespace, moves=False)
            with trio.fail_after(WAIT_S):
                await answered(history, history.answered + rng.randint(1, CALLS_BETWEEN))
        await cluster.all_open(namespace)
    return history.is_linearizable


async def _delete(cluster: Cluster, history: History, namespace: str) -> None:
    async with open_kv_store(
        name_servers=cluster.address, namespace=namespace, timeout_s=WAIT_S
    ) as store:
        await history.drop(store.delete_namespace)
    await cluster.create(namespace)


async def imports(
    cluster: Cluster, rng: random.Random, name: str, misfortunes: int = MISFORTUNES
) -> bool:
    """Snapshots are imported; returns whether each partition was one of them whenever it was read.

    Each is a generation, and a partition is a register that has a generation.
    """
    namespace = f"imported-{name}"
    await cluster.create(namespace)
    history: list[list[Operation]] = [[] for _ in range(PARTITIONS)]
    torn: list[str] = []
    async with (
        open_kv_store(name_servers=cluster.address, namespace=namespace, timeout_s=WAIT_S) as store,
        trio.open_nursery() as nursery,
    ):
        numbers = {
            partition: {
                number
                for number in range(IMPORTED)
                if await store.partition_of(_key(number)) == partition
            }
            for partition in range(PARTITIONS)
        }

        async def read(partition: int) -> None:
            while True:
                begin_s = trio.current_time()
                try:
                    page = await store.prefix(b"i", partition=partition, limit=1000)
                    if page.cursor is not None:  # a turn has ended before the page
                        continue
                except LanemqError:
                    await trio.sleep(0.1)
                    continue
                now_s = trio.current_time()
                found = {one.value for one in page.entries}
                keys = {one.key for one in page.entries}
                if len(found) > 1 or (keys and keys != {_key(n) for n in numbers[partition]}):
                    torn.append(f"partition {partition}: {len(keys)} entries of {sorted(found)}")
                value = min(found, default=None)
                answer = None if value is None else (int(value), value)
                history[partition].append(Operation(begin_s, now_s, "get", answer))
                await trio.sleep(rng.random() / 10)

        async def put() -> None:
            generation = 0
            while True:
                generation += 1
                await _import(store, generation, history)

        for partition in range(PARTITIONS):
            nursery.start_soon(read, partition)
        nursery.start_soon(put)
        for _ in range(misfortunes):
            await cluster.misfortune(namespace)
            known = [len(one) for one in history]
            with trio.fail_after(WAIT_S):
                await _until(lambda known=known: _grown(history, known))  # type: ignore[misc]
        nursery.cancel_scope.cancel()
    await _deleted(cluster, namespace)
    return not torn and all(map(is_linearizable, history))


async def _import(store: KeyValueStore, generation: int, history: list[list[Operation]]) -> None:
    value = b"%d" % generation
    begin_s, end_s, answer = trio.current_time(), float("inf"), NOT_KNOWN
    try:
        await write_to_all(store._calls, OpType.IMPORT)
        for first in range(0, IMPORTED, LOAD_ENTRIES):
            loaded = range(first, first + LOAD_ENTRIES)
            await store.load([LoadedEntry(_key(n), value, generation, 1, 1) for n in loaded])
        await write_to_all(store._calls, OpType.IMPORTED)
        end_s, answer = trio.current_time(), ""
    except LanemqError:
        await trio.sleep(0.05)
    finally:
        done = Operation(begin_s, end_s, "import", answer, value, generation)
        for one in history:
            one.append(done)


async def _deleted(cluster: Cluster, namespace: str) -> None:
    async with open_kv_store(
        name_servers=cluster.address, namespace=namespace, timeout_s=WAIT_S
    ) as store:
        await store.delete_namespace()


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - the clients have nobody to tell
        await trio.sleep(0.01)


def _grown(history: list[list[Operation]], known: list[int]) -> bool:
    return all(len(one) > before + 1 for one, before in zip(history, known, strict=True))


def _key(number: int) -> bytes:
    return b"i%04d" % number


KINDS: Final[dict[str, Callable[..., Awaitable[bool]]]] = {
    "calls": calls,
    "deletions": deletions,
    "imports": imports,
}
