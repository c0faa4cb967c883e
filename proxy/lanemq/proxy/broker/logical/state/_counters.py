"""The counters of a broker's logical queues."""

from typing import final

from lanemq.wire.logical import SegmentKey


@final
class LogicalCounters:
    """The counters of logical queues since the broker started."""

    def __init__(self) -> None:
        self.redirects = 0
        self.forwards = 0
        self.forwards_failed = 0
        self.seals = 0
        self.seals_failed = 0
        self.seal_ms_max = 0
        self.in_flight_at_seal_max = 0
        self.superseded: dict[SegmentKey, int] = {}
        """Messages behind a superseded segment that are in no logical queue, by segment."""
        self.alarms: dict[SegmentKey, str] = {}
        """Alarms for the operator, by segment."""
