"""The times at which a broker's own segments changed their states, and their predecessors.

They are kept in memory only: what a start has forgotten is taken for as old as the start. Ages are
spans, so the times are those of a clock that is never set.
"""

from collections.abc import Callable, Mapping
from typing import Final, final

from lanemq.wire.logical import Segment, SegmentKey, SegmentState

from ....logical.rules._mapping import TopicMapping

MANY: Final = 1000
CLOSED_S: Final = 60.0
KNOWN_S: Final = 60.0
"""Seconds after which clients know a change: those of 5.0.0-PREVIEW look at their route every
30 s."""
OPENED_MANY: Final = 10_000


@final
class SegmentTimes:
    """The times of one broker's own segments, in seconds of ``now_s``, a clock without jumps."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._started_s = now_s()
        self._opened_s: dict[SegmentKey, float] = {}
        self.expired_s: dict[SegmentKey, float] = {}
        """Own segment -> time since which it is known to be expired."""
        self.sealed_s: dict[SegmentKey, float] = {}
        """Own sealed segment without messages, which clients may have read -> time of the seal."""
        self.opened_after: dict[SegmentKey, Segment] = {}
        """Own segment that was opened since the start -> the one that the queue ended with before;
        the latest ones."""
        self.closed_s: dict[SegmentKey, float] = {}
        """Own segment that was sealed since the start -> time of that, for a minute at least."""
        self.write_only_s: dict[SegmentKey, float] = {}
        """Own destination without a known logical offset -> time since which it is there."""

    def note(self, mapping: TopicMapping, before: TopicMapping | None) -> None:
        """Remember the times since which own destinations wait for their place, and segments are
        expired.

        One that never had a message may be a destination again. ``before`` is the mapping until
        now; None at the start.
        """
        now_s = self._now_s()
        indices = None if before is None else mapping.queues.differing(before.queues)
        own = {segment.key: segment.state for segment in mapping.own(indices)}
        states = None if before is None else {s.key: s.state for s in before.own(indices)}
        if states is not None:
            self._note_ends(mapping, own, states, now_s)
            for key in states.keys() - own.keys():
                self.expired_s.pop(key, None)
        for key, state in own.items():
            if state is SegmentState.WRITE_ONLY:
                self.write_only_s.setdefault(key, now_s)
            if state is SegmentState.EXPIRED:
                self.expired_s.setdefault(key, now_s)
                last = SegmentState.NORMAL if states is None else states.get(key)
                if last is SegmentState.NORMAL:
                    self.sealed_s.setdefault(key, now_s)
            else:
                self.expired_s.pop(key, None)
                self.sealed_s.pop(key, None)
        for key in [key for key in self.write_only_s if key.topic == mapping.topic]:
            found = mapping.find(key)
            if found is None or found.state is not SegmentState.WRITE_ONLY:
                del self.write_only_s[key]

    def _note_ends(
        self,
        mapping: TopicMapping,
        now: Mapping[SegmentKey, SegmentState],
        before: Mapping[SegmentKey, SegmentState],
        now_s: float,
    ) -> None:
        """Remember which own segments a change has opened and sealed, for locks and for readers.

        ``before`` are the states that those which it touches had until now.
        """
        open_now, open_before = (
            {key for key, state in states.items() if state is SegmentState.NORMAL}
            for states in (now, before)
        )
        self.closed_s |= dict.fromkeys(open_before - open_now, now_s)
        opened = open_now - open_before
        self._opened_s |= dict.fromkeys(opened, now_s)
        for key in opened:
            segment = mapping.find(key)
            earlier = None if segment is None else mapping.before(segment)
            if earlier is not None:
                self.opened_after[key] = earlier
        for key in list(self.opened_after)[:-OPENED_MANY]:
            del self.opened_after[key]
        self.closed_s = _since(now_s - CLOSED_S, self.closed_s)
        self._opened_s = _since(now_s - KNOWN_S, self._opened_s)

    def sealed_lately(self, segment: Segment) -> bool:
        """Return whether clients may still read an own segment that was sealed without messages."""
        since_s = self.sealed_s.get(segment.key)
        return since_s is not None and self._now_s() - since_s < KNOWN_S

    def waiting_s(self, segment: Segment) -> float:
        """Return the age of an own destination without a known logical offset."""
        now_s = self._now_s()
        return now_s - self.write_only_s.get(segment.key, now_s)

    def expired_before(self, keep_s: float) -> set[SegmentKey]:
        """Return the own segments that are known to be expired for longer than ``keep_s``."""
        before_s = self._now_s() - keep_s
        return {key for key, since_s in self.expired_s.items() if since_s < before_s}

    def is_new(self, segment: Segment) -> bool:
        """Return whether clients may not know an own segment yet, since it was opened lately."""
        age_s = self._now_s() - self._opened_s.get(segment.key, self._started_s)
        return age_s < KNOWN_S


def _since(begin_s: float, times: dict[SegmentKey, float]) -> dict[SegmentKey, float]:
    """Leave out the times up to ``begin_s`` where there are many."""
    if len(times) <= MANY:
        return times
    return {key: time for key, time in times.items() if time > begin_s}
