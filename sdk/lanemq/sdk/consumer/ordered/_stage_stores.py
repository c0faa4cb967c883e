"""Stores of a staged group's progress: at the brokers, in a file, or in memory.

A record is a pair, consumer offset and stage offset, always stored as one (see
``lanemq.wire.StageRecord``).
"""

from pathlib import Path
from typing import final

from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import MessageQueue, SubscriptionGroupConfig
from lanemq.wire.frame import request
from lanemq.wire.message import StageRecord, stage_group

from ..._errors import RefusedByBroker, WrongUse
from ...net._client import Client
from ...observe._log import get_logger
from ..group._group_calls import GroupCalls
from ..group._offsets import LocalOffsets

LOGGER = get_logger("lanemq.sdk.offsets")


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
        LOGGER.warning("%s: %d is not a stage record; it is passed over", queue, number)
    return record


@final
class MemoryStageOffsets:
    """Keeps records as long as the object lives; for tests."""

    def __init__(self) -> None:
        self.records: dict[MessageQueue, StageRecord] = {}
        self.records_of_strategies: dict[tuple[MessageQueue, str], StageRecord] = {}

    async def load(self, queue: MessageQueue, strategy: str = "") -> StageRecord | None:
        if strategy:
            return self.records_of_strategies.get((queue, strategy))
        return self.records.get(queue)

    async def save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> None:
        if strategy:
            self.records_of_strategies[queue, strategy] = record
        else:
            self.records[queue] = record


@final
class LocalCommits:
    """Offsets in a local file, each commit written at once."""

    def __init__(self, offsets: LocalOffsets) -> None:
        self._offsets = offsets

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        return await self._offsets.load(queue)

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None:
        """Write the offset and wait for it, also without ``wait``. Raises ``LanemqError``."""
        self._offsets.update(queue, offset)
        if failures := await self._offsets.persist([queue], wait=wait):
            raise failures[0]


@final
class LocalStageOffsets:
    """Keeps records in a file of this machine, replaced as a whole; for broadcasting groups.

    Strategies have files of their own beside it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, LocalCommits] = {}

    def _commits(self, strategy: str) -> LocalCommits:
        known = self._files.get(strategy)
        if known is None:
            name = f"{self._path.stem}.{strategy}{self._path.suffix}"
            path = self._path.with_name(name) if strategy else self._path
            known = self._files[strategy] = LocalCommits(LocalOffsets(path))
        return known

    async def load(self, queue: MessageQueue, strategy: str = "") -> StageRecord | None:
        return _unpack(queue, await self._commits(strategy).committed_offset(queue))

    async def save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> None:
        await self._commits(strategy).commit_offset(queue, _pack(queue, record), wait=True)


@final
class BrokerStageOffsets:
    """Keeps each record at its queue's broker, of any make, as an offset of ``%STAGE%group``.

    The records of a strategy are offsets of ``%STAGE%|strategy|group``.
    """

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._shadows: dict[str, tuple[str, GroupCalls]] = {}

    def _shadow(self, strategy: str) -> tuple[str, GroupCalls]:
        known = self._shadows.get(strategy)
        if known is None:
            name = stage_group(self._group, strategy)
            known = self._shadows[strategy] = name, GroupCalls(self._client, name)
        return known

    async def load(self, queue: MessageQueue, strategy: str = "") -> StageRecord | None:
        _, calls = self._shadow(strategy)
        return _unpack(queue, await calls.committed_offset(queue))

    async def save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> None:
        name, calls = self._shadow(strategy)
        number = _pack(queue, record)
        try:
            await calls.commit_offset(queue, number, wait=True)
        except RefusedByBroker as error:
            # 5.x takes offsets only of groups that it knows; 4.9 takes any.
            if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            await self._create_group(name, calls.of(queue).keeper(queue))
            await calls.commit_offset(queue, number, wait=True)

    async def _create_group(self, name: str, address: str) -> None:
        LOGGER.info("creating group %s at %s for stage records", name, address)
        config = SubscriptionGroupConfig(
            group_name=name, consume_enable=False, consume_broadcast_enable=False
        )
        frame = request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.encode())
        await self._client.remoting.call(address, frame, self._client.options.call_timeout_s)
