"""The task of a proxy that writes snapshots of a partition, before its log loses its beginning.

A proxy writes one after so many records, or bytes of them, or hours; and at once where the first
record after the latest snapshot is gone, or that does not say the birth of the log. The others see
in the log that it was written. Two that write at the same time do no harm.
"""

import random
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.storage.kv import Outcome
from lanemq.wire.kv import OpType

from ._follower import PAUSES_S
from ._log import PartitionLog
from ._partition import snapshot_property
from ._queue import LogQueue, NotYet, TooLong
from ._snapshots import PART_BYTES, PART_BYTES_MIN, PROPERTIES, snapshot_parts

LOGGER: Final = get_logger("lanemq.proxy.gateway.kv", by_peers=True)
RECORDS: Final = 20_000
"""Records of the log after which a snapshot is written."""
BYTES: Final = 32 << 20
"""Bytes of records after which a snapshot is written."""
AGE_MS: Final = 6 * 3_600_000
"""Age of the latest snapshot after which the next one is written: brokers keep messages for 72
hours by default, snapshots too."""
LOOK_S: Final = 1.0
PAUSE_S: Final = 60.0
"""Seconds before the next try after one that the broker takes no record of."""
APART_S: Final = 5.0
"""Seconds at most for which a proxy leaves a snapshot to the others."""


@final
class SnapshotWriter:
    """Writes the snapshots of one partition; ``run`` is its task."""

    def __init__(self, log: PartitionLog, queue: LogQueue, rng: random.Random) -> None:
        self._log = log
        self._queue = queue
        self._rng = rng
        self._part_bytes = PART_BYTES

    async def run(self) -> None:
        """Write snapshots when they are due, until cancelled."""
        while True:
            await trio.sleep(LOOK_S * self._rng.uniform(0.5, 1.5))
            if not self._is_due():
                continue
            await trio.sleep(self._rng.uniform(0, APART_S))
            if self._is_due():
                await self.write()

    def _is_due(self) -> bool:
        follower = self._log.follower
        kept = follower.kept
        if not (follower.opened.is_set() and kept.time.is_known and kept.last is not None):
            return False
        if follower.begin > (kept.snapshot or 0) or not kept.is_birth_told:
            return True
        age_ms = kept.time.now_ms(trio.current_time()) - kept.snapshot_ms
        count = kept.next - (kept.snapshot or 0)
        return count >= RECORDS or kept.bytes_since >= BYTES or age_ms >= AGE_MS

    async def write(self) -> Outcome | None:
        """Write a snapshot, and say in the log that it is there.

        Returns None for an empty log, and where the broker takes not even short records.
        """
        while True:
            try:
                return await self._write()
            except TooLong as error:
                if self._part_bytes <= PART_BYTES_MIN:
                    LOGGER.error("no snapshot of keys %s can be written: %s", self._log.name, error)
                    await trio.sleep(PAUSE_S)
                    return None
                self._part_bytes //= 2

    async def _write(self) -> Outcome | None:
        kept = self._log.follower.kept
        if kept.last is None:
            return None
        position = kept.next
        parts = snapshot_parts(
            kept.state.freeze(),
            f"{self._rng.getrandbits(64):016x}",
            last=kept.last,
            told_ms=kept.time.told_ms,
            told_stored_ms=kept.time.told_stored_ms,
            birth=kept.birth,
            part_bytes=self._part_bytes,
        )
        for body in parts:
            await self._append(body)
            await trio.lowlevel.checkpoint()
        LOGGER.info("a snapshot of %d records of keys %s is written", position, self._log.name)
        return await self._log.write(OpType.TICK, b"", named=snapshot_property(position))

    async def _append(self, body: bytes) -> None:
        failures = 0
        while True:
            try:
                await self._queue.append(body, PROPERTIES)
            except NotYet:
                await trio.sleep(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
                failures += 1
            else:
                return
