"""Bodies of CLAIM_LOGICAL_INDICES, lanemq's own: the brokers that own logical indices for ever.

An index is claimed at the brokers that have a part of a topic before a queue gets it. A tool
that asks most of them hears of every index that was ever given out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..bodies._body import Body


@dataclass(frozen=True, slots=True)
class ClaimLogicalIndices(Body):
    """Claims for a topic: index -> broker name; without any, the known ones are asked for."""

    topic: str
    claims: Mapping[int, str] = field(default_factory=dict)
    brokers: tuple[str, ...] = ()
    """All brokers that have a part of the topic, as far as the tool knows."""
    deletions: int | None = None
    """Times the topic was deleted, as far as the tool knows; a tool may not know of it."""


@dataclass(frozen=True, slots=True)
class ClaimedLogicalIndices(Body):
    """The answer: all claims that a broker knows of, and who has a part of the topic.

    A topic that was deleted leaves the number of its deletions.
    """

    claims: Mapping[int, str] = field(default_factory=dict)
    brokers: tuple[str, ...] = ()
    deletions: int = 0
    """Times the topic was deleted before it got these claims; without any, until now."""
