"""Tagged log positions, which name their broker in the high bits.

Clients give positions back without saying which broker they are from: a consumer that sends a
message back, a query by offset id. So whatever passes a logical listener carries the broker in
the position itself. The tag comes from the broker's name alone, so nothing has to be
remembered, and any server resolves what another one gave out. Positions without a tag (0) are
somebody's own, as Apache writes them.

A client in JavaScript keeps numbers of 53 bits. So the first 8 TiB of a log have 10 bits of
tag above 43 of position; what lies behind has 15 above 48, in 63 bits (256 TiB), and such a tag
is never so small that the two could be mixed up.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, final
from zlib import crc32

from lanemq.wire import LocalProtocolError

NEAR_BITS: Final = 43
NEAR_END: Final = 1 << NEAR_BITS
NEAR_TAGS: Final = (1 << 10) - 1
FAR_BITS: Final = 48
FAR_MASK: Final = (1 << FAR_BITS) - 1
FAR_FROM: Final = 1 << 53
LEAST_TAG: Final = FAR_FROM >> FAR_BITS
TAG_END: Final = 1 << 15
IDS_MAX: Final = 4096
"""Message ids in the answer to a send of a batch that get their tags."""


def broker_tag(broker_name: str) -> int:
    """Return the tag of a broker, 32 to 32767."""
    return LEAST_TAG + crc32(broker_name.encode()) % (TAG_END - LEAST_TAG)


def near_tag(tag: int) -> int:
    """Return the short form of ``tag`` for a position in the first 8 TiB, 1 to 1023."""
    return tag % NEAR_TAGS + 1


def tagged(tag: int, log_position: int) -> int:
    """Add its tag to a broker's own position.

    Raises ``LocalProtocolError`` for a negative position.
    """
    if log_position < 0:
        raise LocalProtocolError(f"{log_position} is not a position in a log")
    if log_position < NEAR_END:
        return near_tag(tag) << NEAR_BITS | log_position
    return tag << FAR_BITS | log_position & FAR_MASK


def untagged(position: int) -> tuple[int, int]:
    """Split a position from a client into tag (see ``BrokerTags``) and log position.

    The tag is 0 for one without, and negative for that of a position in the first 8 TiB.
    """
    if position >= FAR_FROM:
        return position >> FAR_BITS, position & FAR_MASK
    return -(position >> NEAR_BITS), position & (NEAR_END - 1)


def each_id(ids: str, change: Callable[[str], str]) -> str:
    """Return message ids, with commas between, each of them changed. Beyond ``IDS_MAX`` all stay as
    their broker gave them: a header has room for a million of them, whatever was sent."""
    if ids.count(",") >= IDS_MAX:
        return ids
    return ",".join(map(change, ids.split(",")))


@final
class BrokerTags:
    """The brokers of a cluster by tag.

    Two names may share a tag: a search for a message asks the brokers of a tag in turn,
    and checks that their message is the one that is meant.
    """

    def __init__(self, broker_names: Iterable[str]) -> None:
        names = defaultdict(list)
        for name in sorted(set(broker_names)):
            tag = broker_tag(name)
            names[tag].append(name)
            names[-near_tag(tag)].append(name)
        self._names = {tag: tuple(found) for tag, found in names.items()}

    def names(self, tag: int) -> tuple[str, ...]:
        """Return the brokers that ``untagged`` may mean; none for an unknown tag."""
        return self._names.get(tag, ())
