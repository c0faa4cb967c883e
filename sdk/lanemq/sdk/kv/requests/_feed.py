"""The changes of one partition, asked for with one request at a time."""

from collections import deque
from typing import Final, final

import msgspec

from lanemq.wire import RequestCode
from lanemq.wire.headers import KvWatch
from lanemq.wire.kv import Change, Changes, decode_answer, encode_key

from ._calls import KvCalls

WAIT_S: Final = 20.0


@final
class Feed:
    """The changes of one partition under a prefix, from a position on."""

    def __init__(
        self, calls: KvCalls, prefix: bytes, partition: int, partitions: int, position: int
    ) -> None:
        self._calls = calls
        self._prefix = prefix
        self._partition = partition
        self._partitions = partitions
        self._next = position
        self._index = 0
        self._changes = deque[Change]()  # those that nobody has taken yet
        self.position = position
        """The position to go on from; any thread may read it."""
        self.is_asking = False
        """True while a request is under way."""
        self.was_answered = False

    @property
    def is_empty(self) -> bool:
        """True while it has no change to be taken."""
        return not self._changes

    def take(self) -> Change:
        """Return the next change, of a feed that has one."""
        change = self._changes.popleft()
        self._note_position()
        return change

    def give_back(self, change: Change) -> None:
        """Put a change that its reader did not get back to the front."""
        self._changes.appendleft(change)
        self._note_position()

    def _note_position(self) -> None:
        self.position = self._changes[0].position if self._changes else self._next

    async def fill(self) -> None:
        """Ask once for more; the broker waits for some."""
        calls = self._calls
        header = KvWatch(
            position=self._next,
            index=self._index,
            prefix=encode_key(self._prefix),
            namespace=calls.namespace,
            wait_millis=int(WAIT_S * 1000),
        )
        body = await calls.ask_at(
            self._partition,
            self._partitions,
            RequestCode.KV_WATCH,
            header,
            attempts=calls.attempts(WAIT_S),
            wait_s=WAIT_S,
        )
        found = decode_answer(body, Changes)
        self.was_answered = True
        self._next, self._index = found.next_position, found.next_index
        if self._partition:
            self._changes.extend(
                msgspec.structs.replace(change, partition=self._partition)
                for change in found.changes
            )
        else:
            self._changes.extend(found.changes)
        self._note_position()
