"""The changes of one partition, asked for with one request at a time."""

from collections import deque
from typing import Final, NamedTuple, final

import msgspec

from lanemq.wire import RequestCode
from lanemq.wire.headers import KvFollow, KvWatch
from lanemq.wire.kv import Change, ChangeKind, after_key, encode_key

from ._calls import KvCalls
from ._waits import changes_after

WAIT_S: Final = 20.0


@final
class Wanted(NamedTuple):
    """The keys whose changes are wanted, and what else."""

    prefix: bytes
    key: bytes | None = None
    previous: bool = False
    wait_s: float = WAIT_S
    """Seconds that a request waits at the broker."""
    progress: bool = False
    """True if the end of a wait without changes is a change of kind ``PROGRESS``."""

    @property
    def is_simple(self) -> bool:
        """True if a broker of an earlier version serves it."""
        return self.key is None and not self.previous

    def header(
        self, namespace: str, position: int, index: int, identity: str | None
    ) -> KvWatch | KvFollow:
        """Return the request for the changes from a position on, which does not wait yet."""
        if self.is_simple:
            return KvWatch(
                position=position,
                index=index,
                prefix=encode_key(self.prefix),
                namespace=namespace,
                identity=identity,
            )
        begin = self.prefix if self.key is None else self.key
        end = after_key(self.prefix) if self.key is None else self.key + b"\0"
        return KvFollow(
            position=position,
            index=index,
            begin=encode_key(begin),
            end=None if end is None else encode_key(end),
            previous=self.previous,
            namespace=namespace,
            identity=identity,
        )


@final
class Feed:
    """The wanted changes of one partition, from a position on."""

    def __init__(
        self,
        calls: KvCalls,
        wanted: Wanted,
        partition: int,
        partitions: int,
        position: int,
        identity: str | None = None,
    ) -> None:
        """``identity`` is that of the namespace which has the position, as far as known."""
        self._calls = calls
        self._wanted = wanted
        self._partition = partition
        self._partitions = partitions
        self._next = position
        self._index = 0
        self._identity = identity
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
        calls, wanted = self._calls, self._wanted

        async def ask(header: KvWatch | KvFollow, *, wait_s: float) -> bytes:
            is_watch = isinstance(header, KvWatch)
            return await calls.ask_at(
                self._partition,
                self._partitions,
                RequestCode.KV_WATCH if is_watch else RequestCode.KV_FOLLOW,
                header,
                attempts=calls.attempts(wait_s),
                wait_s=wait_s,
            )

        header = wanted.header(calls.namespace, self._next, self._index, self._identity)
        found = await changes_after(header, wanted.wait_s, ask)
        if wanted.progress and not found.changes:
            note = Change(found.next_position, 0, ChangeKind.PROGRESS, b"", 0)
            found = msgspec.structs.replace(found, changes=[note])
        self.was_answered = True
        self._identity = found.identity or self._identity
        self._next, self._index = found.next_position, found.next_index
        if self._partition:
            self._changes.extend(
                msgspec.structs.replace(change, partition=self._partition)
                for change in found.changes
            )
        else:
            self._changes.extend(found.changes)
        self._note_position()
