"""Groups' progress in logical queues: it goes with the queue to the broker that it ends on.

The commit of a migration carries it, so that it is durable at the destination before anybody
sends or reads there: a group that is offline finds its progress when every earlier broker is
gone. What is committed at the old end afterwards is passed on, and never takes progress back.
What is committed at a destination before it opens waits for what the source knows.

The old end keeps what it has. It is only ever looked at where nothing later is known, and then,
if the broker was superseded, it counts up to the end of its segment: offsets that such a broker
gave out behind it are not the logical queue's, whose messages there were not read yet. After any
other migration a group that commits an offset behind the end has read it at the next one.
"""

from collections.abc import Iterable, Mapping
from typing import Final, final

import trio

from lanemq.storage import Store, disk_problem
from lanemq.wire.logical import (
    PROGRESS_PREFIX,
    Segment,
    SegmentKey,
    SegmentState,
    parse_progress_topic,
    progress_topic,
)
from lanemq.wire.message import is_stage_group

from ....broker._peers import Peers
from ...rules._forwarding import HOPS_MAX
from ...rules._map_changes import refusal
from ...rules._mapping import TopicMapping
from ..state._state import LogicalState
from ._late_commits import CommitHere, Key, LateCommits

QUEUED_MAX: Final = 10_000
"""Most early commits that wait; beyond it the oldest are dropped, and the next one counts."""


@final
class LogicalProgress:
    """The progress that one broker keeps."""

    def __init__(
        self,
        logical: LogicalState,
        store: Store,
        peers: Peers,
        *,
        commit: CommitHere,
    ) -> None:
        self._logical = logical
        self._store = store
        self._offsets = store.tables.consumer_offsets
        self._commit = commit
        self._early: dict[Key, int] = {}
        self._cut_off: set[SegmentKey] = set()
        """Own segments with messages behind the end that their queue has for them."""
        self.late = LateCommits(logical, self._offsets, peers, commit=commit, worth=self.worth)
        """The commits to pass on to the brokers that queues end at now."""

    # Commits as they come

    def takes(self, group: str, name: str, index: int, offset: int, *, hops: int = 0) -> int | None:
        """Return the offset to keep of a commit under a ``progress_topic``; None for none yet.

        Where the queue has gone on elsewhere it is passed on as well.
        """
        parsed = parse_progress_topic(name)
        mapping = None if parsed is None else self._logical.get(parsed.topic)
        if parsed is None or mapping is None or index not in mapping.chains:
            return offset
        chain = mapping.chains[index]
        own = [s for s in chain if mapping.is_own(s) and s.delta == parsed.delta]
        waiting = chain.write_only
        is_open = any(s.state is SegmentState.NORMAL for s in own)
        if not is_open and waiting is not None and mapping.is_own(waiting):
            _put_off(self._early, (group, parsed.topic, index), offset)
            return None
        offset = self.worth(group, mapping, index, parsed.delta, offset)
        if not is_open:
            end = mapping.open_end(index)
            if end is not None and not mapping.is_own(end) and hops < HOPS_MAX:
                self.late.add((group, parsed.topic, index), offset, parsed.delta, hops)
        if not hops:
            return offset
        if is_open and not is_stage_group(group):
            offset = min(offset, self._end_of(own))
        kept = self._offsets.get(group, name, index)
        # A commit that was passed on may be old.
        return offset if kept is None or offset > kept else None

    def _end_of(self, own: list[Segment]) -> int:
        """Return the logical end of an open queue: a log may have lost what others have read."""
        return max(s.to_logical(self._store.bounds(s.topic, s.queue_id)[1]) for s in own)

    def is_late(self, group: str, name: str, index: int) -> bool:
        """Return True if a commit under a ``progress_topic`` is about to be passed on."""
        parsed = parse_progress_topic(name)
        return parsed is not None and self.late.waits((group, parsed.topic, index))

    async def passed_on(self, group: str, name: str, index: int) -> None:
        """Wait until a commit that ``is_late`` is where its queue ends now.

        No longer than a second, and not for a broker that does not answer.
        """
        parsed = parse_progress_topic(name)
        if parsed is not None:
            await self.late.tried((group, parsed.topic, index))

    def kept(self, group: str, name: str, index: int) -> int | None:
        """Return a group's offset under a ``progress_topic``, as far as it counts."""
        offset = self._offsets.get(group, name, index)
        parsed = None if offset is None else parse_progress_topic(name)
        mapping = None if parsed is None else self._logical.get(parsed.topic)
        if offset is None or parsed is None or mapping is None:
            return offset
        return self.worth(group, mapping, index, parsed.delta, offset)

    def worth(self, group: str, mapping: TopicMapping, index: int, delta: int, offset: int) -> int:
        """Bound an offset that was committed here, in segments that begin at ``delta``.

        It counts up to the end of the last of them, if the queue was taken past that; else in
        full.
        """
        chain = mapping.chain(index)
        own = [s for s in chain if mapping.is_own(s) and s.delta == delta]
        if not own or is_stage_group(group):
            return offset
        bound = max(segment.clamp_progress(offset) for segment in own)
        is_past = any(s.is_forced and s.delta >= bound for s in chain.placed if s not in own)
        return bound if is_past or any(s.key in self._cut_off for s in own) else offset

    def cut_off(self, segments: Iterable[Segment]) -> None:
        """Note own segments whose broker has messages behind their ends."""
        self._cut_off.update(segment.key for segment in segments)

    def superseded(self, sealed: Segment) -> None:
        """Bound what groups have committed in an own segment that was cut off by its end."""
        self.cut_off([sealed])
        name, index = progress_topic(sealed.topic, sealed.delta), sealed.logical_index
        for group in self._offsets.groups:
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
        origin = mapping.chain(index).origin
        for group in self._offsets.groups:
            for name in self._offsets.topics_of(group):
                delta = -1
                if name.startswith(PROGRESS_PREFIX):
                    parsed = parse_progress_topic(name)
                    if parsed is None or parsed.topic != topic:
                        continue
                    delta, queue_id = parsed.delta, index
                elif name == topic and origin is not None and mapping.is_own(origin):
                    queue_id = origin.queue_id
                else:
                    continue
                kept = self.kept if delta >= 0 else self._offsets.get
                offset = kept(group, name, queue_id)
                if offset is None or delta < found.get(group, (-2, 0))[0]:
                    continue
                if delta < 0 and origin is not None and not is_stage_group(group):
                    offset = origin.clamp_max(offset)
                found[group] = delta, offset
        return {group: offset for group, (_, offset) in found.items()}

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
        name, index = progress_topic(segment.topic, segment.delta), segment.logical_index
        for key in [k for k in self._early if k[1:] == (segment.topic, index)]:
            offset, group = self._early.pop(key), key[0]
            if offset > (self._offsets.get(group, name, index) or 0):
                self._commit(group, name, index, offset)


def _put_off(waiting: dict[Key, int], key: Key, offset: int) -> None:
    if key not in waiting and len(waiting) >= QUEUED_MAX:
        del waiting[next(iter(waiting))]
    waiting[key] = offset
