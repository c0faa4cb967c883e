"""CLAIM_LOGICAL_INDICES: the owner of each logical index of a topic, kept for ever.

Every broker that has a part of the topic keeps all claims, so that an index is given out once,
though brokers are down and name servers have restarted, and though two tools grow it at once.
What is left of a topic that is deleted is how often it was: by that a broker which was away finds
out that its part is one of the deleted topic.
"""

from typing import Final, final

import trio

from lanemq.storage import ConfigInvalid, TopicTable, disk_problem
from lanemq.wire import RemoteProtocolError, RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.logical import INDEX_CLAIMED, ClaimedLogicalIndices, ClaimLogicalIndices

from ....logical.rules._refusals import refusal
from ....net._dispatch import Handlers
from ....net._session import Session
from ..state._state import LogicalState
from ._requests import decoded

MEMBER: Final = "lanemqLogicalIndices"
"""Member of the table of topics: topic -> its ``ClaimedLogicalIndices``."""
DELETED_MAX: Final = 10_000
"""Deleted topics that are remembered; the oldest are forgotten first."""


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
        self._as_json = {topic: (one, kept[topic]) for topic, one in self._claimed.items()}
        for topic in [topic for topic in self._claimed if self._topics.get(topic) is None]:
            self.forget(topic)  # a crash came between the two halves of its deletion

    def of(self, topic: str) -> ClaimedLogicalIndices | None:
        """Return what is kept of a topic; None before the first claim."""
        return self._claimed.get(topic)

    async def claim(self, asked: ClaimLogicalIndices) -> ClaimedLogicalIndices:
        """Keep all claims, durably, or none. Raises ``Refused`` where an index has another
        owner."""
        topic = asked.topic
        async with self._keeping:
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
            brokers = asked.brokers if asked.claims else known.brokers
            new = ClaimedLogicalIndices(claims, tuple(sorted(brokers)), deletions)
            if asked.claims and new != known:
                await self._keep(self._claimed | {topic: new})
        return new

    def _mapped(self, topic: str) -> dict[int, str]:
        """Return the owners of unclaimed older indices: the brokers with the queues' first
        segments."""
        mapping = self._logical.get(topic)
        chains = mapping.queues.values() if mapping is not None else ()
        return {chain.index: chain[0].broker_name for chain in chains if len(chain)}

    async def _keep(self, claimed: dict[str, ClaimedLogicalIndices]) -> None:
        written = {topic: self._written(topic, one) for topic, one in claimed.items()}
        try:
            with trio.CancelScope(shield=True):
                members = {topic: value for topic, (_, value) in written.items()}
                await self._topics.put_member(MEMBER, members)
        except OSError as error:
            raise refusal(f"the claims cannot be written: {disk_problem(error)}") from error
        self._claimed, self._as_json = claimed, written

    def _written(
        self, topic: str, one: ClaimedLogicalIndices
    ) -> tuple[ClaimedLogicalIndices, object]:
        """Return what is kept of a topic, and as JSON: the same object while it is unchanged."""
        known = self._as_json.get(topic)
        return known if known is not None and known[0] is one else (one, one.to_json())

    def forget(self, topic: str, deletions: int = 0) -> None:
        """Forget the claims of a deleted topic, whose indices begin again; count its deletion.

        ``deletions`` is how many there were, where others know of more. ``keep`` makes it last.
        """
        known = self._claimed.pop(topic, None)
        if known is not None:
            count = known.deletions + 1 if known.claims else known.deletions
            if count := max(count, deletions):
                self._claimed[topic] = ClaimedLogicalIndices(deletions=count)
        deleted = [name for name, one in self._claimed.items() if not one.claims]
        for name in deleted[: max(0, len(deleted) - DELETED_MAX)]:
            del self._claimed[name]

    async def keep(self) -> None:
        """Write what ``forget`` has changed. Raises ``Refused``."""
        async with self._keeping:
            await self._keep(dict(self._claimed))


def register(handlers: Handlers, indices: LogicalIndices) -> None:
    """Register the request, which a broker with the topic answers."""

    async def claim(frame: Frame, session: Session) -> Frame:
        asked = decoded(ClaimLogicalIndices, frame)
        return frame.reply(body=(await indices.claim(asked)).encode())

    handlers.add(RequestCode.CLAIM_LOGICAL_INDICES, claim)
