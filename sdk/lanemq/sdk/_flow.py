"""When a queue is full enough to stop pulling."""

from dataclasses import dataclass
from typing import Any

from ._process_queue import ProcessQueue


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowLimits:
    """What one queue may hold before its pulls pause; the defaults are the Java client's.

    A limit may be passed by what one pull brings.
    """

    messages: int = 1000
    """Messages pulled and not yet settled."""
    size_bytes: int = 100 << 20
    """Bytes of those messages, as stored."""
    span: int = 2000
    """Distance in offsets between the first and the last of those messages."""

    def __post_init__(self) -> None:
        for name in ("messages", "size_bytes", "span"):
            if getattr(self, name) < 1:
                raise ValueError(f"FlowLimits.{name} must be at least 1")

    def exceeded_by(self, queue: ProcessQueue[Any]) -> str | None:
        """Which limit holds the queue back, in words, or None if it may pull."""
        if queue.count > self.messages:
            return f"{queue.count} messages are not settled yet"
        if queue.size_bytes > self.size_bytes:
            return f"{queue.size_bytes} bytes are not settled yet"
        if queue.span > self.span:
            return f"the first unsettled message is {queue.span} behind the last"
        return None
