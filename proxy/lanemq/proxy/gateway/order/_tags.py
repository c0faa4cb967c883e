"""Tags of positions in logs, which say which broker behind an added one gave a position out.

A client ends a transaction, sends a message back and asks for a message by its position alone. The
tag is a broker's place in the list of all brokers behind added ones, which all proxies share and
which only grows. Form and reach of positions are those of ``logical.rules._positions``.
"""

from collections.abc import Sequence

from ...logical.rules._positions import LEAST_TAG, NEAR_TAGS, untagged


def tag_of(behind: Sequence[str], broker: str) -> int:
    """Return the tag of a broker; 0 for one that is not behind any added broker."""
    return LEAST_TAG + behind.index(broker) if broker in behind else 0


def broker_of(behind: Sequence[str], position: int) -> tuple[str | None, int]:
    """Return the broker that gave a position out, and its own position; None and the same position
    without a tag, or with an unknown one."""
    tag, own = untagged(position)
    if not tag:
        return None, position
    place = tag - LEAST_TAG if tag > 0 else (-tag - 1 - LEAST_TAG) % NEAR_TAGS
    return (behind[place], own) if 0 <= place < len(behind) else (None, position)
