"""The entries under a prefix, and their changes from then on, in the order of the log."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Self, final

import trio

from lanemq.storage.kv import KvState, read_changes, read_page, under_prefix
from lanemq.wire.kv import ChangeKind

from ._log import PartitionLog

LIMIT = 1000


class KeyEntry(NamedTuple):
    """An entry."""

    value: bytes
    version: int


class KeyChange(NamedTuple):
    """A change of a key. Without an entry it is gone."""

    name: bytes
    entry: KeyEntry | None


@final
class KeyWatch:
    """An endless iterator: first over the entries under a prefix, then over their changes.

    One that falls far behind gets each entry as it is now, and misses versions in between.
    """

    def __init__(self, logs: Sequence[PartitionLog], prefix: bytes) -> None:
        self._logs = logs
        self._prefix = prefix
        self._found: deque[KeyChange] = deque()
        self._places: list[tuple[object, int, int]] = [(None, 0, 0)] * len(logs)
        """For each partition: the state that was read, and the change to continue from."""
        self._seen: list[dict[bytes, int]] = [{} for _ in logs]
        """For each partition: the entries that were returned, with their versions."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> KeyChange:
        while not self._found:
            news = [log.follower.news for log in self._logs]
            for number in range(len(self._logs)):
                self._look(number)
            if not self._found:
                await _any_of(news)
        await trio.lowlevel.checkpoint()
        return self._found.popleft()

    def told(self) -> list[KeyChange]:
        """Return the next changes that are there already; none where all were returned."""
        for number in range(len(self._logs)):
            self._look(number)
        found = list(self._found)
        self._found.clear()
        return found

    def _look(self, number: int) -> None:
        log = self._logs[number].follower
        if not log.opened.is_set():
            return
        place, position, index = self._places[number]
        kept = log.kept
        changes = None
        if place is kept:
            changes = read_changes(
                kept.state,
                kept.recent,
                under_prefix(self._prefix),
                position=position,
                index=index,
                limit=LIMIT,
            )
        if changes is None:
            if place is not kept:  # the log was broken: its versions may be given to other values
                self._seen[number] = dict.fromkeys(self._seen[number], -1)
            self._compare(number, kept.state)
            self._places[number] = kept, kept.next, 0
            return
        seen = self._seen[number]
        for change in changes.changes:
            if change.kind == ChangeKind.PUT:
                seen[change.key] = change.version
                entry = KeyEntry(change.value or b"", change.version)
                self._found.append(KeyChange(change.key, entry))
            elif seen.pop(change.key, None) is not None:
                self._found.append(KeyChange(change.key, None))
        self._places[number] = kept, changes.next_position, changes.next_index

    def _compare(self, number: int, state: KvState) -> None:
        """Find the differences between what was returned and what there is."""
        seen, now = self._seen[number], dict[bytes, int]()
        cursor: bytes | None = None
        while True:
            page = read_page(state, self._prefix, cursor=cursor, limit=LIMIT)
            for one in page.entries:
                now[one.key] = one.version
                if seen.get(one.key) != one.version:
                    self._found.append(KeyChange(one.key, KeyEntry(one.value, one.version)))
            cursor = page.cursor
            if cursor is None:
                break
        self._found.extend(KeyChange(name, None) for name in seen if name not in now)
        self._seen[number] = now


async def _any_of(events: Sequence[trio.Event]) -> None:
    if len(events) == 1:
        await events[0].wait()
        return
    async with trio.open_nursery() as nursery:

        async def wait(event: trio.Event) -> None:
            await event.wait()
            nursery.cancel_scope.cancel()

        for event in events:
            nursery.start_soon(wait, event)
