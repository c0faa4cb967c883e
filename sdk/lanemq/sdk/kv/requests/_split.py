"""Calls about many keys, divided by partition."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import msgspec

from lanemq.wire import RequestCode
from lanemq.wire.headers import KvMultiGet
from lanemq.wire.kv import (
    Entry,
    LoadedEntry,
    OpType,
    decode_answer,
    encode_load,
    partition_of,
)

from ..._tasks import gather
from ._attempts import Attempts
from ._calls import KvCalls
from ._errors import KvRejected


def common_partition(keys: Sequence[bytes], partitions: int) -> int:
    """Return the partition that all keys are in. Raises ``KvRejected`` where they differ."""
    if not keys:
        return 0
    first = partition_of(keys[0], partitions)
    for key in keys:
        other = partition_of(key, partitions)
        if other != first:
            raise KvRejected(
                f"a batch is done in one partition, and {keys[0][:40]!r} is in partition {first}, "
                f"{key[:40]!r} in {other} of {partitions}: take a namespace of one partition, or "
                "keys that are in the same one (see partition_of)"
            )
    return first


async def read_keys(calls: KvCalls, keys: Sequence[bytes]) -> list[Entry | None]:
    """Return the entry of each key, in the order asked; see ``KeyValueStore.multi_get``."""
    if not keys:
        return []
    attempts = calls.attempts()

    async def once(partitions: int) -> list[Entry | None]:
        places = defaultdict[int, list[int]](list)
        for place, key in enumerate(keys):
            places[partition_of(key, partitions)].append(place)

        async def read(partition: int) -> list[Entry | None]:
            wanted = [keys[place] for place in places[partition]]
            return await _read(calls, partition, partitions, wanted, attempts.fork())

        found: list[Entry | None] = [None] * len(keys)
        groups = await gather([partial(read, partition) for partition in places])
        for group, entries in zip(places.values(), groups, strict=True):
            for place, entry in zip(group, entries, strict=True):
                found[place] = entry
        return found

    return await calls.of_all(once, attempts)


async def _read(
    calls: KvCalls, partition: int, partitions: int, keys: list[bytes], attempts: Attempts
) -> list[Entry | None]:
    found: list[Entry | None] = []
    header = KvMultiGet(namespace=calls.namespace)
    while len(found) < len(keys):
        wanted = msgspec.msgpack.encode(keys[len(found) :])
        code = RequestCode.KV_MULTI_GET
        body = await calls.ask_at(partition, partitions, code, header, wanted, attempts=attempts)
        found += decode_answer(body, list[Entry | None])
    return found


async def write_to_all(calls: KvCalls, op_type: str) -> None:
    """Do an operation without steps in each partition; see ``KeyValueStore.clear``."""
    await calls.each(
        lambda one, of, attempts: calls.write_at(one, of, op_type, b"", attempts=attempts)
    )


async def load_entries(calls: KvCalls, entries: Sequence[LoadedEntry]) -> None:
    """Load entries; see ``KeyValueStore.load``."""
    attempts = calls.attempts()

    async def once(partitions: int) -> None:
        groups: dict[int, Sequence[LoadedEntry]] = {0: entries}
        if partitions > 1:
            groups = _by_partition(entries, partitions)

        async def load(partition: int, part: Sequence[LoadedEntry]) -> None:
            body = encode_load(part)
            await calls.write_at(partition, partitions, OpType.LOAD, body, attempts=attempts.fork())

        await gather([partial(load, *one) for one in groups.items()])

    await calls.of_all(once, attempts)


def _by_partition(
    entries: Sequence[LoadedEntry], partitions: int
) -> dict[int, Sequence[LoadedEntry]]:
    """Divide entries by their partitions; none at all are those of the first."""
    groups = defaultdict[int, list[LoadedEntry]](list)
    for entry in entries:
        groups[partition_of(entry.key, partitions)].append(entry)
    return dict(groups) or {0: []}
