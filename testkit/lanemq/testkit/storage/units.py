"""Units of queues, the entries for one message each: derived from a log, blanked, and deleted."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from lanemq.storage import Store
from lanemq.storage._layouts import BLANK_UNIT
from lanemq.storage.derive._units import Derivation
from lanemq.storage.log._records import Record, check_record
from lanemq.storage.queues._queue_positions import QueuePositions
from lanemq.storage.queues._tags import TagsCodes
from lanemq.storage.queues.files._consume_queue import FileConsumeQueue


def derived_units(
    data: bytes, starts: Iterable[int], *, deleted: Mapping[str, int], delays_ms: tuple[int, ...]
) -> list[tuple[object, ...]]:
    """Return the units that a broker derives from the records at ``starts``, one by one."""
    derivation = Derivation(
        QueuePositions(multi_dispatch=True, deleted=deleted), TagsCodes(delays_ms)
    )
    units: list[tuple[object, ...]] = []
    for start in starts:
        record = check_record(data, start, start, len(data) - start, check_crc=False)
        assert isinstance(record, Record)
        units += [tuple(unit) for unit in derivation.units(record)]
    return units


def blank_unit(store: Store, topic: str, queue_id: int, offset: int) -> None:
    """Write a blank over the unit at ``offset`` of a queue that is in files."""
    queue = store._parts.queues.find(topic, queue_id)
    assert isinstance(queue, FileConsumeQueue)
    queue.patch(offset, BLANK_UNIT)


def delete_units(root: Path, topic: str, queue_id: int, begin: int, end: int) -> None:
    """Delete units of a closed store in RocksDB, from ``begin`` up to ``end``."""
    from lanemq.storage.queues.rocks._queue_rows import QueueRows
    from lanemq.storage.rocks import QueueDatabase

    database = QueueDatabase(root / "consumequeue")
    QueueRows(database).delete_units(topic, queue_id, begin, end)
    database.close()
