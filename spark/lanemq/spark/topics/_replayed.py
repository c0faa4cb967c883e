"""The progress of a replay, as the queue that it sends to shows it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, final

from lanemq.sdk.admin import AdminClient
from lanemq.wire.bodies import MessageQueue

from .._errors import SourceError
from ..records import RecordColumns, decode_records, walk_sizes
from ._cluster import put_offset, queue_name, read_chunk
from ._copies import REPLAYED, is_copy, row_of
from ._offsets import QueueRange


@final
@dataclass
class ReplayProgress:
    """The messages of one old queue that are in a target queue."""

    replay: str
    """The name of the replay."""
    number: int
    """The old queue."""
    done: int = -1
    """The greatest old offset that is in the topic."""
    last: dict[str, Any] = field(default_factory=dict[str, Any])
    """The message of that offset that a look has found, as a row; empty if none has."""
    since: int = 0
    """An offset of the target queue; what is before it is known."""
    end: int = 0
    """The end of the target queue as far as it is known."""

    @property
    def group(self) -> str:
        """The group that keeps the place to look from."""
        return f"{self.replay}_{self.number}"

    @property
    def mark(self) -> str:
        """The property ``REPLAYED`` of each message before the old offset."""
        return f"{self.replay}/{self.number}/"

    async def look(self, admin: AdminClient, address: str, queue: MessageQueue) -> None:
        """Find how far the replay has come, from the target queue. Raises ``SourceError``."""
        if self.done < 0:
            first = max(0, await admin.min_offset(address, queue))
            self.since = max(first, await admin.group_offset(address, self.group, queue) or 0)
        self.end = await admin.max_offset(address, queue)
        at = self.since
        while at < self.end:
            wanted = QueueRange(queue.topic, queue_name(queue), at, self.end)
            chunk = await read_chunk(admin, wanted, "*", with_places=False)
            self._find(chunk.records)
            if chunk.next_offset <= at:
                raise SourceError(
                    f"rocketmq: queue {queue_name(queue)} of {queue.topic} cannot be read from"
                    f" {at} on, so nobody knows how far the replay has come"
                )
            at = chunk.next_offset
        if self.done < 0:
            self.since = self.end

    async def note(self, admin: AdminClient, address: str, queue: MessageQueue) -> None:
        """Keep the place to look from: the last message that is known, or one before it, or the
        end of a queue that has none of the replay."""
        await put_offset(admin, address, self.group, queue, self.since)

    def _find(self, data: bytes) -> None:
        starts, _ = walk_sizes(data, 0, len(data))
        columns = RecordColumns(decode_records(data, starts))
        marks = columns.properties.get(REPLAYED).to_pylist()
        offsets = columns.records.fields["queue_offset"].tolist()
        last = None
        for number, (mark, offset) in enumerate(zip(marks, offsets, strict=True)):
            if mark is not None and mark.startswith(self.mark):
                found = int(mark.removeprefix(self.mark))
                if found > self.done:
                    self.done, self.since, last = found, offset, number
        if last is not None:
            self.last = row_of(columns, last, self.done)

    def is_of(self, newest: Any) -> bool:  # noqa: ANN401 - a row of Spark
        """Return whether the archive of a row was replayed, its last one up to ``done``.

        If the last message that is there is another one than was sent, the others before it have
        not been sent either.
        """
        return is_copy(self.last, newest)

    def of_another(self, topic: str) -> SourceError:
        """Make the error for an archive that has not been replayed here."""
        return SourceError(
            f"rocketmq: the replay {self.replay} has sent offset {self.done} of queue"
            f" {self.number} to {topic}, and the archive has another message there,"
            " or none: that was another archive, or `store_host`. Give this replay another"
            " `name`"
        )


def check_replayed(progress: Iterable[ReplayProgress], newest: Iterable[Any], topic: str) -> None:
    """Raise ``SourceError`` if an archive is another one than was replayed.

    ``newest`` are its last rows of each queue among those up to ``done``; a queue without one is
    not checked, since retention may have removed what the archive would have.
    """
    by_number = {row["queue"]: row for row in newest}
    for one in progress:
        row = by_number.get(one.number)
        if row is not None and not one.is_of(row):
            raise one.of_another(topic)
