"""Reads of a store from key to key, at earlier revisions too, and the history that is kept."""

from collections.abc import Sequence

from lanemq.wire import LONG_MAX
from lanemq.wire.headers import KvRange
from lanemq.wire.kv import (
    PAGE_ENTRIES_MAX,
    OpType,
    RangePage,
    after_key,
    encode_compact,
    encode_key,
)

from .._values import check_whole
from ._numbers import check_bytes
from .requests._attempts import Attempts
from .requests._calls import KvCalls
from .requests._errors import KvRejected, counted
from .requests._ranges import count_range, read_range


class KeyRanges:
    """The range reads of a store."""

    _calls: KvCalls
    namespace: str

    async def range(
        self,
        begin: bytes = b"",
        end: bytes | None = None,
        *,
        prefix: bytes | None = None,
        limit: int = 1000,
        cursor: bytes | None = None,
        reverse: bool = False,
        keys_only: bool = False,
        revision: int | Sequence[int] | None = None,
    ) -> RangePage:
        """Return a page of the entries from ``begin`` up to, but without, ``end``.

        Without ``end`` it has all keys from ``begin`` on; ``prefix`` stands for both. It has
        ``limit`` entries at most, from 1 to 1,000, and a MiB, in the order of their bytes, or
        with ``reverse`` from the last key on. ``page.cursor`` is for the next page, with the same
        other arguments; the last page is that without.

        All entries are of one moment, and the next page is of the same one if it is asked for
        with ``revision=page.positions``. A ``revision`` is a number of records of the log: the
        entries are those of then, as far as the history is known (``compact``). Of several
        partitions there is one for each. Raises ``KvCompacted`` for an earlier one, and as
        ``get``; ``KvNotSupported`` at a broker of an earlier version.
        """
        check_whole("limit", limit, least=1, most=PAGE_ENTRIES_MAX, error=KvRejected)
        header, revisions = self._asked(begin, end, prefix, revision)
        if cursor is not None:
            check_bytes("a cursor", cursor)
        place = None if cursor is None else encode_key(cursor)
        asked = KvRange(
            begin=header.begin if place is None or reverse else place,
            end=place if place is not None and reverse else header.end,
            namespace=self.namespace,
            limit=limit,
            reverse=reverse,
            keys_only=keys_only,
        )
        return await read_range(self._calls, asked, revisions)

    async def count(
        self,
        begin: bytes = b"",
        end: bytes | None = None,
        *,
        prefix: bytes | None = None,
        revision: int | Sequence[int] | None = None,
    ) -> int:
        """Return the number of entries that ``range`` has, those of a partition at one moment."""
        header, revisions = self._asked(begin, end, prefix, revision)
        return await count_range(self._calls, header, revisions)

    async def compact(self, revision: int | Sequence[int]) -> None:
        """Forget the history before a revision: what watches and reads of the past begin at.

        Brokers keep the latest 100,000 changes of a partition, and fewer after this. Of several
        partitions there is a revision for each. Raises ``KvCompacted`` for one whose history is
        forgotten already, ``KvRejected`` for one that is not there yet, and as ``put``.
        """
        calls, revisions = self._calls, _each("revision", revision)

        async def compact(number: int, partitions: int, attempts: Attempts) -> None:
            if len(revisions) != partitions:
                why = f"the namespace has {counted(partitions)}: give a revision for each"
                await calls.refuse(partitions, KvRejected(why))
            body = encode_compact(revisions[number])
            await calls.write_at(number, partitions, OpType.COMPACT, body, attempts=attempts)

        await calls.each(compact)

    def _asked(
        self,
        begin: bytes,
        end: bytes | None,
        prefix: bytes | None,
        revision: int | Sequence[int] | None,
    ) -> tuple[KvRange, Sequence[int] | None]:
        if prefix is not None:
            if begin or end is not None:
                raise KvRejected("a range has prefix=, or begin and end, and not both")
            check_bytes("a prefix", prefix)
            begin, end = bytes(prefix), after_key(bytes(prefix))
        check_bytes("begin", begin)
        if end is not None:
            check_bytes("end", end)
        header = KvRange(
            begin=encode_key(begin),
            end=None if end is None else encode_key(end),
            namespace=self.namespace,
            count_only=True,
        )
        return header, None if revision is None else _each("revision", revision)


def _each(name: str, given: int | Sequence[int]) -> Sequence[int]:
    numbers = (given,) if isinstance(given, int) else tuple(given)
    for one in numbers:
        check_whole(name, one, least=0, most=LONG_MAX, error=KvRejected)
    return numbers
