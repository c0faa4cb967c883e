"""Generated from lanemq.sdk.admin.requests._messages by sdk/tools/generate_faces.py."""

from lanemq.wire import SystemGroup
from lanemq.wire.bodies import ExpressionType, MessageQueue, QueryConsumeQueueBody
from lanemq.wire.message import StoredMessage

from ...admin._client import AdminClient
from ...admin.requests._messages import LONG_MAX, Pulled, PulledRecords
from .._bridge import Bridge


class MessageRequests:
    """Requests, one method each."""

    _core: AdminClient
    _bridge: Bridge

    def message_at(
        self, address: str, log_position: int, *, topic: str = ""
    ) -> StoredMessage | None:
        """Return the message at a byte of the commit log (33), None where there is none."""
        return self._bridge.call(self._core.message_at, address, log_position, topic=topic)

    def query(
        self,
        address: str,
        topic: str,
        key: str,
        *,
        unique: bool = False,
        max_count: int = 64,
        begin_ms: int = 0,
        end_ms: int = LONG_MAX,
    ) -> list[StoredMessage]:
        """Return messages of ``topic`` with a key, or with a unique key (12), newest first.

        The broker's index knows hashes only; messages with another key are left out here.
        """
        return self._bridge.call(
            self._core.query,
            address,
            topic,
            key,
            unique=unique,
            max_count=max_count,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )

    def pull(
        self,
        address: str,
        queue: MessageQueue,
        queue_offset: int,
        *,
        expression: str = "*",
        max_count: int = 32,
        group: str = SystemGroup.TOOLS_CONSUMER,
    ) -> Pulled:
        """Read a queue from ``queue_offset`` on (11), without waiting for new messages."""
        return self._bridge.call(
            self._core.pull,
            address,
            queue,
            queue_offset,
            expression=expression,
            max_count=max_count,
            group=group,
        )

    def pull_records(
        self,
        address: str,
        queue: MessageQueue,
        queue_offset: int,
        *,
        expression: str = "*",
        expression_type: str = ExpressionType.TAG.value,
        max_count: int = 32,
        group: str = SystemGroup.TOOLS_CONSUMER,
    ) -> PulledRecords:
        """Read a queue as ``pull`` does, and leave the records as they are.

        A broker judges tags by their hashes: others may be among them.
        """
        return self._bridge.call(
            self._core.pull_records,
            address,
            queue,
            queue_offset,
            expression=expression,
            expression_type=expression_type,
            max_count=max_count,
            group=group,
        )

    def queue_units(
        self, address: str, queue: MessageQueue, start: int, count: int
    ) -> QueryConsumeQueueBody:
        """Return entries of a queue's index (321)."""
        return self._bridge.call(self._core.queue_units, address, queue, start, count)
