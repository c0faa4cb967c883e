"""The rules of logical queues, as servers apply them.

Pure: mappings, what an operation makes of them, and what may be read and written where. Nothing
here knows a socket, a disk or a clock.
"""

from ._forwarding import (
    BORN_HOST_FIELD,
    HOPS_FIELD,
    HOPS_MAX,
    ORIGIN_ID_FIELD,
    born_host_of,
    flags_field,
    forwarded,
    half_forbidden,
    hops_of,
    is_half,
    queue_field,
    relayed,
)
from ._gate import Gate, Key, SegmentClosed
from ._growth import IN_PROGRESS, check_reusable, check_state, new_segment
from ._journal import FILE_NAME as JOURNAL_FILE
from ._journal import Journal, Migration, Phase
from ._map_changes import (
    ALREADY_SET_UP,
    DELETED,
    check_deletable,
    map_queue,
    mapped_queues,
    refusal,
    unmap_queue,
)
from ._mapping import TopicMapping, touched
from ._migration import Move, begin_prepare, committed, notified, prepared, took_place
from ._reading import (
    REMOVED,
    GoOn,
    LookAnew,
    Read,
    Wait,
    gone_on_at,
    is_continued,
    plan_read,
    queue_max,
    queue_min,
    redirect_from,
    to_the_end,
)
from ._retire import expired, swept
from ._superseded import FILE_NAME as SUPERSEDED_FILE
from ._superseded import MEMBER as SUPERSEDED_MEMBER
from ._superseded import ORIGIN_PROPERTY, Superseded, superseded_entries
from ._view import (
    destinations,
    is_superseded,
    merged,
    progress,
    reopened,
    rivals,
    superseded_end,
    without_forgotten,
)

__all__ = [
    "ALREADY_SET_UP",
    "BORN_HOST_FIELD",
    "DELETED",
    "HOPS_FIELD",
    "HOPS_MAX",
    "IN_PROGRESS",
    "JOURNAL_FILE",
    "ORIGIN_ID_FIELD",
    "ORIGIN_PROPERTY",
    "REMOVED",
    "SUPERSEDED_FILE",
    "SUPERSEDED_MEMBER",
    "Gate",
    "GoOn",
    "Journal",
    "Key",
    "LookAnew",
    "Migration",
    "Move",
    "Phase",
    "Read",
    "SegmentClosed",
    "Superseded",
    "TopicMapping",
    "Wait",
    "begin_prepare",
    "born_host_of",
    "check_deletable",
    "check_reusable",
    "check_state",
    "committed",
    "destinations",
    "expired",
    "flags_field",
    "forwarded",
    "gone_on_at",
    "half_forbidden",
    "hops_of",
    "is_continued",
    "is_half",
    "is_superseded",
    "map_queue",
    "mapped_queues",
    "merged",
    "new_segment",
    "notified",
    "plan_read",
    "prepared",
    "progress",
    "queue_field",
    "queue_max",
    "queue_min",
    "redirect_from",
    "refusal",
    "relayed",
    "reopened",
    "rivals",
    "superseded_end",
    "superseded_entries",
    "swept",
    "to_the_end",
    "took_place",
    "touched",
    "unmap_queue",
    "without_forgotten",
]
