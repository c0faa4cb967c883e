"""Pages of a range of keys: of one partition, or merged from one page of each."""

from collections.abc import Sequence
from functools import partial

import msgspec

from lanemq.wire import RequestCode
from lanemq.wire.headers import KvRange
from lanemq.wire.kv import (
    RangePage,
    decode_answer,
    encode_key,
)

from ..._tasks import gather
from ._attempts import Attempts
from ._calls import KvCalls
from ._errors import KvRejected, counted
from ._pages import merged_entries


async def read_range(calls: KvCalls, header: KvRange, revisions: Sequence[int] | None) -> RangePage:
    """Read a page of all partitions, at a revision of each; see ``KeyValueStore.range``."""
    attempts = calls.attempts()

    async def once(partitions: int) -> RangePage:
        if revisions is not None and len(revisions) != partitions:
            why = (
                f"the namespace has {counted(partitions)}: a read of the past needs as many "
                f"revisions, as page.positions has them, and not {len(revisions)}"
            )
            await calls.refuse(partitions, KvRejected(why))
        asked = [
            partial(
                _read,
                calls,
                header if revisions is None else _at(header, revisions[number]),
                number,
                partitions,
                attempts.fork(),
            )
            for number in range(partitions)
        ]
        return merged_ranges(await gather(asked), header.limit, reverse=header.reverse)

    return await calls.of_all(once, attempts)


async def count_range(calls: KvCalls, header: KvRange, revisions: Sequence[int] | None) -> int:
    """Count the entries of a range, those of a partition at one moment."""

    async def count(number: int, partitions: int, attempts: Attempts) -> int:
        asked = header if revisions is None else _at(header, revisions[number])
        total = 0
        while True:
            page = await _read(calls, asked, number, partitions, attempts)
            total += page.count
            if page.cursor is None:
                return total
            asked = _at(asked, page.position)
            asked = msgspec.structs.replace(asked, begin=encode_key(page.cursor))

    async def checked(number: int, partitions: int, attempts: Attempts) -> int:
        if revisions is not None and len(revisions) != partitions:
            why = f"the namespace has {counted(partitions)}, and revisions {len(revisions)}"
            await calls.refuse(partitions, KvRejected(why))
        return await count(number, partitions, attempts)

    return sum(await calls.each(checked))


def _at(header: KvRange, revision: int) -> KvRange:
    return msgspec.structs.replace(header, revision=revision)


async def _read(
    calls: KvCalls, header: KvRange, partition: int, partitions: int, attempts: Attempts
) -> RangePage:
    code = RequestCode.KV_RANGE
    body = await calls.ask_at(partition, partitions, code, header, attempts=attempts)
    return decode_answer(body, RangePage)


def merged_ranges(pages: Sequence[RangePage], limit: int, *, reverse: bool) -> RangePage:
    """Merge a page of each partition, all from the same cursor, into one."""
    if len(pages) == 1:
        return msgspec.structs.replace(pages[0], positions=(pages[0].position,))
    found, cursor = merged_entries(pages, limit, reverse=reverse)
    return RangePage(
        found,
        cursor,
        -1,
        max(page.clock_ms for page in pages),
        len(found),
        tuple(page.position for page in pages),
    )
