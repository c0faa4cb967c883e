"""The progress of a staged group: records first, the group's ordinary offsets after them.

The record of a queue (``lanemq.wire.StageRecord``) is the authority. The ordinary offset is for
lag tools and for a later change of listener; it may lag the record by a commit, and never leads.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, final

import trio

from lanemq.wire import RETRY_PREFIX, MessageQueue, StageRecord

from ._errors import LanemqError
from ._log import get_logger
from ._stage_offsets import StageOffsetStore

LOGGER = get_logger("lanemq.sdk.offsets")


class Commits(Protocol):
    """The ordinary offsets of a group; both methods raise ``LanemqError``."""

    async def committed_offset(self, queue: MessageQueue) -> int | None: ...

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None: ...


def conflict(record: StageRecord | None, group_offset: int | None) -> bool:
    """Whether someone else moved the group's offset since ``record`` was written.

    A crash between the two commits leaves the offset behind the record; unless the record says
    that the offset was seen to be equal, being behind proves nothing.
    """
    if record is None or group_offset is None:
        return False
    if record.settled:
        return group_offset != record.queue_offset
    return group_offset > record.queue_offset


@final
class StagedOffsets:
    """The progress of one consumer; an ``Offsets`` that also counts stages.

    The group's retry topic has no stages, and its queues no records.
    """

    def __init__(
        self, store: StageOffsetStore, ordinary: Commits, *, group_offset_wins: bool
    ) -> None:
        self._store = store
        self._ordinary = ordinary
        self._group_offset_wins = group_offset_wins
        self._records: dict[MessageQueue, StageRecord] = {}
        self._sources: dict[MessageQueue, Callable[[], StageRecord]] = {}
        self._saved: dict[MessageQueue, StageRecord] = {}
        # Two saves of one queue must not overtake each other on their way.
        self._saving: dict[MessageQueue, trio.Lock] = {}

    @staticmethod
    def _has_stages(queue: MessageQueue) -> bool:
        return not queue.topic.startswith(RETRY_PREFIX)

    async def load(self, queue: MessageQueue) -> int | None:
        """Where to go on; what stage that is can be asked by ``stage_offset`` afterwards."""
        self._sources.pop(queue, None)
        group_offset = await self._ordinary.committed_offset(queue)
        record = await self._store.load(queue) if self._has_stages(queue) else None
        if record is not None:
            self._saved[queue] = record
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
        if record is None:
            if group_offset is None or group_offset < 0:
                self._records.pop(queue, None)
                return None
            record = StageRecord(group_offset, 0)
        self._records[queue] = record
        return record.queue_offset

    def follow(self, queue: MessageQueue, source: Callable[[], StageRecord]) -> None:
        """Ask ``source`` where the queue is, from now on, until another method sets it."""
        self._sources[queue] = source

    def _now(self, queue: MessageQueue) -> StageRecord | None:
        source = self._sources.get(queue)
        if source is not None:
            self._records[queue] = source()
        return self._records.get(queue)

    def stage_offset(self, queue: MessageQueue) -> int:
        """The number of the message where ``get`` is; 0 for a queue never read."""
        record = self._now(queue)
        return 0 if record is None else record.stage_offset

    def get(self, queue: MessageQueue) -> int | None:
        record = self._now(queue)
        return None if record is None else record.queue_offset

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Set the consumer offset; the number of the next message stays."""
        self._set(queue, StageRecord(offset, self.stage_offset(queue)))

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """Set the consumer offset as an operator wishes; numbers begin again at 0."""
        self._set(queue, StageRecord(offset, 0))

    def _set(self, queue: MessageQueue, record: StageRecord) -> None:
        self._sources.pop(queue, None)
        self._records[queue] = record

    def forget(self, queue: MessageQueue) -> None:
        self._sources.pop(queue, None)
        self._records.pop(queue, None)
        self._saved.pop(queue, None)
        self._saving.pop(queue, None)

    async def persist(self, queues: Iterable[MessageQueue] | None = None, *, wait: bool) -> None:
        """Make what changed last; failures are logged.

        With ``wait`` the ordinary offsets are awaited too, and the records say so: whoever
        comes next can tell a crash from a move by somebody else.
        """
        known = dict.fromkeys((*self._records, *self._sources))
        chosen = tuple(known) if queues is None else tuple(queues)
        if wait:
            async with trio.open_nursery() as nursery:
                for queue in chosen:
                    nursery.start_soon(self._persist, queue, True)
        else:
            for queue in chosen:
                await self._persist(queue, False)

    async def save(self, queue: MessageQueue) -> bool:
        """Make the record of one queue last now; whether it does."""
        return await self._persist(queue, False)

    async def _persist(self, queue: MessageQueue, settle: bool) -> bool:
        async with self._saving.setdefault(queue, trio.Lock()):
            record = self._now(queue)
            if record is None:
                return True
            try:
                await self._write(queue, record, settle=settle)
            except LanemqError as error:
                LOGGER.warning("cannot commit %s of %s: %s", record, queue, error)
                return False
            return True

    async def _write(self, queue: MessageQueue, record: StageRecord, *, settle: bool) -> None:
        saved = self._saved.get(queue)
        pair = StageRecord(record.queue_offset, record.stage_offset)
        settled = StageRecord(record.queue_offset, record.stage_offset, settled=True)
        changed = saved not in (pair, settled)
        if not changed and (saved == settled or not settle):
            return
        if changed:
            await self._save(queue, pair)
        await self._ordinary.commit_offset(queue, record.queue_offset, wait=settle)
        if settle:
            await self._save(queue, settled)

    async def _save(self, queue: MessageQueue, record: StageRecord) -> None:
        if self._has_stages(queue):
            await self._store.save(queue, record)
        if queue in self._records:  # it may have been taken away meanwhile
            self._saved[queue] = record
