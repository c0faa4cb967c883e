"""The logical queues that a broker keeps with its topics."""

from pathlib import Path

from lanemq.wire import RemoteProtocolError
from lanemq.wire.logical import LogicalQueues, logical_queues_by_topic

from ._errors import NotAStore
from ._metadata import read_tables


def read_logical_queues(root: Path, *, from_rocksdb: bool) -> dict[str, LogicalQueues]:
    """Return the logical queues of each topic of a store, also while a broker has it open.

    ``from_rocksdb``: whether the topics are there, where there is such a table. Raises
    ``NotAStore`` where they cannot be read.
    """
    topics = read_tables(root / "config", from_rocksdb=from_rocksdb)["topics"]
    if topics.problem:
        raise NotAStore(root, topics.problem)
    try:
        return logical_queues_by_topic(topics.others) or {}
    except RemoteProtocolError as error:
        raise NotAStore(root, f"{topics.path}: {error}") from error
