"""Messages of a superseded segment behind the offset at which its logical queue went on elsewhere.

Those messages were acknowledged, and have no place in the logical queue. They are counted until
an operator has them appended at its open end, and that is written down, so that it happens once.
"""

from dataclasses import dataclass, replace
from typing import Final, Self, final

from lanemq.wire import RemoteProtocolError
from lanemq.wire.logical import Segment, SegmentKey

SUPERSEDED_FILE: Final = "logicalQueueSuperseded.json"
SUPERSEDED_MEMBER: Final = "superseded"
ORIGIN_PROPERTY: Final = "LANEMQ_SUPERSEDED"
"""Property of a message that was appended again: its first place as ``broker:queue:offset``."""


@final
@dataclass(frozen=True, slots=True)
class Superseded:
    """Messages ``[done, end)`` of a message queue are in no logical queue. Offsets are physical."""

    segment: Segment
    """The superseded segment, sealed before the first of these messages."""
    end: int
    done: int
    """Offset before which messages are known to be appended."""
    scan_from: int = -1
    """Logical offset from which on appended messages can be found; -1 for none yet."""

    @property
    def count(self) -> int:
        """Number of messages that wait."""
        return self.end - self.done

    def origin(self, queue_offset: int) -> str:
        """Make the ``ORIGIN_PROPERTY`` of a message."""
        return f"{self.segment.broker_name}:{self.segment.queue_id}:{queue_offset}"

    def offset_of(self, origin: str) -> int | None:
        """Parse an ``ORIGIN_PROPERTY`` to an offset; None for a message of another queue."""
        prefix, _, offset = origin.rpartition(":")
        is_ours = prefix == f"{self.segment.broker_name}:{self.segment.queue_id}"
        return int(offset) if is_ours and offset.isascii() and offset.isdigit() else None

    def until(self, done: int) -> Self:
        return replace(self, done=max(done, self.done))

    def to_json(self) -> dict[str, object]:
        return {
            "done": self.done,
            "end": self.end,
            "scanFrom": self.scan_from,
            "segment": self.segment.to_json(),
        }

    @classmethod
    def from_json(cls, value: object) -> "Superseded":
        """Parse an entry. Raises ``RemoteProtocolError`` for anything that ``to_json`` does not
        give."""
        if not isinstance(value, dict):
            raise RemoteProtocolError("an entry is not a JSON object")
        try:
            numbers = [int(value[name]) for name in ("end", "done", "scanFrom")]
            segment = Segment.from_json(value["segment"])
        except (KeyError, TypeError, ValueError) as error:
            raise RemoteProtocolError(f"an entry without its {error}") from None
        return cls(segment, *numbers)


def superseded_entries(members: dict[str, object]) -> dict[SegmentKey, Superseded]:
    """Parse the kept entries. Raises ``RemoteProtocolError``."""
    values = members.get(SUPERSEDED_MEMBER) or []
    if not isinstance(values, list):
        raise RemoteProtocolError(f"{SUPERSEDED_MEMBER} is not an array")
    return {entry.segment.key: entry for entry in map(Superseded.from_json, values)}
