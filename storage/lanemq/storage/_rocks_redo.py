"""Rows for records that are read from the log again.

They may have rows already, their queue may have been deleted and made anew in between, and rows
of newer messages may be there: the rows end up as if they had been written once, in order.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, final

from ._places import Place, Places
from ._records import Record
from ._tags import TagsCodes

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from .rocks import QueueRows

Belongs = Callable[[Place, int], bool]
"""Whether the message at a log position really has that place, for all that is known."""


class _Entry(NamedTuple):
    place: Place
    log_position: int
    size_bytes: int
    tags_code: int
    store_ms: int


@final
class RocksRedo:
    """Gathers rows and writes them in batches; what RocksDB refuses is ``OSError``."""

    def __init__(
        self, rows: "QueueRows", *, tags: TagsCodes, places: Places, belongs: Belongs
    ) -> None:
        self._rows = rows
        self._tags = tags
        self._places = places
        self._belongs = belongs
        self._entries: list[_Entry] = []
        self._queues: set[tuple[str, int]] = set()
        self.has_written = False
        """Whether any row was changed."""

    def __len__(self) -> int:
        return len(self._entries)

    def take(self, record: Record) -> None:
        """Make the rows of a record; ``write`` writes them."""
        for place in self._places.of(record):
            if not self._belongs(place, record.position):
                continue
            if place.queue_offset == 0:
                self._begin_queue(place, record.position)
            code = self._tags.code(record.topic, record.properties, record.store_timestamp_ms)
            self._entries.append(
                _Entry(place, record.position, record.size_bytes, code, record.store_timestamp_ms)
            )
            self._queues.add((place.topic, place.queue_id))

    def _begin_queue(self, place: Place, log_position: int) -> None:
        """Remove rows of a queue of the same name that was deleted before this one began."""
        topic, queue_id = place.topic, place.queue_id
        if (topic, queue_id) in self._queues:
            self.write(None)
        newest = self._rows.max_row(topic, queue_id)
        if newest is None:
            return
        self.has_written = True
        if newest.log_position < log_position:
            self._rows.delete_queue(topic, queue_id)
        elif self._rows.unit(topic, queue_id, newest.queue_offset + 1) is not None:
            # They came from the log a moment ago, and had been deleted before.
            self._rows.delete_units(topic, queue_id, newest.queue_offset + 1, 1 << 62)

    def write(self, watermark: int | None) -> None:
        """Write what was gathered, with a watermark if one is given."""
        if not self._entries and watermark is None:
            return
        batch = self._rows.batch()
        first: dict[tuple[str, int], _Entry] = {}
        last: dict[tuple[str, int], _Entry] = {}
        for entry in self._entries:
            (topic, queue_id, offset), position, size, code, store_ms = entry
            batch.put_unit(topic.encode(), queue_id, offset, position, size, code, store_ms)
            first.setdefault((topic, queue_id), entry)
            last[topic, queue_id] = entry
        for key, entry in last.items():
            newest = self._rows.max_row(*key)
            if newest is None or newest.log_position <= entry.log_position:
                batch.put_max(key[0].encode(), key[1], entry.log_position, entry.place.queue_offset)
        for key, entry in first.items():
            oldest = self._rows.min_row(*key)
            if oldest is not None and oldest.queue_offset > entry.place.queue_offset:
                batch.put_min(key[0].encode(), key[1], entry.log_position, entry.place.queue_offset)
        if watermark is not None:
            batch.set_watermark(watermark)
        batch.write()
        self.has_written |= bool(self._entries)
        self._entries = []
        self._queues.clear()
