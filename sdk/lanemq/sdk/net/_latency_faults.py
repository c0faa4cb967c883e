"""Brokers that were slow or failed are left aside for a while.

Pure: the clock is an argument. Source: RocketMQ 4.9.8, MQFaultStrategy, LatencyFaultToleranceImpl.
"""

from collections.abc import Sequence
from typing import Final, final

SlowBrokerPauses = Sequence[tuple[float, float]]
"""Pairs (latency, pause), in seconds, latencies ascending: a broker that took this long is left
aside for so long."""

JAVA_PAUSES: Final = (
    (0.55, 30.0),
    (1.0, 60.0),
    (2.0, 120.0),
    (3.0, 180.0),
    (15.0, 600.0),
)
FAILURE_LATENCY_S: Final = 30.0  # a send that failed counts as one that took this long


@final
class LatencyFaults:
    """The latencies and failures of each broker's last send, by which the next is chosen."""

    def __init__(self, pauses: SlowBrokerPauses = JAVA_PAUSES) -> None:
        self._pauses = tuple(pauses)
        self._brokers: dict[str, tuple[float, float]] = {}  # latency, time when it is used again
        self._turn = 0

    def pause_s(self, latency_s: float) -> float:
        """Return for how long a broker that took ``latency_s`` is left aside."""
        pause_s = 0.0
        for from_s, value_s in self._pauses:
            if latency_s >= from_s:
                pause_s = value_s
        return pause_s

    def record(self, broker_name: str, latency_s: float, now_s: float) -> None:
        """Note that a send to ``broker_name`` succeeded after ``latency_s``."""
        self._brokers[broker_name] = latency_s, now_s + self.pause_s(latency_s)

    def record_failure(self, broker_name: str, latency_s: float, now_s: float) -> None:
        """Note that a send to ``broker_name`` failed after ``latency_s``."""
        self._brokers[broker_name] = latency_s, now_s + self.pause_s(FAILURE_LATENCY_S)

    def is_available(self, broker_name: str, now_s: float) -> bool:
        """Return whether the broker may be chosen; one nothing is known of may."""
        known = self._brokers.get(broker_name)
        return known is None or now_s >= known[1]

    def least_bad(self, broker_names: Sequence[str], now_s: float) -> str:
        """Return one of the better half of brokers none of which is available, in turns.

        Better is who is back, then who was faster, then who is back sooner.
        """

        def badness(name: str) -> tuple[bool, float, float]:
            latency_s, back_s = self._brokers.get(name, (0.0, now_s))
            return now_s < back_s, latency_s, back_s

        ranked = sorted(broker_names, key=badness)
        self._turn += 1
        return ranked[self._turn % max(1, len(ranked) // 2)]
