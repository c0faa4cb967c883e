"""Entries of the log of orders with the progress of sending again, and their codec; ends that are
lost."""

from typing import Final, final

import msgspec

from lanemq.local import get_logger
from lanemq.wire import RemoteProtocolError

from ..kv import UpstreamKeys
from ..order import MovedQueue, Part

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

LEFT: Final = b"left/"


@final
class LeftProgress(msgspec.Struct, frozen=True, array_like=True):
    """The progress of sending again, at one part."""

    next: int
    """The part's own offset of the message to send."""
    floor: int = -1
    """From where on that message is in the queue at ``target``, if it was sent; -1 for not yet."""
    target: tuple[str, int] = ("", 0)


async def next_left(keys: UpstreamKeys, topic: str, part: Part) -> int:
    """Return the offset behind an end up to which all is known to be sent again.

    Raises ``KeysUnavailable``, ``RemoteProtocolError``.
    """
    entry = await keys.read(left_key(topic, part))
    return (
        part.read_end if entry is None else decode_progress(left_key(topic, part), entry.value).next
    )


def decode_progress(key: bytes, value: bytes) -> LeftProgress:
    """Read an entry. Raises ``RemoteProtocolError``."""
    try:
        return msgspec.json.decode(value, type=LeftProgress)
    except msgspec.DecodeError as error:
        raise RemoteProtocolError(f"{key!r} has no place: {error}") from error


def left_key(topic: str, part: Part) -> bytes:
    """Return the entry with the progress of sending again, at one part.

    Where the broker has lost the end, the next messages have offsets of lost ones: they are behind
    another end, and their progress is another entry.
    """
    lost = f"/{part.read_end}" if part.lost else ""
    return LEFT + f"{topic}/{part.broker}/{part.queue_id}{lost}".encode()


@final
class LostEnds:
    """The parts of which a broker has no longer all that was before their ends."""

    def __init__(self) -> None:
        self._said: set[bytes] = set()

    def note(self, topic: str, moved: MovedQueue, part: Part, most: int) -> None:
        """Take the end of a part's queue, as its broker tells it now, and say once what is lost:
        nobody passes over it unseen, so readers stay there."""
        key = left_key(topic, part)
        if most >= part.read_end:
            self._said.discard(key)
        elif key not in self._said:
            self._said.add(key)
            LOGGER.error(
                "topic %s: queue %d of %s ended at %d when it moved on, and the broker has it up "
                "to %d now. Groups that have not read to its end stay there, until they are let "
                "pass over that, or their members seek to offset %d of queue %d of %s, behind what "
                "is lost",
                topic,
                part.queue_id,
                part.broker,
                part.read_end,
                most,
                moved.begins[moved.parts.index(part) + 1],
                moved.place[1],
                moved.place[0],
            )
