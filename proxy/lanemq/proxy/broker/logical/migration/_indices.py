"""CLAIM_LOGICAL_INDICES: the owner of each logical index of a topic, kept for ever.

Every broker that has a part of the topic keeps all claims, so that an index is given out once,
though brokers are down and name servers have restarted, and though two tools grow it at once.
What is left of a topic that is deleted is how often it was: by that a broker which was away finds
out that its part is one of the deleted topic.
"""

from collections.abc import Mapping
from typing import Final, final

import trio

from lanemq.storage import ConfigInvalid, TopicTable, disk_problem
from lanemq.wire import TOPIC_QUEUES_MAX, RemoteProtocolError, RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.logical import INDEX_CLAIMED, ClaimedLogicalIndices, ClaimLogicalIndices

from ....logical.rules._refusals import refusal
from ....net._dispatch import Handlers
from ....net._session import Session
from ....net._turns import encode_beside
from ..state._state import LogicalState
from ._requests import NO_TOPIC, decoded

MEMBER: Final = "lanemqLogicalIndices"
"""Member of the table of topics: topic -> its ``ClaimedLogicalIndices``."""
DELETED_MAX: Final = 10_000
"""Deleted topics that are remembered; the oldest are forgotten first."""
CLAIMS_MAX: Final = 32 * TOPIC_QUEUES_MAX
"""Most claims of a topic: those of some dozens of brokers, each with all queues that it may have.
All are read, answered and written with every further one."""


@final
class LogicalIndices:
    """The claimed logical indices at one broker."""

    def __init__(self, *, logical: LogicalState, topics: TopicTable) -> None:
        self._logical = logical
        self._topics = topics
        self._keeping = trio.Lock()
        kept = self._topics.member(MEMBER) or {}
        try:
            if not isinstance(kept, dict):
                raise RemoteProtocolError("it is not a JSON object")
            self._claimed = {
                topic: ClaimedLogicalIndices.from_json(value) for topic, value in kept.items()
            }
        except RemoteProtocolError as error:
            raise ConfigInvalid(f"{MEMBER}: {error}") from error
        self._deleted = dict.fromkeys(t for t, one in self._claimed.items() if not one.claims)
        """The topics of which the number of deletions is left, the oldest first."""
        self._members = dict(kept)
        """All as JSON, as it was written; the objects are the same while they are unchanged."""
        self._changed: set[str] = set()
        """Topics that ``forget`` has changed since."""
        claimed = [topic for topic in self._claimed if topic not in self._deleted]
        for topic in [topic for topic in claimed if self._topics.get(topic) is None]:
            self.forget(topic)  # a crash came between the two halves of its deletion

    def of(self, topic: str) -> ClaimedLogicalIndices | None:
        """Return what is kept of a topic; None before the first claim."""
        return self._claimed.get(topic)

    async def claim(self, asked: ClaimLogicalIndices) -> ClaimedLogicalIndices:
        """Keep all claims, durably, or none. Raises ``Refused`` where an index has another
        owner, or the topic is not here; without claims it need not be.
        """
        topic = asked.topic
        async with self._keeping:
            if asked.claims and self._topics.get(topic) is None:
                raise refusal(NO_TOPIC)
            known = self._claimed.get(topic, ClaimedLogicalIndices())
            claims = self._mapped(topic) | dict(known.claims)
            deletions = known.deletions
            if asked.claims and asked.deletions is not None and asked.deletions != deletions:
                if known.claims:
                    raise refusal(
                        f"{topic} was deleted and made again while this broker was away, which it "
                        "does not know yet: try it again in a minute"
                    )
                deletions = asked.deletions
            for index, broker in asked.claims.items():
                if claims.setdefault(index, broker) != broker:
                    raise refusal(f"logical queue {index} {INDEX_CLAIMED}, to {claims[index]}")
            if asked.claims and len(claims) > CLAIMS_MAX:
                raise refusal(f"{topic} would have {len(claims)} claims, at most {CLAIMS_MAX} are")
            brokers = asked.brokers if asked.claims else known.brokers
            new = ClaimedLogicalIndices(claims, tuple(sorted(brokers)), deletions)
            if asked.claims and new != known:
                await self._keep({topic: new})
        return new

    def _mapped(self, topic: str) -> dict[int, str]:
        """Return the owners of unclaimed older indices: the brokers with the queues' first
        segments."""
        mapping = self._logical.get(topic)
        chains = mapping.queues.values() if mapping is not None else ()
        return {chain.index: chain[0].broker_name for chain in chains if len(chain)}

    async def _keep(self, new: Mapping[str, ClaimedLogicalIndices]) -> None:
        """Write claims, and what ``forget`` has changed."""
        members, changed = dict(self._members), self._changed
        for topic in changed | new.keys():
            members.pop(topic, None)  # what is written again comes last
            one = new.get(topic) or self._claimed.get(topic)
            if one is not None:
                members[topic] = one.to_json()
        self._changed = set()
        try:
            with trio.CancelScope(shield=True):
                await self._topics.put_member(MEMBER, members)
        except OSError as error:
            self._changed |= changed
            raise refusal(f"the claims cannot be written: {disk_problem(error)}") from error
        self._members = members
        for topic, one in new.items():
            if topic not in self._changed:  # else it was deleted meanwhile
                self._claimed[topic] = one
                self._deleted.pop(topic, None)

    def forget(self, topic: str, deletions: int = 0) -> None:
        """Forget the claims of a deleted topic, whose indices begin again; count its deletion.

        ``deletions`` is how many there were, where others know of more. ``keep`` makes it last.
        """
        known = self._claimed.pop(topic, None)
        self._changed.add(topic)
        self._deleted.pop(topic, None)
        if known is not None:
            count = known.deletions + 1 if known.claims else known.deletions
            if count := max(count, deletions):
                self._claimed[topic] = ClaimedLogicalIndices(deletions=count)
                self._deleted[topic] = None
        while len(self._deleted) > DELETED_MAX:
            oldest = next(iter(self._deleted))
            del self._deleted[oldest], self._claimed[oldest]
            self._changed.add(oldest)

    async def keep(self) -> None:
        """Write what ``forget`` has changed. Raises ``Refused``."""
        async with self._keeping:
            await self._keep({})


def register(handlers: Handlers, indices: LogicalIndices) -> None:
    """Register the request; brokers without the topic answer how often it was deleted."""

    async def claim(frame: Frame, session: Session) -> Frame:
        asked = decoded(ClaimLogicalIndices, frame)
        claimed = await indices.claim(asked)
        return frame.reply(body=await encode_beside(session, claimed, len(claimed.claims)))

    handlers.add(RequestCode.CLAIM_LOGICAL_INDICES, claim)
