"""What the pool of an orderly or staged listener keeps of each queue."""

from typing import final

import trio

from ._consume_stats import TopicStats
from ._held_queue import HeldQueue
from ._messages import ReceivedMessage
from ._queue_locks import Lease
from ._stage_scheduler import Batch, StageScheduler

Scheduler = StageScheduler[ReceivedMessage]
Messages = Batch[ReceivedMessage]


@final
class Place:
    """One queue, however often it is lost and held again."""

    __slots__ = ("lane",)

    def __init__(self) -> None:
        self.lane: Lane | None = None  # of the time when it was held last


@final
class Lane:
    """One queue while it is held: its scheduler, and how many handlers run."""

    __slots__ = (
        "before",
        "held",
        "idle",
        "lease",
        "place",
        "queued",
        "retired",
        "running",
        "saving",
        "scheduler",
        "stats",
    )

    def __init__(
        self,
        held: HeldQueue,
        scheduler: Scheduler,
        place: Place,
        lease: Lease | None,
        stats: TopicStats,
    ) -> None:
        self.held = held
        self.scheduler = scheduler
        self.place = place
        self.lease = lease
        self.stats = stats
        self.running = 0
        # Handlers that still run from when the queue was held before; nothing begins beside them.
        last = place.lane
        self.before: int = 0 if last is None else last.before + last.running
        self.queued = False  # among those that workers look at next
        self.retired = False  # nothing is handed out any more
        self.saving = False
        self.idle: trio.Event | None = None
