"""Places of messages in a store's queues, looked up by their position in the log.

For single messages about which the log alone leaves doubt: reads a few units of a queue for each.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, final

import numpy as np

from lanemq.storage import StoreError
from lanemq.storage.tools import BLANK_SIZE, RowsView

from .._errors import SourceError
from ._files import StoreFiles
from ._local import CONSUME_QUEUE, local_store
from ._log import find_pieces

UNIT: Final = np.dtype([("position", ">i8"), ("size", ">i4"), ("tags", ">i8")])
NO_UNIT: Final = 1 << 62
"""Stands for the position of a unit that is not written yet: behind every log."""
PositionAt = Callable[[int], int]


@final
class QueueSlots:
    """The queues of a store, in files or else in RocksDB; opened when they are asked for.

    A store without queues, or with some that cannot be read, has no answer.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._files = StoreFiles(root)
        self._open = ExitStack()
        self._rows: RowsView | None = None
        self._looked = False

    def find(self, topic: str, queue: int, position: int, *, near: int) -> int | None:
        """Return the offset at which a queue has the message at a log position, if it has it.

        ``near`` is looked at first: the record's own offset is right if the queue agrees, whatever
        other units say.
        """
        try:
            return self._in_files(topic, queue, position, near)
        except (StoreError, SourceError, OSError):
            return None

    def close(self) -> None:
        self._open.close()

    def _in_files(self, topic: str, queue: int, position: int, near: int) -> int | None:
        directory = f"{CONSUME_QUEUE}/{topic}/{queue}"
        pieces = find_pieces(self._files, directory) if "/" not in topic else []
        if not pieces:
            return self._in_rows(topic, queue, position, near)
        for piece in pieces:
            first = piece.start // UNIT.itemsize
            if first <= near < piece.end // UNIT.itemsize:
                with self._units(f"{directory}/{piece.name}") as position_at:
                    if position_at(near - first) == position:
                        return near
        for piece in reversed(pieces):
            with self._units(f"{directory}/{piece.name}") as position_at:
                count = piece.size_bytes // UNIT.itemsize
                if count and position_at(0) <= position:
                    found = _search(position_at, 0, count, position)
                    return None if found is None else piece.start // UNIT.itemsize + found
        return None

    @contextmanager
    def _units(self, path: str) -> Iterator[PositionAt]:
        """Give the log position that each unit of a file has."""
        file = self._files.open(path)

        def position_at(number: int) -> int:
            unit = np.frombuffer(bytes(file.read(number * UNIT.itemsize, UNIT.itemsize)), UNIT)[0]
            return int(unit["position"]) if 0 < unit["size"] <= BLANK_SIZE else NO_UNIT

        try:
            yield position_at
        finally:
            file.close()

    def _in_rows(self, topic: str, queue: int, position: int, near: int) -> int | None:
        if not self._looked:
            self._looked = True
            if any(one.name == "CURRENT" for one in self._files.entries(CONSUME_QUEUE)):
                root = self._open.enter_context(local_store(self._root, CONSUME_QUEUE))
                self._rows = RowsView(root / CONSUME_QUEUE)
                self._open.callback(self._rows.close)
        rows = self._rows
        bounds = None if rows is None else rows.bounds(topic, queue)
        if rows is None or bounds is None:
            return None

        def position_at(offset: int) -> int:
            for _, value in rows.values(topic, queue, offset, 1):
                return int.from_bytes(value[:8], "big")
            return NO_UNIT

        if position_at(near) == position:
            return near
        return _search(position_at, *bounds, position)


def _search(position_at: PositionAt, low: int, end: int, position: int) -> int | None:
    """Find a position among ascending ones."""
    while low < end:
        middle = (low + end) // 2
        found = position_at(middle)
        if found == position:
            return middle
        if found < position:
            low = middle + 1
        else:
            end = middle
    return None
