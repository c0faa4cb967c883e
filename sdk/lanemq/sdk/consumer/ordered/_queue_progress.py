"""The progress of a staged group in one queue."""

from collections.abc import Mapping
from typing import Final, final

import msgspec

from lanemq.wire.message import StageRecord

STRATEGIES_COUNT: Final = 1
"""The stage offset of a queue's own record while the records of strategies count. A tool that
resets the group writes 0: then all strategies begin again."""


@final
class QueueProgress(msgspec.Struct, frozen=True):
    """Progress in a queue as a whole, and in each strategy's part of it.

    A record of a strategy stands by itself: every message of the strategy below its queue offset
    is finished, and the next one has its stage offset. So nothing has to be stored together, and
    no crash moves a boundary.
    """

    whole: StageRecord
    strategies: Mapping[str, StageRecord] = {}

    def at(self, offset: int) -> "QueueProgress":
        """Return the same numbers at another offset of the queue."""
        return QueueProgress(
            StageRecord(offset, self.whole.stage_offset),
            {
                name: StageRecord(offset, record.stage_offset)
                for name, record in self.strategies.items()
            },
        )
