"""Extended units: their tags code is a place in ``consumequeue_ext`` instead of the code itself.

Apache's brokers write them with ``enableConsumeQueueExt=true``. What the extension has of the
message (tags code, store time) is in its record, too, and Apache itself calls the extension weakly
reliable: so the code is made from the record, and the extension is never needed.
Source: RocketMQ 5.3.3, ConsumeQueueExt.isExtAddr.
"""

from typing import final

from .._layouts import BLANK_SIZE
from ..log._commit_log import CommitLog
from ..log._records import record_ends
from ..queues._tags import TagsCodes


@final
class ExtendedUnits:
    """The tags codes of extended units, from the log."""

    def __init__(self, log: CommitLog, tags: TagsCodes) -> None:
        self._log = log
        self._tags = tags

    def tags_code(self, log_position: int, size_bytes: int) -> int | None:
        """Return the tags code of the message at a position; None where it is gone or damaged."""
        if size_bytes == BLANK_SIZE:
            return None
        ends = record_ends(self._log.read, log_position, size_bytes)
        return self._tags.code(*ends) if ends is not None else None
