"""Queue files that are missing from a store at rest: found, and made again.

Without them messages could no longer be read, and their offsets would be given out again, as
happens at Apache. Missing files show: a stop leaves a digest of where the queues begin and
end, each watermark of the files leaves their bounds as of its position, and the newest records,
which a start looks at anyway, must have their units. The log tells of each message to which queue
it belongs and at which offset, so that units are made again without loss; for queues none of whose
messages is left it does not, but the bounds or the groups' offsets do.
"""

from pathlib import Path
from typing import final

from lanemq.local import get_logger
from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.message import is_stage_group

from .._errors import ConfigInvalid, StartRefused
from ..checkpoint._watermarks import Watermarks
from ..derive._sequence import sequences_of
from ..derive._units import Derivation, DerivedUnit
from ..disk._files import Files
from ..log._damage import walk_over_damage
from ..log._records import RECORD_BYTES_MIN
from ..log._segments import Segments
from ..queues._queues import QueueTable
from ..tables._config_tables import TOPIC_MEMBER
from ..tables._contents import parse_contents
from ..tables._document import Document
from ..tables._offset_tables import OFFSET_MEMBER, SEPARATOR
from ._redo import FileRedo

LOGGER = get_logger(__name__)
Key = tuple[str, int]


@final
class MissingUnits:
    """The search for missing queue files; runs once, at a start with queue files."""

    def __init__(
        self,
        queues: QueueTable,
        *,
        segments: Segments,
        derivation: Derivation,
        files: Files,
        config: Path,
    ) -> None:
        """Take the parts; ``config`` is the directory of the tables, which are in JSON files
        then."""
        self._queues = queues
        self._segments = segments
        self._derivation = derivation
        self._positions = derivation.positions
        self._files = files
        self._config = config
        self._ends = ""
        self._short: dict[Key, int] = {}
        self._has_mended = False
        self._read: set[Key] | None = None
        self.why = ""
        """The sign that some are missing; empty without one."""

    def compare(self, digest: str) -> None:
        """Compare the loaded queues with those that our last stop left."""
        if digest and digest != self._queues.digest():
            self._ends = digest.partition(":")[0]
            self.why = "they are not as the last stop left them"

    def compare_bounds(self, known: Watermarks) -> None:
        """Compare the queues, loaded up to the watermark of the files, with what it left.

        For a store that was killed: what came behind the watermark is made again in any case.
        """
        for topic, queues in known.bounds.items():
            for queue_id, (begin, end) in queues.items():
                queue = self._queues.find(topic, queue_id)
                if queue is None or queue.end < end or queue.file_begin > begin:
                    self.why = f"queue {queue_id} of {topic} had units from {begin} to {end}"
                    self._short[topic, queue_id] = end

    def look_for_holes(self) -> None:
        """Find a file that is missing between two others of its queue."""
        for queue in self._queues:
            if queue.lacks_file:
                self.why = f"files of queue {queue.queue_id} of {queue.topic} do not follow on"
                return

    def ask_groups(self) -> None:
        """Find queues of a foreign store that have no files although groups have read them."""
        for (topic, queue_id), offset in self._committed().items():
            queue = self._queues.find(topic, queue_id)
            if queue is None or not queue.end:
                self.why = f"queue {queue_id} of {topic} has none, and a group is at {offset}"
                return

    def look_at_read_queues_only(self) -> None:
        """Take a queue for missing only if groups have read it and it has no unit at all.

        Where Apache's broker may have used RocksDB alone, files tell no more.
        """
        self._read = set(self._committed())

    def _committed(self) -> dict[Key, int]:
        """Return the highest committed offset of each existing queue.

        Stage records are not offsets, nor is a number that no queue of this log can have come to:
        brokers keep whatever a client commits.
        """
        found = dict[Key, int]()
        possible = range(1, self._segments.capacity_end // RECORD_BYTES_MIN + 1)
        try:
            tables = [
                parse_contents(document.load(after_crash=False), member, document.path).entries
                for name, member in (("topics", TOPIC_MEMBER), ("consumerOffset", OFFSET_MEMBER))
                for document in [Document(self._files, self._config / f"{name}.json")]
            ]
            topics = {name: TopicConfig.from_json(value) for name, value in tables[0].items()}
            for name, offsets in tables[1].items():
                topic_name, _, group = name.partition(SEPARATOR)
                topic = topics.get(topic_name)
                if topic is None or is_stage_group(group):
                    continue
                for queue_id, offset in offsets.items():
                    if int(queue_id) < topic.write_queue_nums and int(offset) in possible:
                        key = topic_name, int(queue_id)
                        found[key] = max(found.get(key, 0), int(offset))
        except (ConfigInvalid, RemoteProtocolError, AttributeError, TypeError, ValueError) as error:
            LOGGER.warning("the groups' offsets cannot be read: %s", error)
        return found

    def look_at(self, unit: DerivedUnit) -> None:
        """Check that a message has the unit that it must have."""
        if not self.why and self._lacks(unit.topic, unit.queue_id, unit.queue_offset):
            self.why = f"the message at {unit.log_position} of the log has no unit"

    def _lacks(self, topic: str, queue_id: int, offset: int) -> bool:
        queue = self._queues.find(topic, queue_id)
        if self._read is not None and (queue is None or not queue.end):
            return (topic, queue_id) in self._read
        if self._read is not None and queue is not None:
            return queue.file_begin <= offset < queue.end and not queue.holds(offset)
        return queue is None or not queue.holds(offset)

    def fix(self, redo: FileRedo, end: int, *, allowed: bool) -> None:
        """Rebuild the missing units of messages before ``end``; walks over the whole log.

        Nothing is done without a sign that some are. Raises ``OSError``, and ``StartRefused``
        where not all can be made and that is not ``allowed``.
        """
        if not self.why:
            return
        LOGGER.warning("queue files may be missing: %s; going over the whole log", self.why)
        begin, lacking = self._segments.begin, dict[Key, int]()
        for record in walk_over_damage(self._segments, begin, end):
            for position in self._positions.of(record):
                if self._lacks(*position):
                    key = position.topic, position.queue_id
                    lacking[key] = lacking.get(key, 0) + 1
        for topic, queue_id in lacking:
            queue = self._queues.find(topic, queue_id)
            if queue is not None:
                queue.clear()
        sequences = sequences_of([redo], lambda _unit, _slot: None)
        records = walk_over_damage(self._segments, begin, end) if lacking else ()
        units = self._derivation.walk(records)
        for taken in sequences.confirmed(unit for unit in units if unit[:2] in lacking):
            redo.put(taken)
        for (topic, queue_id), count in lacking.items():
            LOGGER.warning(
                "queue %d of %s: files with %d units were missing; it was made again from the log",
                queue_id,
                topic,
                count,
            )
        self._has_mended = True
        self._go_on_as_noted()
        self._queues.correct_min(begin)
        self.why = ""
        self._queues.write_out()
        if self._ends and self._queues.digest().partition(":")[0] != self._ends:
            self._refuse(allowed=allowed)

    def _go_on_as_noted(self) -> None:
        """Let queues whose newest messages are gone go on where they ended: no offset is given
        twice."""
        for (topic, queue_id), end in self._short.items():
            queue = self._queues.make(topic, queue_id)
            lacking = end - queue.end
            if lacking <= 0:
                continue
            queue.restart_at(end)
            queue.append_blanks(max(0, end - queue.end))
            LOGGER.warning(
                "queue %d of %s: the log has none of its last %d messages; it continues at %d",
                queue_id,
                topic,
                lacking,
                end,
            )

    def go_on(self) -> None:
        """Let queues that are still empty after a fix continue at the offsets of their groups.

        To be called once all of the log is dispatched again."""
        if not self._has_mended:
            return
        for (topic, queue_id), offset in self._committed().items():
            self._go_on(topic, queue_id, offset)
        self._queues.write_out()

    def _refuse(self, *, allowed: bool) -> None:
        text = (
            f"{self._queues.directory}: files of queues are missing since the last stop, and the"
            " log no longer has all of their messages: new messages would get offsets that"
            " were given out before, and groups would pass over them"
        )
        if not allowed:
            raise StartRefused(
                f"{text}. Put the directory back from a copy of the store, or set"
                " allowMissingQueueFiles=true for one start to go on with what the log has"
            )
        LOGGER.warning("%s; it is allowed by allowMissingQueueFiles", text)

    def _go_on(self, topic: str, queue_id: int, offset: int) -> None:
        """Move queues on, so that no offset that a group has passed is given again."""
        queue = self._queues.make(topic, queue_id)
        if queue.end == 0 and offset > 0:
            queue.begin_at(offset)
            LOGGER.warning(
                "queue %d of %s has no files, and the log none of its messages: it continues at %d,"
                " where its groups are",
                queue_id,
                topic,
                offset,
            )
