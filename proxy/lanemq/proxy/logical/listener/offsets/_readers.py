"""The places that the clients of a listener have read up to; none goes on past a cut.

Older clients know no segments, so the listener remembers for them which one their messages came
from, for as long as they are connected. One that comes with a place that no listener remembers,
where the queue went on past a source, may have it from that source: the group's progress counts.
"""

from typing import Final, final

from attrs import define

from lanemq.wire.frame import Frame
from lanemq.wire.logical import READ_FIELD, Chain, CommitTo, Reached, ReaderPositions
from lanemq.wire.message import is_stage_group

from ....net._session import Session
from ....sessions.state._clients import ClientRegistry
from ....sessions.values._pull_request import knows_logical_queues
from ._progress import ListenerProgress, Reader

PLACES_MAX: Final = 4096
"""Most queues, of each group, that one connection's places are remembered of."""
_ATTRIBUTE: Final = "places in logical queues"


def places_of(session: Session) -> ReaderPositions[Reader]:
    """Return the places of the readers behind a connection."""
    places: ReaderPositions[Reader] | None = session.attributes.get(_ATTRIBUTE)
    if places is None:
        places = session.attributes[_ATTRIBUTE] = ReaderPositions(PLACES_MAX)
    return places


def is_in_doubt(reader: Reader, offset: int, chain: Chain, session: Session) -> bool:
    """Return whether ``reader`` may have come to ``offset`` in a source that was gone past."""
    return chain.forced_before(offset) is not None and not places_of(session).knows(reader)


@final
@define(eq=False, kw_only=True, repr=False)
class Readers:
    """Decides where a reader goes on if the listener does not remember its place."""

    _clients: ClientRegistry[Session]
    _progress: ListenerProgress

    async def goes_on_at(
        self, reader: Reader, offset: int, chain: Chain, session: Session
    ) -> int | None:
        """Return the offset before ``offset`` at which a reader in doubt has to go on.

        That is its group's progress, as after a restart, or the cut where that is behind it. None
        for all others, and where the group has never committed: it may begin where it likes.
        Raises ``Refused`` where the progress cannot be had now.
        """
        if not is_in_doubt(reader, offset, chain, session):
            return None
        cut = chain.forced_before(offset)
        kept = await self._progress.find(*reader)
        if cut is None or kept is None:
            return None
        begin = max(cut, kept)
        return begin if begin < offset else None

    def commit_of(self, reader: Reader, offset: int, frame: Frame, session: Session) -> CommitTo:
        """Return a commit as it counts: none of a consumer in doubt does, it will commit again.

        Those that know logical queues never read here, and know their places. lanemq's own name the
        segment that they read last: by their view of the queue it may not be known yet that the
        queue went past it. Tools commit for groups that they are not members of, and wait for the
        answer. What a staged consumer notes of its stages is not a place in the queue.
        """
        commit = CommitTo.of_reader(reader, offset, places_of(session))
        if commit.is_certain or not self._knows_its_place(reader[0], frame, session):
            return commit
        _, topic, index = reader
        return CommitTo(
            offset, Reached.named(topic, index, offset, frame.fields.get(READ_FIELD, ""))
        )

    def _knows_its_place(self, group: str, frame: Frame, session: Session) -> bool:
        if knows_logical_queues(frame) or is_stage_group(group):
            return True
        members = self._clients.consumer_group(group)
        return not frame.is_oneway and (members is None or session not in members.clients)
