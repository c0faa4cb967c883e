"""The partitions of keys as reads see them, wherever their states are."""

from typing import Protocol

from lanemq.storage.kv import KvLog, KvState
from lanemq.wire import Refused


class Readable(Protocol):
    """The open partitions of one server."""

    def find(self, namespace: str, partition: int, partitions: int) -> KvState:
        """Return the state of a partition that takes reads. Raises ``Refused``."""

    def log(self, namespace: str, partition: int) -> KvLog:
        """Return the records of a partition that has a state."""

    def unreadable(self, namespace: str, partition: int, error: OSError) -> Refused:
        """Return the refusal for an error of the disk."""
