"""The progress of a staged group: records first, the group's ordinary offsets after them.

The record of a queue (``lanemq.wire.StageRecord``) is the authority. The ordinary offset is for
lag tools and for a later change of listener; it may lag the record by a commit, and never leads.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, final

import trio

from lanemq.wire import RETRY_PREFIX
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.message import StageRecord

from ..._errors import LanemqError
from ..._tasks import gather
from ...listeners._ordered_listeners import StageOffsetStore
from ...observe._log import get_logger
from ..group._offsets import AGAIN_S
from ._queue_progress import STRATEGIES_COUNT, QueueProgress

LOGGER = get_logger("lanemq.sdk.offsets")


class Commits(Protocol):
    """The ordinary offsets of a group; both methods raise ``LanemqError``."""

    async def committed_offset(self, queue: MessageQueue) -> int | None: ...

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None: ...


def conflict(record: StageRecord | None, group_offset: int | None) -> bool:
    """Return whether someone else moved the group's offset since ``record`` was written.

    A crash between the two commits leaves the offset behind the record; unless the record says
    that the offset was seen to be equal, being behind proves nothing.
    """
    if record is None or group_offset is None:
        return False
    if record.settled:
        return group_offset != record.queue_offset
    return group_offset > record.queue_offset


@final
class StageProgress:
    """The progress of one consumer; an ``Offsets`` that also counts stages.

    ``strategies`` are the names of those whose messages are counted apart. The group's retry
    topic has no stages, and its queues no records.
    """

    def __init__(
        self,
        store: StageOffsetStore,
        ordinary: Commits,
        *,
        group_offset_wins: bool,
        strategies: Iterable[str] = (),
    ) -> None:
        self._store = store
        self._ordinary = ordinary
        self._group_offset_wins = group_offset_wins
        self._strategies = tuple(strategies)
        self._progress: dict[MessageQueue, QueueProgress] = {}
        self._sources: dict[MessageQueue, Callable[[], QueueProgress]] = {}
        self._saved: dict[MessageQueue, dict[str, StageRecord]] = {}  # by strategy; "" is the whole
        self._again_s: dict[MessageQueue, float] = {}
        """Time at which all of a queue is saved again, though nothing changed."""
        # Two saves of one queue must not overtake each other on their way.
        self._saving: dict[MessageQueue, trio.Lock] = {}

    @staticmethod
    def _has_stages(queue: MessageQueue) -> bool:
        return not queue.topic.startswith(RETRY_PREFIX)

    async def load(self, queue: MessageQueue) -> int | None:
        """Load where to go on; ``progress`` says afterwards what stage that is."""
        self._sources.pop(queue, None)
        group_offset = await self._ordinary.committed_offset(queue)
        record = await self._store.load(queue) if self._has_stages(queue) else None
        saved = {} if record is None else {"": record}
        if conflict(record, group_offset):
            LOGGER.warning(
                "%s: the group's offset is %s, but its stage record is at offset %s, stage"
                " offset %s: somebody else moved the group. Going on from the %s",
                queue,
                group_offset,
                record and record.queue_offset,
                record and record.stage_offset,
                "group's offset, with stage offset 0" if self._group_offset_wins else "record",
            )
            if self._group_offset_wins:
                record = None
        if record is not None:
            progress = await self._of_strategies(queue, record, saved)
        elif group_offset is not None and group_offset >= 0:
            progress = self._begin(queue, group_offset)
        else:
            self._progress.pop(queue, None)
            self._saved[queue] = saved
            return None
        self._progress[queue], self._saved[queue] = progress, saved
        return progress.whole.queue_offset

    def _begin(self, queue: MessageQueue, offset: int) -> QueueProgress:
        names = self._strategies if self._has_stages(queue) else ()
        return QueueProgress(StageRecord(offset, 0), dict.fromkeys(names, StageRecord(offset, 0)))

    async def _of_strategies(
        self, queue: MessageQueue, whole: StageRecord, saved: dict[str, StageRecord]
    ) -> QueueProgress:
        """Return the progress of each strategy, and note in ``saved`` what it was made of.

        Where somebody began again with the queue, what is kept of its strategies does not count.
        """
        if not self._strategies or whole.stage_offset != STRATEGIES_COUNT:
            return QueueProgress(whole, self._begin(queue, whole.queue_offset).strategies)
        records = {}
        for name in self._strategies:
            kept = await self._store.load(queue, name)
            if kept is None:
                kept = StageRecord(whole.queue_offset, 0)
            else:
                saved[name] = kept
            # Below the offset of the whole everything is finished, also while it was not declared.
            records[name] = StageRecord(
                max(kept.queue_offset, whole.queue_offset), kept.stage_offset
            )
        return QueueProgress(whole, records)

    def follow(self, queue: MessageQueue, source: Callable[[], QueueProgress]) -> None:
        """Ask ``source`` where the queue is, from now on, until another method sets it."""
        self._sources[queue] = source

    def _now(self, queue: MessageQueue) -> QueueProgress | None:
        source = self._sources.get(queue)
        if source is not None:
            self._progress[queue] = source()
        return self._progress.get(queue)

    def progress(self, queue: MessageQueue) -> QueueProgress:
        """Return the progress in a queue; its beginning, if it was never read."""
        return self._now(queue) or self._begin(queue, 0)

    def get(self, queue: MessageQueue) -> int | None:
        progress = self._now(queue)
        return None if progress is None else progress.whole.queue_offset

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Set the consumer offset; the number of the next message stays."""
        self._set(queue, self.progress(queue).at(offset))

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """Set the consumer offset as an operator wishes; numbers begin again at 0."""
        self._set(queue, self._begin(queue, offset))

    def _set(self, queue: MessageQueue, progress: QueueProgress) -> None:
        self._sources.pop(queue, None)
        self._progress[queue] = progress

    def forget(self, queue: MessageQueue, *, cut_off: bool = False) -> None:
        self._sources.pop(queue, None)
        self._progress.pop(queue, None)
        self._saved.pop(queue, None)
        self._saving.pop(queue, None)
        self._again_s.pop(queue, None)

    def discard(self, queue: MessageQueue) -> None:
        """Do nothing: nothing is remembered of queues that are not held."""

    def finished_late(self, queue: MessageQueue, offset: int, after: int, *, is_held: bool) -> bool:
        """Return False: a message that is finished late does not count in its stage."""
        return False

    async def persist(
        self, queues: Iterable[MessageQueue] | None = None, *, wait: bool, again: bool = False
    ) -> list[LanemqError]:
        """Make changed records durable; returns failures and logs them.

        With ``wait`` the ordinary offsets are awaited too, and the records say so: the
        next consumer can tell a crash from a move by another tool. ``again`` includes what did not
        change, which a broker may have lost since.
        """
        known = dict.fromkeys((*self._progress, *self._sources))
        chosen = tuple(known) if queues is None else tuple(queues)
        failures = await gather([partial(self._persist, queue, wait, again) for queue in chosen])
        return [error for error in failures if error is not None]

    async def save(self, queue: MessageQueue) -> bool:
        """Make the records of one queue durable now; returns whether they are."""
        return await self._persist(queue, False) is None

    async def _persist(
        self, queue: MessageQueue, final: bool, again: bool = False
    ) -> LanemqError | None:
        async with self._saving.setdefault(queue, trio.Lock()):
            progress = self._now(queue)
            if progress is None:
                return None
            again = again or trio.current_time() >= self._again_s.get(queue, math.inf)
            try:
                await self._write(queue, progress, final=final, again=again)
            except LanemqError as error:
                LOGGER.warning("cannot commit %s of %s: %s", progress.whole, queue, error)
                return error
            return None

    async def _write(
        self, queue: MessageQueue, progress: QueueProgress, *, final: bool, again: bool
    ) -> None:
        saved = self._saved.setdefault(queue, {})
        # That of the whole comes after them: it never leads a strategy, and says that all count.
        for name, record in progress.strategies.items():
            if again or saved.get(name) != record:
                await self._save(queue, record, name)
        whole = progress.whole
        number = STRATEGIES_COUNT if progress.strategies else whole.stage_offset
        pair = StageRecord(whole.queue_offset, number)
        settled = StageRecord(whole.queue_offset, number, settled=True)
        known = saved.get("")
        changed = again or known not in (pair, settled)
        if not changed and (known == settled or not final):
            return
        if changed:
            known = settled if known == settled else pair
            await self._save(queue, known)
        await self._ordinary.commit_offset(queue, whole.queue_offset, wait=final)
        if final and known != settled:
            await self._save(queue, settled)

    async def _save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> None:
        if strategy:
            await self._store.save(queue, record, strategy)
        elif self._has_stages(queue):
            await self._store.save(queue, record)
        if queue in self._progress:  # it may have been taken away meanwhile
            self._saved.setdefault(queue, {})[strategy] = record
            self._again_s[queue] = trio.current_time() + AGAIN_S
