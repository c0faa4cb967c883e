"""The parts of a store that a start makes agree, and that become durable in a fixed order."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from .checkpoint._checkpoint import Checkpoint
from .checkpoint._watermarks import OpenWatermarks
from .disk._files import Files
from .index._index import Index
from .log._commit_log import CommitLog
from .queues._queues import QueueTable

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from .queues.rocks._consume_queue import RocksQueueTable
    from .queues.rocks._writer import RocksIndex


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StoreParts:
    """The log of a store, its indexes, and the files that say how far those are durable."""

    files: Files
    """The disk that all of them are on."""
    log: CommitLog
    queues: "QueueTable | RocksQueueTable"
    """The queues that are read: those in files, or the rows of RocksDB."""
    file_queues: QueueTable
    rocks: "RocksIndex | None"
    """The queues in RocksDB, where the settings ask for them."""
    index: Index | None
    """The key index; None where it is switched off."""
    checkpoint: Checkpoint
    progress: OpenWatermarks
    """The watermarks of the indexes."""
