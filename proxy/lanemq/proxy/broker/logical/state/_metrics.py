"""The part of a broker's runtime information about its logical queues.

The keys are lanemq's own; a broker without logical queues has none of them.
"""

from collections import Counter

from lanemq.wire.logical import Segment, SegmentState

from ....logical.rules._journal import Phase
from ._state import LogicalState


def logical_info(logical: LogicalState, now_ms: int) -> dict[str, str]:
    """Return the numbers of segments, migrations, seals, redirects and forwards, and the alarms.

    Counts are since the start; times and ages are in milliseconds.
    """
    if not logical.mappings:
        return {}
    counters = logical.counters
    own = [segment for mapping in logical.mappings.values() for segment in mapping.own()]
    states = Counter(segment.state for segment in own)
    phases = Counter(migration.phase for migration in logical.journal.all())
    started_ms = [migration.started_ms for migration in logical.journal.all()]
    waiting_s = [logical.times.waiting_s(segment) for segment in own if _has_no_place(segment)]
    info = {f"logicalQueueSegments_{state.value}": str(states[state]) for state in SegmentState}
    info |= {f"logicalQueueMigrations_{phase.value}": str(phases[phase]) for phase in Phase}
    info |= {
        "logicalQueueMigrationAgeMax": str(max(0, now_ms - min(started_ms, default=now_ms))),
        "logicalQueueWriteOnlyAgeMax": str(round(max(waiting_s, default=0.0) * 1000)),
        "logicalQueueSeals": str(counters.seals),
        "logicalQueueSealsFailed": str(counters.seals_failed),
        "logicalQueueSealTimeMax": str(counters.seal_ms_max),
        "logicalQueueInFlightAtSealMax": str(counters.in_flight_at_seal_max),
        "logicalQueueRedirects": str(counters.redirects),
        "logicalQueueForwards": str(counters.forwards),
        "logicalQueueForwardsFailed": str(counters.forwards_failed),
        "logicalQueueSupersededMessages": str(sum(counters.superseded.values())),
    }
    for key, text in counters.alarms.items():
        info[f"logicalQueueAlarm_{key.topic}_{key.queue_id}_{key.offset_delta}"] = text
    return info


def _has_no_place(segment: Segment) -> bool:
    return segment.state is SegmentState.WRITE_ONLY and segment.delta < 0
