"""Where a group is in each queue: in memory, and now and then made to last.

Source: RocketMQ 4.9.8, RemoteBrokerOffsetStore, LocalFileOffsetStore.
"""

import os
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Protocol, final

import trio

from lanemq.wire import MessageQueue, MessageQueueOffsets, RemoteProtocolError

from ._errors import LanemqError
from ._group_calls import GroupCalls
from ._log import get_logger

LOGGER = get_logger("lanemq.sdk.offsets")


class Offsets(Protocol):
    """Offsets count messages; one is the next that the group has to read."""

    async def load(self, queue: MessageQueue) -> int | None:
        """What was made to last, or None if nothing was."""

    def get(self, queue: MessageQueue) -> int | None:
        """What is in memory."""

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Set it in memory, forward or back."""

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """As ``update``, because an operator wishes so and not because messages settled."""

    def forget(self, queue: MessageQueue) -> None:
        """Drop it from memory: the queue is another's now."""

    async def persist(self, queues: Iterable[MessageQueue] | None = None, *, wait: bool) -> None:
        """Make what changed last, for ``queues`` or all; failures are logged.

        With ``wait`` it has happened, or failed for good, on return.
        """


@final
class BrokerOffsets:
    """Kept by each queue's broker; what the consumers of a clustering group use."""

    def __init__(self, calls: GroupCalls) -> None:
        self._calls = calls
        self._offsets: dict[MessageQueue, int] = {}
        self._persisted: dict[MessageQueue, tuple[int, Hashable]] = {}  # and where it is kept

    async def load(self, queue: MessageQueue) -> int | None:
        return await self._calls.committed_offset(queue)

    def get(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int) -> None:
        self._offsets[queue] = offset

    reset = update

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)
        self._persisted.pop(queue, None)

    async def persist(self, queues: Iterable[MessageQueue] | None = None, *, wait: bool) -> None:
        chosen = tuple(self._offsets) if queues is None else tuple(queues)
        changed = [
            (queue, offset)
            for queue in chosen
            if (offset := self._offsets.get(queue)) is not None
            and self._persisted.get(queue) != (offset, self._place(queue))
        ]
        if wait:
            async with trio.open_nursery() as nursery:
                for queue, offset in changed:
                    nursery.start_soon(self._commit, queue, offset, True)
        else:
            for queue, offset in changed:
                await self._commit(queue, offset, False)

    async def _commit(self, queue: MessageQueue, offset: int, wait: bool) -> None:
        place = self._place(queue)
        try:
            await self._calls.commit_offset(queue, offset, wait=wait)
        except LanemqError as error:
            LOGGER.warning("cannot commit offset %d of %s: %s", offset, queue, error)
        else:
            if queue in self._offsets:
                self._persisted[queue] = offset, place

    def _place(self, queue: MessageQueue) -> Hashable:
        """Where its offset is kept: progress in a logical queue moves along with that."""
        if not self._calls.is_logical(queue):
            return None
        try:
            return self._calls.keeper(queue)[1]
        except LanemqError:
            return None  # the commit will say what is wrong


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

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)

    async def persist(self, queues: Iterable[MessageQueue] | None = None, *, wait: bool) -> None:
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
            return
        try:
            self._write(merged)
        except OSError as error:
            LOGGER.warning("cannot write the offsets to %s: %s", self._path, error)
        else:
            self._persisted = merged

    def _write(self, offsets: dict[MessageQueue, int]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(self._path.name + ".tmp")
        fresh.write_bytes(MessageQueueOffsets(offsets).encode())
        if self._path.exists():
            os.replace(self._path, self._backup)
        os.replace(fresh, self._path)
