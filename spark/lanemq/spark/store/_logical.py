"""The logical queues of a store's messages, from the mapping that its broker keeps."""

from collections.abc import Mapping
from typing import Final

from lanemq.storage.tools import find_stage, look_into, read_logical_queues
from lanemq.wire.logical import LogicalQueues

from .._uris import shown
from ..records import LogicalPlaces, RecordColumns
from ._files import StoreFiles
from ._local import CONFIG, commit_log, local_store
from ._log import LogFile, find_pieces
from ._plan import log_of
from ._records import RecordReader
from ._table import Query

BROKER_NAME: Final = "brokerName"


def logical_places(query: Query, root: str) -> LogicalPlaces | None:
    """Return where messages of a store are in logical queues; None where it has none.

    Raises ``SourceError`` where the mapping does not show which of its brokers the store is of.
    """
    with local_store(root, CONFIG) as directory:
        from_rocksdb = query.options.choice("from") != "files"
        if query.options.choice("from") == "auto" and StoreFiles(root).is_local:
            store = look_into(
                directory, commit_log=commit_log(query, root) or directory, needs_log=False
            )
            from_rocksdb = find_stage(store).stage.reads_rows
        queues = read_logical_queues(directory, from_rocksdb=from_rocksdb)
    if not any(queues.values()):
        return None
    return LogicalPlaces.of(queues, _own_name(query, root, queues))


def _own_name(query: Query, root: str, queues: Mapping[str, LogicalQueues]) -> str:
    """Return the broker's own name: a broker keeps the chains in which it has a part."""
    chosen = query.options.get(BROKER_NAME)
    chains = [
        {segment.broker_name for segment in chain}
        for of_topic in queues.values()
        for chain in of_topic.values()
        if len(chain)
    ]
    names = set.intersection(*chains) if chains else set()
    everywhere = {name for chain in chains for name in chain}
    if chosen in everywhere or (chosen is None and len(names) == 1):
        return chosen or names.pop()
    host = _first_host(query, root)
    at_host = {
        segment.broker_name
        for of_topic in queues.values()
        for segment in of_topic.segments
        if segment.broker_address == host and (segment.broker_name in names or not names)
    }
    if chosen is None and len(at_host) == 1:
        return at_host.pop()
    raise query.options.wrong(
        BROKER_NAME,
        f"give the name of the broker that {shown(root)} is of, for logicalQueue:"
        f" {', '.join(sorted(everywhere))}",
    )


def _first_host(query: Query, root: str) -> str | None:
    """Return the address under which the broker stored the first message of its last log file."""
    files = StoreFiles(log_of(query, root))
    for piece in reversed(find_pieces(files, "")):
        log = LogFile(files, piece.name, piece)
        try:
            for records in RecordReader(log, piece.start, piece.start + 1):
                found: str = RecordColumns(records).column("storeHost")[0].as_py()
                return found
        finally:
            log.close()
    return None
