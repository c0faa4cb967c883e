"""Groups' progress in logical queues: it goes with the queue to the broker that it ends on.

The commit of a migration carries it, so that it is durable at the destination before anybody
sends or reads there: a group that is offline finds its progress when every earlier broker is
gone. What is committed at the old end afterwards is passed on, and never takes progress back.
What is committed at a destination before it opens waits for what the source knows.

The old end keeps what it has. It is only ever looked at where nothing later is known, or by an
older view. Whoever commits behind the end of its segment has read the segments behind it, and so
has an older view of where progress is kept. Not so where the queue went on past this broker: the
offsets that it gave out behind that place are not the logical queue's, whose messages there were
not read yet, so a commit counts up to there.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.storage import OffsetTable, disk_problem
from lanemq.wire import Refused, RequestCode
from lanemq.wire.frame import request
from lanemq.wire.headers import UpdateConsumerOffset
from lanemq.wire.logical import (
    HOPS_FIELD,
    Chain,
    Segment,
    SegmentState,
    parse_progress_topic,
    progress_topic,
)
from lanemq.wire.message import is_stage_group

from ....logical.rules._forwarding import HOPS_MAX
from ....logical.rules._mapping import TopicMapping
from ....logical.rules._refusals import refusal
from ....net._loop_watch import asking_host
from ....net.limits._owned_entries import OwnedEntries
from ...cluster._peers import Peers
from ._state import LogicalState

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

QUEUED_MAX: Final = 10_000
"""Most late and early commits that wait, of which an address has a share; beyond it its oldest are
dropped, and the next one counts."""
OLD_ENDS_MAX: Final = 1000
"""Former ends of a queue, beside those of its chain, whose progress a migration carries."""
RETRY_S: Final = 1.0
TELL_S: Final = 2.0

Key = tuple[str, str, int]
"""Group, topic, index."""


@final
class LogicalProgress:
    """The progress that one broker keeps; ``run`` is the task that passes commits on."""

    def __init__(
        self,
        logical: LogicalState,
        offsets: OffsetTable,
        peers: Peers,
        *,
        commit: Callable[[str, str, int, int], None],
    ) -> None:
        """Take the parts; ``commit`` keeps the offset of a group, topic and queue in
        ``offsets``."""
        self._logical = logical
        self._offsets = offsets
        self._peers = peers
        self._commit = commit
        self._late = OwnedEntries[Key, tuple[int, int]](QUEUED_MAX, asking_host)
        """Offset to pass on, and the number of times it was passed on before."""
        self._early = OwnedEntries[Key, int](QUEUED_MAX, asking_host)
        self._wake = trio.Event()

    # Commits as they come

    def takes(self, group: str, name: str, index: int, offset: int, *, hops: int = 0) -> int | None:
        """Return the offset to keep of a commit under a ``progress_topic``; None for none yet.

        Where the queue has gone on elsewhere it is passed on as well.
        """
        parsed = parse_progress_topic(name)
        mapping = None if parsed is None else self._logical.get(parsed.topic)
        if parsed is None or mapping is None or index not in mapping.queues:
            return offset
        chain = mapping.queues[index]
        own = [s for s in chain if mapping.is_own(s) and s.delta == parsed.delta]
        waiting = chain.write_only
        is_open = any(s.state is SegmentState.NORMAL for s in own)
        if not is_open and waiting is not None and mapping.is_own(waiting):
            self._early.put((group, parsed.topic, index), offset)
            return None
        offset = self._worth(group, chain, own, offset)
        if is_open:
            if hops:
                offset = self._up_to_end(own[-1], group, offset)
        else:
            end = mapping.open_end(index)
            if end is not None and mapping.is_own(end):
                self._commit_at(end, group, offset)  # it has been elsewhere, and has come back
            elif end is not None and hops < HOPS_MAX:
                self._late.put((group, parsed.topic, index), (offset, hops))
                self._wake.set()
        kept = self._offsets.get(group, name, index) if hops else None
        if kept is not None and offset <= kept:
            return None  # a commit that was passed on may be old
        return offset

    def kept(self, group: str, name: str, index: int) -> int | None:
        """Return a group's offset under a ``progress_topic``, as far as it counts."""
        offset = self._offsets.get(group, name, index)
        parsed = None if offset is None else parse_progress_topic(name)
        mapping = None if parsed is None else self._logical.get(parsed.topic)
        if offset is None or parsed is None or mapping is None:
            return offset
        chain = mapping.chain(index)
        own = [s for s in chain if mapping.is_own(s) and s.delta == parsed.delta]
        return self._worth(group, chain, own, offset)

    @staticmethod
    def _worth(group: str, chain: Chain, own: list[Segment], offset: int) -> int:
        """Bound ``offset`` by the segment of ``own`` that ends last, if the queue has gone on past
        a source before it; all begin together."""
        if not own or is_stage_group(group) or chain.forced_before(offset) is None:
            return offset
        return max(segment.clamp_progress(offset) for segment in own)

    def superseded(self, sealed: Segment) -> None:
        """Bound what groups have committed in an own segment that was cut off by its end."""
        name, index = progress_topic(sealed.topic, sealed.delta), sealed.logical_index
        for group in self._offsets.groups_of(name):
            offset = self._offsets.get(group, name, index)
            if offset is not None and not is_stage_group(group):
                self._offsets.put(group, name, index, sealed.clamp_progress(offset))

    # Migrations

    def of(self, mapping: TopicMapping, segment: Segment) -> dict[str, int]:
        """Return group -> logical offset in the logical queue of an own segment, as kept here.

        Of what a group committed at several of the queue's ends, the last end's counts; of a group
        that only ever read the physical queue that the logical one began as, that.
        """
        topic, index = segment.topic, segment.logical_index
        found: dict[str, tuple[int, int]] = {}
        chain = mapping.chain(index)
        origin = chain.origin
        if origin is not None and mapping.is_own(origin):
            for group in self._offsets.groups_of(topic):
                offset = self._offsets.get(group, topic, origin.queue_id)
                if offset is not None:
                    bound = offset if is_stage_group(group) else origin.clamp_max(offset)
                    found[group] = -1, bound
        for delta in self._ends(chain, segment):
            name = progress_topic(topic, delta)
            for group in self._offsets.groups_of(name):
                offset = self.kept(group, name, index)
                if offset is not None and delta >= found.get(group, (-2, 0))[0]:
                    found[group] = delta, offset
        return {group: offset for group, (_, offset) in found.items()}

    def _ends(self, chain: Chain, last: Segment) -> Iterable[int]:
        """Return the deltas up to ``last``'s under which groups have progress in its topic: those
        of its chain, and the latest of others, which may have been of segments that expired.
        Whoever commits chooses the delta, so not all of those are looked at."""
        known = {one.delta for one in chain.segments}
        ending = f"%{last.topic}"
        parsed = map(parse_progress_topic, [n for n in self._offsets.topics if n.endswith(ending)])
        others = {one.delta for one in parsed if one is not None and one.topic == last.topic}
        others = {delta for delta in others - known if delta < last.delta}
        return known.union(heapq.nlargest(OLD_ENDS_MAX, others))

    async def keep(self, opened: Segment, progress: Mapping[str, int]) -> None:
        """Keep the progress that a migration carried, durably, before its destination opens.

        Raises ``Refused`` where the disk does not take it.
        """
        name, index = progress_topic(opened.topic, opened.delta), opened.logical_index
        for group, offset in progress.items():
            self._offsets.put(group, name, index, offset)
        if progress:
            try:
                with trio.CancelScope(shield=True):
                    await self._offsets.persist_in_turns()
                    await self._offsets.backend.sync()
            except OSError as error:
                raise refusal(
                    f"the groups' progress cannot be written: {disk_problem(error)}"
                ) from error

    def opened(self, segment: Segment) -> None:
        """Apply the commits made before a destination opened, where they are later than the kept
        ones."""
        for key in [k for k in self._early if k[1:] == (segment.topic, segment.logical_index)]:
            offset = self._early.pop(key)
            if offset is not None:
                self._commit_at(segment, key[0], offset)

    def _commit_at(self, end: Segment, group: str, offset: int) -> None:
        """Keep an offset at the own open end of a queue, if it is later than what is kept there."""
        name, index = progress_topic(end.topic, end.delta), end.logical_index
        offset = self._up_to_end(end, group, offset)
        if offset > (self._offsets.get(group, name, index) or 0):
            self._commit(group, name, index, offset)

    def _up_to_end(self, end: Segment, group: str, offset: int) -> int:
        """Bound an offset that was committed elsewhere by what the queue has: a broker that lost
        messages in a crash may have been told of them."""
        if is_stage_group(group):
            return offset
        return min(offset, end.to_logical(self._logical.end_offset(end.topic, end.queue_id)))

    async def run(self) -> None:
        """Pass on commits made at former ends of queues, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._late:
                for key in list(self._late):
                    waiting = self._late.get(key)
                    if waiting is None:
                        continue  # dropped while another was passed on: too many wait
                    if await self._pass_on(key, *waiting):
                        self._late.pop(key)
                if self._late:
                    await trio.sleep(RETRY_S)

    async def _pass_on(self, key: Key, offset: int, hops: int) -> bool:
        """Pass a commit on; return whether it is done with, passed on or given up."""
        group, topic, index = key
        mapping = self._logical.get(topic)
        end = None if mapping is None else mapping.open_end(index)
        if mapping is None or end is None:
            return True
        if end.state is SegmentState.WRITE_ONLY:
            return False  # it has to open first
        if mapping.is_own(end):
            return True  # the migration was called off; it is kept here
        header = UpdateConsumerOffset(group, progress_topic(topic, end.delta), index, offset)
        fields = header.to_fields() | {HOPS_FIELD: str(hops + 1)}
        asked = request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        try:
            await self._peers.call(end.broker_name, end.broker_address, asked, TELL_S)
        except Refused as error:
            LOGGER.info("progress of %s in %s was not passed on: %s", group, end, error.remark)
        return self._late.get(key) == (offset, hops)
