"""The interface of engines, and the changes of one batch over one."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Protocol, final


class SnapshotGone(Exception):  # noqa: N818 - says what happened
    """A snapshot can no longer be read: another one has to be taken."""


class Unfinished(Exception):  # noqa: N818 - says what happened
    """A read passed over its limit of rows; it can be continued at ``key``, in another turn."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self.key = key


class RowsView(Protocol):
    """Rows, sorted by their keys. What the disk refuses is ``OSError``."""

    def get(self, key: bytes) -> bytes | None: ...

    def items(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the rows from ``begin`` up to, but without, ``end``.

        They are of one moment as long as nothing is written.
        """

    def some(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate as ``items`` does, but stop after many rows that are gone.

        Raises ``Unfinished``.
        """


class Snapshot(RowsView, Protocol):
    """The rows of one namespace at one moment."""

    @property
    def pinned_bytes(self) -> int:
        """Bytes of memory that are taken for this snapshot alone, at most."""


class Table(RowsView, Protocol):
    """The rows of one namespace."""

    def some_back(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate as ``some`` does, from the last row before ``end`` back to ``begin``.

        Raises ``Unfinished``, whose key is the ``end`` to continue with.
        """

    def snapshot(self) -> Snapshot:
        """Return the entries as they are now, whatever is written later. Release it soon.

        Its ``items`` may raise ``SnapshotGone``.
        """

    def write(self, drops: list[tuple[bytes, bytes]], rows: dict[bytes, bytes | None]) -> None:
        """Remove ranges of rows, then put rows (None removes one): all of it or nothing."""


OnFault = Callable[[str | None, OSError], None]
"""Called with the namespace whose rows cannot be read, or None where nothing can be written."""


def ignore_fault(name: str | None, error: OSError) -> None:
    """Ignore a fault, which is raised as well."""


class Engine(Protocol):
    """The keeper of the states of all namespaces."""

    on_fault: OnFault
    """Called for what is damaged, before the error is raised; not for a full disk."""

    def tables(self) -> Mapping[str, Table]:
        """Return the tables that are there, by namespace."""

    def replace(self, name: str) -> None:
        """Remove a namespace with its files, which need not be readable; in any thread, but one at
        a time. Raises ``OSError``."""

    def table(self, name: str) -> Table:
        """Return the rows of a namespace, which is made if it is missing; in any thread, but one
        at a time. Raises ``OSError``."""

    @property
    def dirty_bytes(self) -> int:
        """Bytes written since the last ``freeze``, roughly."""

    def freeze(self) -> Callable[[], Awaitable[None]]:
        """Set apart everything written until now; what is returned makes that durable, and no
        more, once it is awaited. Both raise ``OSError``."""

    def close(self) -> None: ...


@final
class Batch:
    """Rows as they will be once the changes of a batch are written."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rows: dict[bytes, bytes | None] = {}
        self.drops: list[tuple[bytes, bytes]] = []

    def get(self, key: bytes) -> bytes | None:
        if key in self.rows:
            return self.rows[key]
        if self.drops and self._is_dropped(key):
            return None
        return self.table.get(key)

    def table_has_none(self, begin: bytes, end: bytes) -> bool:
        """Return whether there is no row from ``begin`` up to ``end`` but for those of the batch.

        It may say False where it cannot soon tell.
        """
        try:
            return next(iter(self.table.some(begin, end)), None) is None
        except Unfinished:
            return False

    def drop(self, begin: bytes, end: bytes) -> None:
        """Remove all rows from ``begin`` up to, but without, ``end``."""
        for key in [key for key in self.rows if begin <= key < end]:
            del self.rows[key]
        self.drops.append((begin, end))

    def first(self, begin: bytes, end: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Return the first ``count`` rows from ``begin`` up to, but without, ``end``."""
        rows, drops = self.rows, self.drops
        found = [(key, row) for key, row in rows.items() if row is not None and begin <= key < end]
        old = 0
        for one in self.table.items(begin, end):
            if one[0] in rows or (drops and self._is_dropped(one[0])):
                continue
            found.append(one)
            old += 1
            if old >= count:
                break
        found.sort()
        return found[:count]

    def _is_dropped(self, key: bytes) -> bool:
        return any(begin <= key < end for begin, end in self.drops)

    def write(self) -> None:
        """Write the changes, and begin again. Raises ``OSError``; the changes stay then."""
        self.table.write(self.drops, self.rows)
        self.clear()

    def clear(self) -> None:
        """Forget the changes."""
        self.rows, self.drops = {}, []
