"""Statistics of a consumer, by topic, over the last minute. No clock: the time is an argument.

Source: RocketMQ 4.9.8, ConsumerStatsManager.
"""

from collections import deque
from typing import Final, final

from lanemq.wire.bodies import ConsumeStatus

WINDOW_S: Final = 60.0
SAMPLE_S: Final = 5.0


class _Counts:
    __slots__ = ("consume_s", "failed", "ok", "pull_s", "pulled", "pulls")

    def __init__(self) -> None:
        self.ok = self.failed = self.pulled = self.pulls = 0
        self.consume_s = self.pull_s = 0.0


@final
class TopicStats:
    """Counters of one topic, in slices of ``SAMPLE_S`` seconds."""

    def __init__(self, now_s: float) -> None:
        self._started_s = now_s
        self._slices: deque[tuple[float, _Counts]] = deque()
        self.failed_total = 0

    def _now(self, now_s: float) -> _Counts:
        slices = self._slices
        if slices and now_s - slices[-1][0] < SAMPLE_S:
            return slices[-1][1]
        while slices and now_s - slices[0][0] > WINDOW_S:
            slices.popleft()
        counts = _Counts()
        slices.append((now_s, counts))
        return counts

    def pulled(self, now_s: float, messages: int, spent_s: float) -> None:
        counts = self._now(now_s)
        counts.pulls += 1
        counts.pulled += messages
        counts.pull_s += spent_s

    def consumed(self, now_s: float, messages: int, spent_s: float, *, ok: bool) -> None:
        counts = self._now(now_s)
        counts.consume_s += spent_s
        if ok:
            counts.ok += messages
        else:
            counts.failed += messages
            self.failed_total += messages

    def status(self, now_s: float) -> ConsumeStatus:
        """Return rates per second and mean times in milliseconds."""
        recent = [counts for start_s, counts in self._slices if now_s - start_s <= WINDOW_S]
        span_s = max(min(now_s - self._started_s, WINDOW_S), 1.0)
        ok, failed = sum(c.ok for c in recent), sum(c.failed for c in recent)
        pulls = sum(c.pulls for c in recent)
        return ConsumeStatus(
            pull_rt=sum(c.pull_s for c in recent) * 1000 / max(pulls, 1),
            pull_tps=sum(c.pulled for c in recent) / span_s,
            consume_rt=sum(c.consume_s for c in recent) * 1000 / max(ok + failed, 1),
            consume_ok_tps=ok / span_s,
            consume_failed_tps=failed / span_s,
            consume_failed_msgs=self.failed_total,
        )
