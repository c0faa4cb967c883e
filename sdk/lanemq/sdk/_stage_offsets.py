"""Where a staged group's progress is made to last: at the brokers, in a file, or nowhere.

A record is a pair, consumer offset and stage offset, always stored as one (see
``lanemq.wire.StageRecord``).
"""

from pathlib import Path
from typing import Protocol, final

from lanemq.wire import (
    MessageQueue,
    RequestCode,
    ResponseCode,
    StageRecord,
    SubscriptionGroupConfig,
    request,
    stage_group,
)

from ._client import Client
from ._errors import LanemqError, RefusedByBroker, WrongUse
from ._group_calls import GroupCalls
from ._log import get_logger
from ._offsets import LocalOffsets

LOGGER = get_logger("lanemq.sdk.offsets")


class StageOffsetStore(Protocol):
    """Keeps one record for each queue; both methods raise ``LanemqError`` when they cannot."""

    async def load(self, queue: MessageQueue) -> StageRecord | None:
        """What was saved last, or None if nothing was."""

    async def save(self, queue: MessageQueue, record: StageRecord) -> None:
        """Keep ``record``; it lasts on return."""


def _pack(queue: MessageQueue, record: StageRecord) -> int:
    try:
        return record.pack()
    except OverflowError as error:
        raise WrongUse(f"{queue}: {error}; it cannot be consumed in stages") from error


def _unpack(queue: MessageQueue, number: int | None) -> StageRecord | None:
    if number is None:
        return None
    record = StageRecord.unpack(number)
    if record is None and number > 0:  # 0 is how a broker says that a young queue has none
        LOGGER.warning("%s: %d is no stage record; it is passed over", queue, number)
    return record


@final
class MemoryStageOffsets:
    """Keeps records as long as the object lives; for tests."""

    def __init__(self) -> None:
        self.records: dict[MessageQueue, StageRecord] = {}

    async def load(self, queue: MessageQueue) -> StageRecord | None:
        return self.records.get(queue)

    async def save(self, queue: MessageQueue, record: StageRecord) -> None:
        self.records[queue] = record


@final
class LocalCommits:
    """Offsets in a local file, each commit written at once."""

    def __init__(self, offsets: LocalOffsets) -> None:
        self._offsets = offsets

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        return await self._offsets.load(queue)

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None:
        """Write it, whatever ``wait`` says. Raises ``LanemqError`` if that fails."""
        self._offsets.update(queue, offset)
        await self._offsets.persist([queue], wait=wait)
        if await self._offsets.load(queue) != offset:
            raise LanemqError(f"offset {offset} of {queue} could not be written to its file")


@final
class LocalStageOffsets:
    """Keeps records in a file of this machine, replaced as a whole; for broadcasting groups."""

    def __init__(self, path: Path) -> None:
        self._commits = LocalCommits(LocalOffsets(path))

    async def load(self, queue: MessageQueue) -> StageRecord | None:
        return _unpack(queue, await self._commits.committed_offset(queue))

    async def save(self, queue: MessageQueue, record: StageRecord) -> None:
        await self._commits.commit_offset(queue, _pack(queue, record), wait=True)


@final
class BrokerStageOffsets:
    """Keeps each record at its queue's broker, of any make, as an offset of ``%STAGE%group``."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._shadow = stage_group(group)
        self._calls = GroupCalls(client, self._shadow)

    async def load(self, queue: MessageQueue) -> StageRecord | None:
        return _unpack(queue, await self._calls.committed_offset(queue))

    async def save(self, queue: MessageQueue, record: StageRecord) -> None:
        number = _pack(queue, record)
        try:
            await self._calls.commit_offset(queue, number, wait=True)
        except RefusedByBroker as error:
            # 5.x takes offsets only of groups that it knows; 4.9 takes any.
            if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            await self._create_group(queue)
            await self._calls.commit_offset(queue, number, wait=True)

    async def _create_group(self, queue: MessageQueue) -> None:
        address, _ = self._calls.keeper(queue)
        LOGGER.info("creating group %s at %s for stage records", self._shadow, address)
        config = SubscriptionGroupConfig(
            group_name=self._shadow, consume_enable=False, consume_broadcast_enable=False
        )
        frame = request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.encode())
        await self._client.remoting.call(address, frame, self._client.options.call_timeout_s)
