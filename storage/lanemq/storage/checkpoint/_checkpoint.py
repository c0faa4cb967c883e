"""The checkpoint: store times up to which log, queues and index are durable.

Source: RocketMQ 4.9.8, StoreCheckpoint.
"""

from pathlib import Path
from typing import Final, final

from .._layouts import CHECKPOINT_BYTES, CHECKPOINT_FIELDS
from ..disk._files import File, Files

SAFETY_MS: Final = 3000
"""Time before the checkpoint from which a start after a crash goes over the log again."""
INDEX_TIME_AT: Final = 16


def durable_ms(checkpoint_ms: int) -> int:
    """Return the time before which stored records are durable, by a time of the checkpoint."""
    return max(0, checkpoint_ms - SAFETY_MS)


@final
class Checkpoint:
    """A checkpoint: store times in milliseconds, up to which everything is durable."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._file: File | None = None
        self._rest = b""  # of 5.x; an older broker leaves it alone, and so do we
        self.log_ms = 0
        self.queue_ms = 0  # stays as it is while there are only queues in RocksDB, as in 5.3.3
        self.index_ms = 0

    def load(self) -> None:
        """Read the file; one that is missing or cut short counts as zeros."""
        data = self._files.read_all(self._path) or b""
        data = data[:CHECKPOINT_BYTES].ljust(CHECKPOINT_BYTES, b"\0")
        self.log_ms, self.queue_ms, self.index_ms, *_ = CHECKPOINT_FIELDS.unpack_from(data)
        self._rest = data[INDEX_TIME_AT + 8 :]

    @property
    def latest_ms(self) -> int:
        """The later of the times of log and queues, which tells who wrote it last.

        Apache's broker notes the log's while it runs and flushes, not for what it flushes at a
        stop: after a few seconds of work only that of the queues is a new one.
        """
        return max(self.log_ms, self.queue_ms)

    def recovery_ms(self, *, queues: bool) -> int:
        """Return the time before which stored records are durable, and with ``queues`` their
        units."""
        return durable_ms(min(self.log_ms, self.queue_ms) if queues else self.log_ms)

    def write(self) -> None:
        """Write the times, unsynced. Raises ``OSError``."""
        if self._file is None:
            if self._files.exists(self._path):
                self._file = self._files.open(self._path)
            else:
                self._file = self._files.create(self._path, CHECKPOINT_BYTES)
        times = (self.log_ms, self.queue_ms, self.index_ms)
        head = b"".join(time_ms.to_bytes(8, "big", signed=True) for time_ms in times)
        self._file.write(0, head + self._rest)

    async def sync(self) -> None:
        """Wait until what ``write`` wrote is durable."""
        if self._file is not None:
            await self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
