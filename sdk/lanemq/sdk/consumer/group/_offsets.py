"""A group's offsets in its queues: in memory, and now and then made to last.

Source: RocketMQ 4.9.8, RemoteBrokerOffsetStore, LocalFileOffsetStore.
"""

import os
from collections.abc import Hashable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol, final

import trio

from lanemq.local import create_temporary, make_directories
from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import MessageQueue, MessageQueueOffsets

from ..._errors import LanemqError
from ..._tasks import gather
from ...observe._log import get_logger

LOGGER = get_logger("lanemq.sdk.offsets")
AGAIN_S: Final = 30.0
"""Seconds after which an offset is committed again though it did not change. A broker writes
offsets every 5 s: one that was killed in between has lost what it had taken."""
SURE_S: Final = 3.0
"""Seconds after which a broker has read what it was told without an answer."""
NOT_COMMITTED_S: Final = 60.0
"""Seconds for which an offset that could not be committed is remembered of a queue given up."""


class Offsets(Protocol):
    """The next offset that a group has to read in each queue. Offsets count messages."""

    async def load(self, queue: MessageQueue) -> int | None:
        """Return the offset that was made to last, or None if none was."""

    def get(self, queue: MessageQueue) -> int | None:
        """Return the offset in memory."""

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Set it in memory, forward or back."""

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """Set it because an operator wishes so, and not because messages are finished."""

    def forget(self, queue: MessageQueue, *, cut_off: bool = False) -> None:
        """Drop it from memory: the queue is another's now.

        ``cut_off`` says that what its broker was told last may never have arrived.
        """

    def discard(self, queue: MessageQueue) -> None:
        """Drop what is remembered of a queue that is not held, since the group was reset."""

    def finished_late(self, queue: MessageQueue, offset: int, after: int, *, is_held: bool) -> bool:
        """Note that messages from ``offset`` up to ``after`` were finished after ``queue`` was cut
        off, at ``offset``.

        Returns True where the queue is held again and went on from ``offset``, which is ``after``
        now: they would be read again.
        """

    async def persist(
        self, queues: Iterable[MessageQueue] | None = None, *, wait: bool, again: bool = False
    ) -> list[LanemqError]:
        """Make changed offsets durable, for ``queues`` or all; returns failures and logs them.

        With ``wait`` it has happened, or failed for good, on return. ``again`` includes what did
        not change: a broker may have lost it since, and these queues are read no more.
        """


class Committing(Protocol):
    """The place of a group's offsets; the first two raise ``LanemqError``."""

    async def committed_offset(self, queue: MessageQueue) -> int | None: ...

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None: ...

    def place(self, queue: MessageQueue) -> Hashable:
        """Return a value that changes when the offset is kept elsewhere from now on."""


class _Committed(NamedTuple):
    offset: int
    place: Hashable
    """The place it is kept at."""
    again_s: float
    """Time of its next commit."""
    sure_s: float
    """Time from which the place has it, if the connection still lives then."""


class _GivenUp(NamedTuple):
    """A queue that was given up before its offset was known to be kept."""

    offset: int
    kept: int
    """The last offset that its place had for sure: a smaller one is somebody's reset."""
    place: Hashable
    until_s: float
    """Time until which it counts."""


@final
class GroupOffsets:
    """Kept by each queue's broker, or a store; what the consumers of a clustering group use.

    A queue whose lock ends with the connection to its broker is given up before its last offset
    can be committed, or is known to be. Where the same consumer takes it again soon, it goes on
    from there; not so where the queue has moved since, for it may have gone on past messages
    that were read, or where somebody has set the group back.
    """

    def __init__(self, commits: Committing) -> None:
        self._commits = commits
        self._offsets: dict[MessageQueue, int] = {}
        self._persisted: dict[MessageQueue, _Committed] = {}
        self._kept: dict[MessageQueue, tuple[int, Hashable]] = {}
        """The greatest offset of a queue that its place has had for sure since the queue was
        taken (-1: none), and the place it was taken from."""
        self._given_up: dict[MessageQueue, _GivenUp] = {}
        self._resumed: dict[MessageQueue, int] = {}
        """Offsets from which queues went on, of those that were given up shortly before."""

    async def load(self, queue: MessageQueue) -> int | None:
        stored = await self._commits.committed_offset(queue)
        place, given_up = self._commits.place(queue), self._given_up.get(queue)
        kept = -1 if stored is None else stored
        self._kept[queue] = kept, place
        self._resumed.pop(queue, None)
        if (
            given_up is None
            or trio.current_time() >= given_up.until_s
            or place != given_up.place
            or not given_up.kept <= kept <= given_up.offset
        ):
            return stored
        self._resumed[queue] = given_up.offset
        return given_up.offset

    def get(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int) -> None:
        self._offsets[queue] = offset

    def reset(self, queue: MessageQueue, offset: int) -> None:
        self.discard(queue)
        self._offsets[queue] = offset

    def forget(self, queue: MessageQueue, *, cut_off: bool = False) -> None:
        offset, persisted = self._offsets.pop(queue, None), self._persisted.pop(queue, None)
        kept, place = self._kept.pop(queue, (-1, self._commits.place(queue)))
        was_resumed = self._resumed.pop(queue, None) is not None
        if offset is None and was_resumed and cut_off:
            return  # nothing was read since it was cut off before
        self._given_up.pop(queue, None)
        if offset is None:
            return
        now_s = trio.current_time()
        if persisted is not None and persisted.sure_s <= now_s:
            kept = persisted.offset
        is_told = persisted is not None and persisted.offset == offset
        if (cut_off or not is_told) and place == self._commits.place(queue):
            until_s = now_s + NOT_COMMITTED_S
            self._given_up[queue] = _GivenUp(offset, kept, place, until_s)

    def discard(self, queue: MessageQueue) -> None:
        self._given_up.pop(queue, None)
        self._resumed.pop(queue, None)

    def finished_late(self, queue: MessageQueue, offset: int, after: int, *, is_held: bool) -> bool:
        given_up = self._given_up.get(queue)
        if given_up is not None and given_up.offset == offset:
            self._given_up[queue] = given_up._replace(offset=after)
        has_resumed = is_held and self._resumed.get(queue) == offset
        if not has_resumed or self._offsets.get(queue, offset) != offset:
            return False
        self._resumed[queue] = self._offsets[queue] = after
        return True

    async def persist(
        self, queues: Iterable[MessageQueue] | None = None, *, wait: bool, again: bool = False
    ) -> list[LanemqError]:
        chosen = tuple(self._offsets) if queues is None else tuple(queues)
        changed = [
            (queue, offset)
            for queue in chosen
            if (offset := self._offsets.get(queue)) is not None
            and (again or not self._is_committed(queue, offset, surely=wait))
        ]
        # At once, and each within the time of a call: a broker that takes nothing holds up its own.
        commits = [partial(self._commit, queue, offset, wait) for queue, offset in changed]
        return [error for error in await gather(commits) if error is not None]

    def _is_committed(self, queue: MessageQueue, offset: int, *, surely: bool) -> bool:
        known, now_s = self._persisted.get(queue), trio.current_time()
        return (
            known is not None
            and known[:2] == (offset, self._commits.place(queue))
            and now_s < known.again_s
            and (known.sure_s <= now_s or not surely)
        )

    async def _commit(self, queue: MessageQueue, offset: int, wait: bool) -> LanemqError | None:
        now_s = trio.current_time()
        sure_s = now_s if wait else now_s + SURE_S
        place, before = self._commits.place(queue), self._persisted.get(queue)
        try:
            await self._commits.commit_offset(queue, offset, wait=wait)
        except LanemqError as error:
            LOGGER.warning("cannot commit offset %d of %s: %s", offset, queue, error)
            return error
        if queue in self._offsets:
            if before is not None and before.sure_s <= now_s:
                kept, taken_from = self._kept.get(queue, (-1, place))
                self._kept[queue] = max(kept, before.offset), taken_from
            self._persisted[queue] = _Committed(offset, place, now_s + AGAIN_S, sure_s)
        return None


@final
class LocalOffsets:
    """Kept in a file of this machine; what a broadcasting consumer uses.

    The file has the form of the Java client's, and like it a ``.bak`` of the version before.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets: dict[MessageQueue, int] = {}
        self._persisted = self._read()

    @property
    def _backup(self) -> Path:
        return self._path.with_name(self._path.name + ".bak")

    def _read(self) -> dict[MessageQueue, int]:
        for path in (self._path, self._backup):
            try:
                return dict(MessageQueueOffsets.decode(path.read_bytes()).offset_table)
            except FileNotFoundError:
                continue
            except (OSError, RemoteProtocolError) as error:
                LOGGER.warning("cannot read the offsets in %s: %s", path, error)
        return {}

    async def load(self, queue: MessageQueue) -> int | None:
        return self._persisted.get(queue)

    def get(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int) -> None:
        self._offsets[queue] = offset

    reset = update

    def forget(self, queue: MessageQueue, *, cut_off: bool = False) -> None:
        self._offsets.pop(queue, None)

    def discard(self, queue: MessageQueue) -> None:
        pass  # nothing is remembered

    def finished_late(self, queue: MessageQueue, offset: int, after: int, *, is_held: bool) -> bool:
        return False  # nobody locks

    async def persist(
        self, queues: Iterable[MessageQueue] | None = None, *, wait: bool, again: bool = False
    ) -> list[LanemqError]:
        # One small file at a time: not worth a thread. Queues of other runs stay in it.
        chosen = (
            self._offsets
            if queues is None
            else {
                queue: offset
                for queue in queues
                if (offset := self._offsets.get(queue)) is not None
            }
        )
        merged = self._persisted | chosen
        if merged == self._persisted:
            return []
        try:
            self._write(merged)
        except OSError as error:
            LOGGER.warning("cannot write the offsets to %s: %s", self._path, error)
            return [LanemqError(f"cannot write the offsets to {self._path}: {error}")]
        self._persisted = merged
        return []

    def _write(self, offsets: dict[MessageQueue, int]) -> None:
        make_directories(self._path.parent)
        fresh = self._path.with_name(self._path.name + ".tmp")
        with create_temporary(fresh) as file:
            file.write(MessageQueueOffsets(offsets).encode())
        if self._path.exists():
            os.replace(self._path, self._backup)
        os.replace(fresh, self._path)
