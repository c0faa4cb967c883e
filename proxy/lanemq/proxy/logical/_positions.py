"""Whose log a position belongs to: a tag of the broker in the high bits.

Clients give positions back without saying which broker they are from: a consumer that sends a
message back, a query by offset id. So whatever passes a logical listener carries the broker in
the position itself: bit 63 is clear, the next 15 are the tag, the low 48 the byte in that
broker's log (256 TiB). The tag comes from the broker's name alone, so nothing has to be
remembered, and any server resolves what another one gave out. Positions without a tag (0) are
somebody's own, as Apache writes them.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, final
from zlib import crc32

from lanemq.wire import LocalProtocolError

POSITION_BITS: Final = 48
POSITION_MASK: Final = (1 << POSITION_BITS) - 1
TAGS: Final = (1 << 15) - 1
"""How many there are; they run from 1."""


def broker_tag(broker_name: str) -> int:
    """The tag of a broker, 1 to 32767."""
    return crc32(broker_name.encode()) % TAGS + 1


def tagged(tag: int, log_position: int) -> int:
    """The position with its tag; one that is tagged already gets the new one.

    Raises ``LocalProtocolError`` for a position that is negative: it is none.
    """
    if log_position < 0:
        raise LocalProtocolError(f"{log_position} is no position in a log")
    return tag << POSITION_BITS | log_position & POSITION_MASK


def untagged(position: int) -> tuple[int, int]:
    """Tag and log position of a position that came from a client; tag 0 for one without."""
    return (position >> POSITION_BITS) & TAGS, position & POSITION_MASK


@final
class BrokerTags:
    """The brokers of a cluster by tag.

    Two names with one tag are rare (one cluster of 20 brokers in 170) and harmless: whoever
    looks for a message asks the brokers of a tag in turn.
    """

    def __init__(self, broker_names: Iterable[str]) -> None:
        names = defaultdict(list)
        for name in sorted(set(broker_names)):
            names[broker_tag(name)].append(name)
        self._names = {tag: tuple(found) for tag, found in names.items()}

    def names(self, tag: int) -> tuple[str, ...]:
        """The brokers that may be meant, mostly one; none for a tag nobody has."""
        return self._names.get(tag, ())
