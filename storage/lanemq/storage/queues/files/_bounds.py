"""The begin and end of each queue in files, kept up to date queue by queue.

A store may have very many queues, and most of them are as they were a minute ago: only those that
changed are looked at again, and no turn of the event loop looks at more than ``SLICE`` of them.
"""

from collections.abc import Iterable, Mapping
from typing import Final, final

import trio

from ._consume_queue import FileConsumeQueue

QueueBounds = dict[str, dict[int, tuple[int, int]]]
"""Topic -> queue id -> offset of the first unit in files, offset behind the last one."""
SLICE: Final = 1000
"""Queues that one turn looks at; a queue takes about a microsecond."""
PASSES_MAX: Final = 8
"""Passes over what changed during the pass before. Looking at a queue takes a fraction of what the
message took that changed it, so each has much less to do."""
Key = tuple[str, int]


@final
class KeptBounds:
    """The bounds of the queues of one table. ``changed`` reports changes."""

    def __init__(self, queues: Mapping[Key, FileConsumeQueue]) -> None:
        self._queues = queues
        self._bounds: QueueBounds = {}
        self._changed: dict[Key, None] | None = None
        """Queues to look at again; None for all, at first."""

    def changed(self, queues: Iterable[FileConsumeQueue]) -> None:
        """Note that the bounds of queues have changed."""
        if self._changed is not None:
            self._changed.update(((queue.topic, queue.queue_id), None) for queue in queues)

    def forget(self, topic: str) -> None:
        """Forget the queues of a topic, which are removed."""
        self._bounds.pop(topic, None)

    async def catch_up(self) -> None:
        """Look at what changed, in slices; what changes meanwhile is left for ``now``."""
        for _ in range(PASSES_MAX):
            keys = list(self._to_look_at())
            for begin in range(0, len(keys), SLICE):
                self._look_at(keys[begin : begin + SLICE])
                await trio.lowlevel.checkpoint()
            if len(self._to_look_at()) <= SLICE:
                return

    def now(self) -> QueueBounds:
        """Return the bounds of the queues that have units, as of this moment.

        The dictionaries are those that go on being kept: topics may leave them, and none changes
        otherwise before the next ``catch_up`` or ``now``.
        """
        self._look_at(list(self._to_look_at()))
        return self._bounds

    def _to_look_at(self) -> dict[Key, None]:
        if self._changed is None:
            self._changed = dict.fromkeys(self._queues)
        return self._changed

    def _look_at(self, keys: Iterable[Key]) -> None:
        changed = self._to_look_at()
        for key in keys:
            changed.pop(key, None)
            queue = self._queues.get(key)
            if queue is not None and queue.end:
                self._bounds.setdefault(key[0], {})[key[1]] = queue.file_begin, queue.end
