"""Generated from lanemq.sdk.kv._ranges by sdk/tools/generate_faces.py."""

from collections.abc import Sequence

from lanemq.wire.kv import RangePage

from ...kv._store import KeyValueStore
from .._bridge import Bridge


class KeyRanges:
    """The range reads of a store."""

    _core: KeyValueStore
    _bridge: Bridge

    def range(
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
        return self._bridge.call(
            self._core.range,
            begin,
            end,
            prefix=prefix,
            limit=limit,
            cursor=cursor,
            reverse=reverse,
            keys_only=keys_only,
            revision=revision,
        )

    def count(
        self,
        begin: bytes = b"",
        end: bytes | None = None,
        *,
        prefix: bytes | None = None,
        revision: int | Sequence[int] | None = None,
    ) -> int:
        """Return the number of entries that ``range`` has, those of a partition at one moment."""
        return self._bridge.call(self._core.count, begin, end, prefix=prefix, revision=revision)

    def compact(self, revision: int | Sequence[int]) -> None:
        """Forget the history before a revision: what watches and reads of the past begin at.

        Brokers keep the latest 100,000 changes of a partition, and fewer after this. Of several
        partitions there is a revision for each. Raises ``KvCompacted`` for one whose history is
        forgotten already, ``KvRejected`` for one that is not there yet, and as ``put``.
        """
        self._bridge.call(self._core.compact, revision)
