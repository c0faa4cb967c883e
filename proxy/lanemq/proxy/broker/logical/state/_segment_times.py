"""The times at which a broker's own segments changed their states, and their predecessors.

They are kept in memory only: what a start has forgotten is taken for as old as the start.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar, final

from lanemq.wire.logical import Segment, SegmentKey, SegmentState

from ....logical.rules._mapping import TopicMapping

MANY: Final = 1000
CLOSED_MS: Final = 60_000
KNOWN_MS: Final = 60_000
"""Milliseconds after which clients know a change: those of 5.0.0-PREVIEW look at their route every
30 s."""
OPENED_MANY: Final = 10_000

_Time = TypeVar("_Time", int, float)


@final
class SegmentTimes:
    """The times of one broker's own segments. ``now_s`` is a clock without jumps."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._started_s = now_s()
        self._opened_s: dict[SegmentKey, float] = {}
        self.expired_ms: dict[SegmentKey, int] = {}
        """Own segment -> time since which it is known to be expired."""
        self.sealed_ms: dict[SegmentKey, int] = {}
        """Own sealed segment without messages, which clients may have read -> time of the seal."""
        self.opened_after: dict[SegmentKey, Segment] = {}
        """Own segment that was opened since the start -> the one that the queue ended with before;
        the latest ones."""
        self.closed_ms: dict[SegmentKey, int] = {}
        """Own segment that was sealed since the start -> time of that, for a minute at least."""
        self.write_only_ms: dict[SegmentKey, int] = {}
        """Own destination without a known logical offset -> time since which it is there."""

    def note(self, mapping: TopicMapping, before: TopicMapping | None, now_ms: int) -> None:
        """Remember the times since which own destinations wait for their place, and segments are
        expired.

        One that never had a message may be a destination again. ``before`` is the mapping until
        now; None at the start.
        """
        own = {segment.key: segment.state for segment in mapping.own()}
        states = None if before is None else {s.key: s.state for s in before.own()}
        if states is not None:
            self._note_ends(mapping, states, now_ms)
        for key, state in own.items():
            if state is SegmentState.WRITE_ONLY:
                self.write_only_ms.setdefault(key, now_ms)
            if state is SegmentState.EXPIRED:
                self.expired_ms.setdefault(key, now_ms)
                last = SegmentState.NORMAL if states is None else states.get(key)
                if last is SegmentState.NORMAL:
                    self.sealed_ms.setdefault(key, now_ms)
            else:
                self.expired_ms.pop(key, None)
                self.sealed_ms.pop(key, None)
        for key in list(self.write_only_ms):
            if key.topic == mapping.topic and own.get(key) is not SegmentState.WRITE_ONLY:
                del self.write_only_ms[key]

    def _note_ends(
        self, mapping: TopicMapping, before: Mapping[SegmentKey, SegmentState], now_ms: int
    ) -> None:
        """Remember which own segments a change has opened and sealed, for locks and for readers.

        ``before`` are their states until now.
        """
        open_now = {s.key: s for s in mapping.own() if s.state is SegmentState.NORMAL}
        open_before = {key for key, state in before.items() if state is SegmentState.NORMAL}
        self.closed_ms |= dict.fromkeys(open_before - open_now.keys(), now_ms)
        opened = open_now.keys() - open_before
        now_s = self._now_s()
        self._opened_s |= dict.fromkeys(opened, now_s)
        for key in opened:
            earlier = mapping.before(open_now[key])
            if earlier is not None:
                self.opened_after[key] = earlier
        for key in list(self.opened_after)[:-OPENED_MANY]:
            del self.opened_after[key]
        self.closed_ms = _since(now_ms - CLOSED_MS, self.closed_ms)
        self._opened_s = _since(now_s - KNOWN_MS / 1000, self._opened_s)

    def is_new(self, segment: Segment) -> bool:
        """Return whether clients may not know an own segment yet, since it was opened lately."""
        age_s = self._now_s() - self._opened_s.get(segment.key, self._started_s)
        return age_s * 1000 < KNOWN_MS


def _since(begin: _Time, times: dict[SegmentKey, _Time]) -> dict[SegmentKey, _Time]:
    """Leave out the times up to ``begin`` where there are many."""
    if len(times) <= MANY:
        return times
    return {key: time for key, time in times.items() if time > begin}
