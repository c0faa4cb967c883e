"""Pages of a prefix: of one partition, or merged from one page of each."""

import heapq
from collections.abc import Sequence
from functools import partial

import msgspec

from lanemq.wire import RequestCode
from lanemq.wire.headers import KvScan
from lanemq.wire.kv import (
    PAGE_BYTES_MAX,
    PAGE_ENTRIES_MAX,
    Entry,
    Page,
    RangePage,
    decode_answer,
)

from ..._tasks import gather
from ._attempts import Attempts
from ._calls import KvCalls
from ._errors import KvRejected, counted


async def read_page(calls: KvCalls, header: KvScan, partition: int | None) -> Page:
    """Read a page of one partition, or of all; see ``KeyValueStore.prefix``."""
    attempts = calls.attempts()

    async def once(partitions: int) -> Page:
        one = 0 if partition is None and partitions == 1 else partition
        if one is None and header.snapshot is not None:
            why = f"a snapshot is of one partition, and there are {partitions}: say which"
            await calls.refuse(partitions, KvRejected(f"{why}, with partition="))
        if one is not None and not 0 <= one < partitions:
            why = f"there is no partition {one}: the namespace has {counted(partitions)}, from 0 on"
            await calls.refuse(partitions, KvRejected(why))
        if one is not None:
            page = await _read(calls, header, one, partitions, attempts)
            return msgspec.structs.replace(page, positions=(page.position,))
        asked = [
            partial(_read, calls, header, number, partitions, attempts.fork())
            for number in range(partitions)
        ]
        return merged(await gather(asked), header.limit)

    return await calls.of_all(once, attempts)


async def _read(
    calls: KvCalls, header: KvScan, partition: int, partitions: int, attempts: Attempts
) -> Page:
    code = RequestCode.KV_SCAN
    return decode_answer(
        await calls.ask_at(partition, partitions, code, header, attempts=attempts), Page
    )


def merged(pages: Sequence[Page], limit: int) -> Page:
    """Merge a page of each partition, all from the same cursor, into one."""
    found, cursor = merged_entries(pages, limit)
    return Page(
        found,
        cursor,
        -1,
        max(page.clock_ms for page in pages),
        positions=tuple(page.position for page in pages),
    )


def merged_entries(
    pages: Sequence[Page | RangePage], limit: int, *, reverse: bool = False
) -> tuple[list[Entry], bytes | None]:
    """Merge the entries of pages in their order, up to a page; return them, and its cursor.

    What is behind the end of any page may lack keys of its partition, so it is left for the next.
    """
    ends = [page.cursor for page in pages if page.cursor is not None]
    end = (max if reverse else min)(ends, default=None)
    limit = max(1, min(limit, PAGE_ENTRIES_MAX))
    found, size_bytes = list[Entry](), 0
    parts = (page.entries for page in pages)
    for entry in heapq.merge(*parts, key=lambda one: one.key, reverse=reverse):
        if end is not None and (entry.key < end if reverse else entry.key >= end):
            break
        if len(found) >= limit or size_bytes >= PAGE_BYTES_MAX:
            # The cursor back is behind the key that comes next, as the end of a range is.
            return found, entry.key + b"\0" if reverse else entry.key
        found.append(entry)
        size_bytes += len(entry.key) + len(entry.value)
    return found, end
